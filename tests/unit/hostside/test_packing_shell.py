from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from rigops.errors import RigopsError
from rigops.hostside.packing import PACKAGE, pack
from tests.unit.hostside.trees import run_shell, write_tree
from tests.unit.programs import assert_clean_shell

if TYPE_CHECKING:
    from pathlib import Path

PROGRAM = """\
#!/bin/sh
# shellcheck shell=sh
# Says two things.
set -eu
# shellcheck source=shared/log.sh
. ./shared/log.sh
. ./shared/say.sh  # already read by log.sh
# . ./shared/never.sh
# shellcheck source=/dev/null
[ ! -e /nonexistent ] || . /nonexistent
log 'it works'
"""
LOG = """\
#!/bin/sh
# shellcheck shell=sh

. ./shared/say.sh
log() { say "log: $1"; }
"""
SAY = """\
say() { echo "$1"; }
"""
TREE = {"hostside/probe.sh": PROGRAM, "hostside/shared/log.sh": LOG, "hostside/shared/say.sh": SAY}

PACKED = """\
#!/bin/sh
# shellcheck shell=sh
# Says two things.
set -eu

say() { echo "$1"; }
log() { say "log: $1"; }
# . ./shared/never.sh
# shellcheck source=/dev/null
[ ! -e /nonexistent ] || . /nonexistent
log 'it works'
"""


def test_every_include_stands_in_once_and_where_it_was(tmp_path: Path) -> None:
    assert pack("probe", root=write_tree(tmp_path, TREE)).text == PACKED


def test_the_packed_program_runs(tmp_path: Path) -> None:
    text = pack("probe", root=write_tree(tmp_path, TREE)).text
    assert run_shell(text) == "log: it works\n"


def test_a_first_line_like_a_shebang_further_down_is_kept(tmp_path: Path) -> None:
    heredoc = "cat <<'END'\n#!/bin/sh\nEND\n"
    tree = {"hostside/probe.sh": ". ./shared/a.sh\n", "hostside/shared/a.sh": heredoc}
    assert run_shell(pack("probe", root=write_tree(tmp_path, tree)).text) == "#!/bin/sh\n"


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    tree = {"hostside/probe.sh": "true\n. ./shared/gone.sh\n"}
    with pytest.raises(RigopsError, match=r"there is no shared/gone\.sh") as caught:
        pack("probe", root=write_tree(tmp_path, tree))
    problem = caught.value.problems[0]
    assert problem.message.startswith("probe cannot be packed: probe.sh, line 2: ")
    assert (problem.file, problem.line) == (str(tmp_path / "hostside/probe.sh"), 2)


def test_a_circle_is_refused(tmp_path: Path) -> None:
    tree = {
        "hostside/probe.sh": ". ./shared/a.sh\n",
        "hostside/shared/a.sh": ". ./shared/b.sh\n",
        "hostside/shared/b.sh": ". ./shared/a.sh\n",
    }
    circle = r"shared/b\.sh, line 1: .*shared/a\.sh -> shared/b\.sh -> shared/a\.sh"
    with pytest.raises(RigopsError, match=circle):
        pack("probe", root=write_tree(tmp_path, tree))


@pytest.mark.parametrize(
    "line",
    [
        "  . ./shared/say.sh",
        ". ./shared/say.sh && true",
        ". ./shared/../shared/say.sh",
        ". ../shared/say.sh",
        '. "./shared/say.sh"',
        "source ./shared/say.sh",
        "true && . ./shared/say.sh",
        "if true; then . ./shared/say.sh; fi",
        "(. ./shared/say.sh)",
    ],
)
def test_an_include_in_any_other_form_is_refused(line: str, tmp_path: Path) -> None:
    tree = {"hostside/probe.sh": f"{line}\n", "hostside/shared/say.sh": SAY}
    with pytest.raises(RigopsError, match=r"line 1: an include is a line of its own"):
        pack("probe", root=write_tree(tmp_path, tree))


@pytest.mark.parametrize("line", ["find . ./shared", "cp a . ./b", "# see . ./shared/say.sh"])
def test_what_only_looks_like_an_include_is_left_alone(line: str, tmp_path: Path) -> None:
    tree = {"hostside/probe.sh": f"{line}\n"}
    assert pack("probe", root=write_tree(tmp_path, tree)).text == f"{line}\n"


@pytest.mark.parametrize(
    "name",
    sorted(
        path.stem
        for folder in ("hostside", "concerns/*")
        for path in PACKAGE.glob(f"{folder}/*.sh")
    ),
)
def test_shellcheck_has_nothing_to_say_of_a_program(name: str) -> None:
    assert_clean_shell(pack(name).text)


def test_a_constant_of_a_module_beside_the_program_is_its_text(tmp_path: Path) -> None:
    program = "concerns/toy/toy.sh"
    state = 'FIRST: Final = 1\nLIMITS: Final = "a=1 b"\n'
    tree = {program: "limits=@state.LIMITS@\n", "concerns/toy/state.py": state}

    assert pack("toy", root=write_tree(tmp_path, tree)).text == "limits='a=1 b'\n"
    tree[program] = "limits=@state.MORE@\n"
    with pytest.raises(RigopsError, match=r"state\.py has no text MORE"):
        pack("toy", root=write_tree(tmp_path, tree))
