"""Names of processes are chosen by whoever runs them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from rigops.probe.sections.processes import SECTION, parse
from tests.unit.probe.snippets import awk_that_gives_up, run, tree
from tests.unit.programs import SHELLS

if TYPE_CHECKING:
    from pathlib import Path

FIELDS = "D 1 2 2 0 -1 4194304 90 65 0 0 30 20 5 2 20 0 1 0 89709 171 34"
NAMES = {
    "what a shell may take for a number to reckon out": ") D a[$(>run)]\n",
    "another state": "x) S 1 1\n",
    "lines": "a\nb\nc",
    "a bracket": "x) ",
}


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize("name", NAMES.values(), ids=NAMES)
def test_the_name_of_a_process_is_read_as_a_name(
    shell: str, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    tree(
        tmp_path,
        {"/proc/self/stat": "", "/proc/77/stat": f"77 ({name}) {FIELDS}\n", "/proc/77/wchan": "x"},
    )

    code, text = run(SECTION, shell, tmp_path, "/proc/", commands="sleep() { :; }")

    assert not (tmp_path / "run").exists()
    assert code == 0
    (task,) = parse(text).tasks or ()
    assert (task.pid, task.state, task.cpu_percent) == (77, "D", 0)
    assert task.comm == " ".join(name.split("\n")).strip()


@pytest.mark.parametrize(("times", "code"), [(1, 0), (9, 1)])
def test_they_are_looked_at_again_where_one_ends_meanwhile(
    tmp_path: Path, times: int, code: int
) -> None:
    tree(tmp_path, {"/proc/self/stat": "", "/proc/77/stat": f"77 (x) {FIELDS}\n"})
    commands = f"sleep() {{ :; }}; {awk_that_gives_up(tmp_path, times)}"

    ended, text = run(SECTION, "dash", tmp_path, "/proc/", commands=commands)

    assert ended == code
    assert [one.pid for one in parse(text).tasks or ()] == ([] if code else [77])
