"""What becomes of a reprovision whose apply did not do everything."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from rigops.capture.document import Capture, document
from rigops.cli import reprovision_run
from rigops.converge.result import Blocked, HostResult
from rigops.errors import HostError, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable

    from rigops.reprovision.result import ReprovisionResult

BLOCKED = HostResult("a", "changed", blocked=(Blocked("cpu", ("rigops_cpu",), "no such policy"),))
FAILED = HostResult("a", "failed", error=HostError("failed", "no space left", "make some"))
CHANGED = HostResult("a", "changed")
BEFORE = ["trust", "bootstrap", "disks"]
AFTER = ["restore", "host keys", "verify", "compare"]


class Data:
    """What was backed up: nothing."""

    def restore(self) -> None:
        pass

    def host_keys(self) -> None:
        pass


@pytest.fixture
def reprovision(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., ReprovisionResult]:
    """Of a host that has every stage behind it in no time but apply, which has these results."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    inventory = tmp_path / "inventory.py"
    inventory.write_text('rigs = ["a", "@local"]\n')
    place = tmp_path / "data/rigops/vault/captures/a/20261125T163000Z"
    place.mkdir(parents=True)
    found = Capture(host="a", status="safe", at="2026-11-25T16:30:00Z", place=str(place))
    (place / "capture.json").write_text(json.dumps(document([found])))

    def run(
        *results: HostResult, host: str = "a", was: str = "a", moves_settings: bool = False
    ) -> ReprovisionResult:
        left = list(results)
        for stage in ("trust", "bootstrap", "disks", "verify", "compare"):
            monkeypatch.setattr(reprovision_run._Run, f"_{stage}", lambda _: None)
        monkeypatch.setattr(reprovision_run._Run, "_data", lambda _: Data())
        monkeypatch.setattr(reprovision_run._Run, "_apply_once", lambda _: left.pop(0))
        monkeypatch.setattr(reprovision_run._Run, "_moves_settings", lambda _: moves_settings)
        options = reprovision_run.Options(
            host=host,
            inventory_path=inventory,
            captured_as=was,
            accepted_keys=frozenset(),
            asks_password=False,
            asks_sudo_password=False,
            yes=True,
            reboot="auto",
            adopts_parts=False,
            accepts_no_trial=False,
        )
        done = reprovision_run.run(options)
        assert not left
        return done

    return run


def stages(done: ReprovisionResult) -> list[str]:
    return [one.stage for one in done.stages]


def test_where_something_is_blocked_data_comes_back_and_it_failed_all_the_same(
    reprovision: Callable[..., ReprovisionResult],
) -> None:
    done = reprovision(BLOCKED)

    assert stages(done) == [*BEFORE, "apply", *AFTER]
    assert {one.outcome for one in done.stages} == {"done"}
    assert (done.ending, done.exit_code) == ("failed", 1)
    assert done.error is not None
    assert (done.error.kind, done.error.message) == ("blocked", "cpu: no such policy")


@pytest.mark.parametrize("first", [BLOCKED, FAILED])
def test_with_the_settings_of_a_card_moved_it_is_applied_again(
    reprovision: Callable[..., ReprovisionResult], first: HostResult
) -> None:
    done = reprovision(first, CHANGED, moves_settings=True)

    assert stages(done) == [*BEFORE, "apply", *AFTER]
    assert (done.ending, done.error) == ("compared", None)


@pytest.mark.parametrize(
    ("result", "says"),
    [
        (FAILED, "no space left"),
        (HostResult("a", "reboot_owed", reboot_reasons=("a new kernel",)), "a new kernel"),
        (HostResult("a", "interrupted"), "not finished: interrupted"),
    ],
)
def test_an_apply_that_did_not_get_to_its_end_ends_it(
    reprovision: Callable[..., ReprovisionResult], result: HostResult, says: str
) -> None:
    done = reprovision(result)

    assert stages(done) == [*BEFORE, "apply"]
    assert done.stages[-1].outcome == "failed"
    assert (done.ending, done.exit_code) == ("failed", 1)
    assert says in str(done.error)
    assert done.story[-1] == "failed in the stage apply"


@pytest.mark.parametrize(
    ("host", "was", "says"),
    [
        ("nobody", "nobody", "not in the inventory"),
        ("@local", "@local", "only a host over ssh"),
        ("a", "old", "no capture in .*/captures/old"),
    ],
)
def test_what_is_missing_is_a_usage_error(
    reprovision: Callable[..., ReprovisionResult], host: str, was: str, says: str
) -> None:
    with pytest.raises(UsageError, match=says):
        reprovision(host=host, was=was)


@pytest.mark.parametrize("outcome", ["changed", "converged"])
def test_an_apply_that_did_everything_is_compared(
    reprovision: Callable[..., ReprovisionResult], outcome: str
) -> None:
    done = reprovision(HostResult("a", outcome))  # type: ignore[arg-type]  # real ones

    assert stages(done) == [*BEFORE, "apply", *AFTER]
    assert (done.ending, done.error) == ("compared", None)
