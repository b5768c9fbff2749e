"""What the tiers make of tests that fail, and which shards they choose."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

import pytest

from tests import shards, tiers

if TYPE_CHECKING:
    from pathlib import Path

# Instead of pytest: notes tests as failed, as often as it is told.
STAND_IN = """
import json, pathlib, sys
noted, runs = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
failing, times = sys.argv[3].split(",")[1:], int(sys.argv[4])
with runs.open("a") as written:
    print(*sys.argv[5:], file=written)
if len(runs.read_text().splitlines()) > times:
    sys.exit(0)
noted.write_text(json.dumps(dict.fromkeys(failing, True)))
sys.exit(1)
"""


class Runs:
    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.noted, self.runs = folder / "lastfailed", folder / "runs"
        monkeypatch.setattr(tiers, "FAILED", self.noted)

    def of(self, failing: list[str], times: int, step: tiers.Step) -> tiers.Result:
        words = [str(self.noted), str(self.runs), ",".join(["", *failing]), str(times), "tests/all"]
        command = [sys.executable, "-c", STAND_IN, *words]
        return tiers._run(tiers.Step("some", (command,), again=step.again))

    @property
    def tests(self) -> list[str]:
        return self.runs.read_text().splitlines()


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Runs:
    return Runs(tmp_path, monkeypatch)


def _step(name: str) -> tiers.Step:
    return next(step for step in tiers.STEPS if step.name == name)


def test_a_module_on_hosts_gets_a_second_try_as_a_whole_and_is_named(runs: Runs) -> None:
    result = runs.of(["tests/lab/bad.py::test_b", "tests/lab/bad.py::test_a"], 1, _step("lab"))

    assert (result.outcome, result.why) == ("passed at the second try", "tests/lab/bad.py")
    assert runs.tests == ["tests/all", "tests/lab/bad.py"]


def test_a_unit_test_gets_a_second_try_of_its_own_and_is_named(runs: Runs) -> None:
    failing = ["tests/unit/bad.py::test_a[one two]"]

    result = runs.of(failing, 1, _step("unit"))

    assert (result.outcome, result.why) == ("passed at the second try", failing[0])
    assert runs.tests == ["tests/all", failing[0]]


@pytest.mark.parametrize("name", ["unit", "lab"])
def test_what_fails_twice_has_failed(runs: Runs, name: str) -> None:
    assert runs.of(["tests/bad.py::test_a"], 2, _step(name)).outcome == "FAILED"
    assert len(runs.tests) == 2


@pytest.mark.parametrize(
    ("name", "failing"),
    [
        ("lab", [f"tests/lab/{name}.py::test_a" for name in "abcd"]),
        ("unit", [f"tests/unit/bad.py::test_{number}" for number in range(11)]),
        ("unit", []),  # pytest itself broke off
    ],
)
def test_many_failures_are_no_chance(runs: Runs, name: str, failing: list[str]) -> None:
    assert runs.of(failing, 1, _step(name)).outcome == "FAILED"
    assert len(runs.tests) == 1


def test_what_failed_before_this_run_is_not_tried_again(runs: Runs) -> None:
    runs.noted.write_text('{"tests/unit/old.py::test_a": true}')
    breaks = [sys.executable, "-c", "import sys; sys.exit(1)"]

    step = tiers.Step("unit", (breaks,), again=_step("unit").again)

    assert tiers._run(step).outcome == "FAILED"


def _shards(
    monkeypatch: pytest.MonkeyPatch, minutes: int, until: int | None = None
) -> dict[str, str]:
    monkeypatch.setattr(tiers, "_changed_files", lambda: ["src/rigops/transport/ssh.py"])
    monkeypatch.setattr(tiers, "_run", lambda step: tiers.Result(step.name, "passed"))
    return {one.step: f"{one.outcome} {one.why}" for one in tiers._changed_shards(minutes, until)}


def test_shards_of_what_changed_run_and_the_others_are_named_with_their_minutes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    transport, attack = map(shards.named, (shards.LAB_TRANSPORT, shards.ATTACK))

    of_each = _shards(monkeypatch, transport.minutes)

    assert set(of_each) == set(shards.NAMES)
    assert [name for name, said in of_each.items() if said == "passed "] == [transport.name]
    assert of_each[attack.name] == f"left out {attack.minutes} min"
    assert of_each[shards.FUZZ].endswith("none of its files changed")


def test_no_shard_begins_that_would_end_too_late(monkeypatch: pytest.MonkeyPatch) -> None:
    of_each = _shards(monkeypatch, 1000, until=int(time.time()))

    assert not any(said.startswith("passed") for said in of_each.values())
    assert of_each[shards.LAB_TRANSPORT].endswith("the time is over")


@pytest.mark.parametrize(
    ("history", "asked"),
    [
        ("c\t\tRelease 0.2\nb\ttag: 0.1\tOld", ("diff", "--name-only", "c")),
        ("d\t\tA change\nc\ttag: 0.2\tSomething\n", ("diff", "--name-only", "c")),
        ("d\t\tA change\n", ("log", "-20", "--format=", "--name-only")),
        ("", ("log", "-20", "--format=", "--name-only")),
    ],
)
def test_changes_are_those_since_the_last_release(
    monkeypatch: pytest.MonkeyPatch, history: str, asked: tuple[str, ...]
) -> None:
    def git(*words: str) -> str:
        return "a file\n" if words == asked else history if "--skip=1" in words else "wrong"

    monkeypatch.setattr(tiers, "_git", git)

    assert tiers._changed_files() == ["a file"]
