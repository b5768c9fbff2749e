"""What the tiers make of tests that fail on booted hosts."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

from tests import tiers

if TYPE_CHECKING:
    from pathlib import Path

# Instead of pytest: fails in the modules of its first word as often as the second says.
STAND_IN = """
import pathlib, sys
notes, runs = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
failing, times = sys.argv[3].split(","), int(sys.argv[4])
with runs.open("a") as written:
    print(*(word for word in sys.argv[5:] if not word.startswith("--")), file=written)
if len(runs.read_text().splitlines()) > times:
    sys.exit(0)
cases = "".join(f'<testcase classname="{one}"><failure/></testcase>' for one in failing)
notes.write_text(f'<testsuites><testcase classname="tests.lab.good"/>{cases}</testsuites>')
sys.exit(1)
"""


class Runs:
    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.notes, self.runs = folder / "notes.xml", folder / "runs"
        monkeypatch.setattr(tiers, "NOTES", self.notes)

    def of(self, failing: str, times: int, *, boots_hosts: bool = True) -> tiers.Result:
        words = [str(self.notes), str(self.runs), failing, str(times), "tests/lab"]
        command = [sys.executable, "-c", STAND_IN, *words]
        return tiers._run(tiers.Step("lab", (command,), boots_hosts=boots_hosts))

    @property
    def tests(self) -> list[str]:
        return self.runs.read_text().splitlines()


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Runs:
    return Runs(tmp_path, monkeypatch)


def test_a_module_that_fails_once_is_named(runs: Runs) -> None:
    result = runs.of("tests.lab.bad", 1)

    assert (result.outcome, result.why) == ("passed at the second try", "tests/lab/bad.py")
    assert runs.tests == ["tests/lab", "tests/lab/bad.py"]


def test_what_fails_twice_has_failed(runs: Runs) -> None:
    assert runs.of("tests.lab.bad", 2).outcome == "FAILED"
    assert len(runs.tests) == 2


def test_many_failing_modules_are_no_chance(runs: Runs) -> None:
    assert runs.of("a,b,c,d", 1).outcome == "FAILED"
    assert len(runs.tests) == 1


def test_unit_tests_have_one_try(runs: Runs) -> None:
    assert runs.of("tests.unit.bad", 1, boots_hosts=False).outcome == "FAILED"
    assert len(runs.tests) == 1
