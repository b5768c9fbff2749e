"""What becomes of a reprovision whose apply did not do everything."""

from __future__ import annotations

from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, cast

import pytest

from rigops.capture.document import Capture
from rigops.catalog import load_once
from rigops.concerns.concern import HostRequest
from rigops.converge.result import Blocker, HostResult
from rigops.errors import HostError
from rigops.hosts.access import HostAccess
from rigops.inventory.spec import RigSpec
from rigops.record import journal
from rigops.reprovision import flow
from rigops.reprovision.compare import ReplacedGpu
from rigops.transport import Target
from rigops.vault.store import Store

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rigops.reprovision.console import ReprovisionConsole
    from rigops.reprovision.result import ReprovisionResult

BLOCKED = HostResult("a", "changed", blocked=(Blocker("cpu", ("rigops_cpu",), "no such policy"),))
FAILED = HostResult("a", "failed", error=HostError("failed", "no space left", "make some"))
OLD, NEW = (f"GPU-{digit * 8}-1111-2222-3333-{digit * 12}" for digit in "ab")
CHANGED = HostResult("a", "changed")
BEFORE = ["trust", "bootstrap", "disks"]
AFTER = ["restore", "host keys", "verify", "compare"]


class Data:
    """What was backed up: nothing."""

    def restore(self) -> None:
        pass

    def host_keys(self) -> None:
        pass


class Person:
    """Agrees to everything, as long as Ctrl-C would end the question."""

    can_answer = True

    def __init__(self) -> None:
        self.is_interruptible = False

    def tell(self, *lines: str) -> None:
        pass

    @contextmanager
    def interruptible(self) -> Iterator[None]:
        self.is_interruptible = True
        yield
        self.is_interruptible = False

    def agrees(self, _question: str) -> bool:
        return self.is_interruptible


@pytest.fixture
def reprovision(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., ReprovisionResult]:
    """Of a host that has every stage behind it in no time but apply, which has these results."""
    captured = Capture(host="a", status="safe", at="2026-11-25T16:30:00Z", place=str(tmp_path))

    def run(*results: HostResult, moves_settings: bool = False) -> ReprovisionResult:
        left = list(results)
        for stage in ("bootstrap", "disks", "verify", "compare"):
            monkeypatch.setattr(flow._Run, f"_{stage}", lambda _: None)
        monkeypatch.setattr(flow._Run, "_trust", lambda one: setattr(one, "_is_chosen", True))
        monkeypatch.setattr(HostAccess, "open", lambda *_: nullcontext((None, None)))
        monkeypatch.setattr(flow, "record_there", lambda *_: [])
        monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
        monkeypatch.setattr(flow._Run, "_data", lambda _: Data())
        monkeypatch.setattr(flow._Run, "_apply_once", lambda _: left.pop(0))
        monkeypatch.setattr(flow._Run, "_describe", lambda _: captured)
        replaced = [ReplacedGpu("0000:0a:00.0", OLD, NEW)] if moves_settings else []
        monkeypatch.setattr(flow, "replaced_gpus", lambda *_: replaced)
        asked = flow.Reprovision(
            request=HostRequest("a", Target(name="a"), {"gpus": [OLD]}, RigSpec()),
            captures=[captured],
            store=Store(tmp_path),
            catalog=load_once(None),
            inventory_digest="",
            access=HostAccess(),
        )
        done = flow.run(asked, cast("ReprovisionConsole", Person()))
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
    (run,) = journal.read(host="a").runs
    assert (run.command, run.outcome, run.reason) == ("reprovision", "same", "")


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
    (run,) = journal.read(host="a").runs
    assert (run.command, run.outcome) == ("reprovision", "failed")
    assert says in run.reason


@pytest.mark.parametrize("outcome", ["changed", "converged"])
def test_an_apply_that_did_everything_is_compared(
    reprovision: Callable[..., ReprovisionResult], outcome: str
) -> None:
    done = reprovision(HostResult("a", outcome))  # type: ignore[arg-type]  # real ones

    assert stages(done) == [*BEFORE, "apply", *AFTER]
    assert (done.ending, done.error) == ("compared", None)
    (run,) = journal.read(host="a").runs
    assert (run.command, run.outcome, run.reason) == ("reprovision", "same", "")
