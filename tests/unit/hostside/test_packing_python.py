from __future__ import annotations

import runpy
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rigops.errors import RigopsError
from rigops.hostside.packing import pack
from tests.unit.hostside.trees import run_python, write_tree

if TYPE_CHECKING:
    from hypothesis.strategies import DrawFn

PROGRAM = '''\
#!/usr/bin/env python3
# On guard.
"""Watches temperatures.

For ever.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from rigops.hostside.shared.log import say
from rigops.preflight.verdict import (
    judge,
    Verdict,
)  # the controller judges by the same code

if TYPE_CHECKING:
    from rigops.hostside.shared.types import Reading


def main(reading: Reading | None) -> Verdict:
    say(os.path.basename("/sys/hot"))
    return judge(90)


if __name__ == "__main__":
    say(main(None).word)
'''
VERDICT = '''\
"""Judges."""

from __future__ import annotations

from dataclasses import dataclass

from rigops.hostside.shared.log import say


@dataclass(frozen=True)
class Verdict:
    word: str | None


# Degrees Celsius.
LIMIT = 85


def judge(degrees: int) -> Verdict:
    say(str(degrees))
    return Verdict("hot" if degrees > LIMIT else None)
'''
LOG = """\
import os
import sys


def say(text: str) -> None:
    sys.stdout.write(text + os.linesep)
"""
TREE = {
    "hostside/guard.py": PROGRAM,
    "hostside/shared/log.py": LOG,
    "preflight/verdict.py": VERDICT,
}

PACKED = '''\
#!/usr/bin/env python3
# On guard.
"""Watches temperatures.

For ever.
"""

from __future__ import annotations

# ---- rigops.hostside.shared.log ----
import os
import sys


def say(text: str) -> None:
    sys.stdout.write(text + os.linesep)

# ---- rigops.preflight.verdict ----
"""Judges."""

from dataclasses import dataclass

@dataclass(frozen=True)
class Verdict:
    word: str | None


# Degrees Celsius.
LIMIT = 85


def judge(degrees: int) -> Verdict:
    say(str(degrees))
    return Verdict("hot" if degrees > LIMIT else None)

# ---- rigops.hostside.guard ----
import os
from typing import TYPE_CHECKING

def main(reading: Reading | None) -> Verdict:
    say(os.path.basename("/sys/hot"))
    return judge(90)


if __name__ == "__main__":
    say(main(None).word)
'''


def test_every_module_stands_once_before_what_imports_it(tmp_path: Path) -> None:
    assert pack("guard", root=write_tree(tmp_path, TREE)).text == PACKED


def test_the_packed_program_runs_on_an_old_python(tmp_path: Path) -> None:
    text = pack("guard", root=write_tree(tmp_path, TREE)).text
    assert run_python(text) == "hot\n90\nhot\n"


def test_a_program_that_shares_nothing_stays_as_it_is(tmp_path: Path) -> None:
    tree = {"hostside/load.py": "#!/usr/bin/env python3\nimport sys\n\nsys.stdout.write('x')\n"}
    assert pack("load", root=write_tree(tmp_path, tree)).text == (
        "#!/usr/bin/env python3\n\nfrom __future__ import annotations\n\n"
        "import sys\n\nsys.stdout.write('x')\n"
    )


def test_an_empty_program_can_be_packed(tmp_path: Path) -> None:
    text = pack("load", root=write_tree(tmp_path, {"hostside/load.py": ""})).text
    assert run_python(text) == ""


def test_names_of_a_package_come_from_its_init(tmp_path: Path) -> None:
    tree = {
        "__init__.py": '__version__ = "0.1.0"\n',
        "hostside/load.py": "from rigops import __version__\nprint(__version__)\n",
    }
    assert run_python(pack("load", root=write_tree(tmp_path, tree)).text) == "0.1.0\n"


def test_a_name_may_pass_through_a_module(tmp_path: Path) -> None:
    tree = {
        "hostside/load.py": "from rigops.hostside.shared.b import say\nsay('x')\n",
        "hostside/shared/b.py": "from rigops.hostside.shared.log import say\n",
        "hostside/shared/log.py": LOG,
    }
    assert run_python(pack("load", root=write_tree(tmp_path, tree)).text) == "x\n"


def test_modules_may_import_the_same_and_use_local_names_alike(tmp_path: Path) -> None:
    module = "import os.path\nimport json as j\nfrom sys import argv\n\n\n"
    tree = {
        "hostside/load.py": "from rigops.hostside.shared.a import a\nimport os\n"
        + module
        + "def b():\n    x = [item for item in '2']\n    return x\n\n\nprint(a(), b())\n",
        "hostside/shared/a.py": module + "def a():\n    x = [item for item in '1']\n    return x\n",
    }
    assert run_python(pack("load", root=write_tree(tmp_path, tree)).text) == "['1'] ['2']\n"


def refusal_of(program: str, tmp_path: Path, **shared: str) -> str:
    files = {f"hostside/shared/{name}.py": source for name, source in shared.items()}
    root = write_tree(tmp_path, {"hostside/load.py": program, **files})
    with pytest.raises(RigopsError) as caught:
        pack("load", root=root)
    problem = caught.value.problems[0]
    assert problem.file is not None
    assert Path(problem.file).is_file()
    assert f"line {problem.line}: " in problem.message
    return problem.message


HERE = "load cannot be packed: rigops.hostside.load, line"
SHARED = "load cannot be packed: rigops.hostside.shared"


@pytest.mark.parametrize(
    ("program", "message"),
    [
        (
            "\nimport rigops.hostside.shared.a\n",
            "2: rigops.hostside.shared.a is not in the standard",
        ),
        ("from rigops.hostside.shared.a import *\n", "1: import the names of"),
        ("from rigops.hostside.shared.a import a as b\n", "1: import the names of"),
        ("from rigops.hostside.shared.a import c\n", "1: rigops.hostside.shared.a does not define"),
        ("from rigops.gone import a\n", "1: there is no module rigops.gone"),
        ("def f():\n    from rigops.hostside.shared.a import a\n", "1: rigops.hostside.shared.a"),
        ("from .shared.a import a\n", "1: a relative import"),
        ("import numpy\n", "1: numpy is not in the standard library of Python 3.8"),
        ("def f():\n    import numpy.linalg\n", "1: numpy.linalg is not in the standard"),
        ("from tomllib import loads\n", "1: tomllib is not in the standard"),
        ("x = 1\nmatch x:\n    case 1:\n        pass\n", "4: Pattern matching"),
        ("def f(:\n", "1: "),
    ],
)
def test_what_cannot_be_made_flat_is_refused(program: str, message: str, tmp_path: Path) -> None:
    assert refusal_of(program, tmp_path, a="a = 1\n").startswith(f"{HERE} {message}")


def test_a_syntax_newer_than_the_oldest_python_is_said_so(tmp_path: Path) -> None:
    program = "try:\n    pass\nexcept* ValueError:\n    pass\n"
    assert "oldest Python on a host is 3.8" in refusal_of(program, tmp_path)


def test_a_circle_is_refused(tmp_path: Path) -> None:
    message = refusal_of(
        "from rigops.hostside.shared.a import a\n",
        tmp_path,
        a="from rigops.hostside.shared.b import b\na = 1\n",
        b="\nfrom rigops.hostside.shared.a import a\nb = 1\n",
    )
    assert message.startswith(f"{SHARED}.b, line 2: imports go in a circle: rigops.hostside.load")
    assert message.endswith("shared.a -> rigops.hostside.shared.b -> rigops.hostside.shared.a")


def test_a_circle_of_types_only_is_none(tmp_path: Path) -> None:
    tree = {
        "hostside/load.py": "from rigops.hostside.shared.a import a\nprint(a)\n",
        "hostside/shared/a.py": "import typing\n\nif typing.TYPE_CHECKING:\n"
        "    from rigops.hostside.load import x\n\na: x = 1\n",
    }
    assert run_python(pack("load", root=write_tree(tmp_path, tree)).text) == "1\n"


IMPORTS = "from rigops.hostside.shared.a import a\nfrom rigops.hostside.shared.b import b\n"


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("_x = 1\n", "_x = 1\n"),
        ("_x = 1\n", "def _x():\n    pass\n"),
        ("class _x:\n    pass\n", "for _x in '12':\n    pass\n"),
        ("import json as _x\n", "import re as _x\n"),
        ("from os import path as _x\n", "_x: int = 1\n"),
        ("try:\n    import json as _x\nexcept ImportError:\n    _x = None\n", "import re as _x\n"),
    ],
)
def test_a_name_with_two_meanings_is_refused(first: str, second: str, tmp_path: Path) -> None:
    message = refusal_of(IMPORTS, tmp_path, a=f"a = 1\n{first}", b=f"b = 1\n{second}")
    assert message.startswith(f"{SHARED}.b, line 2: _x already means something else in ")
    assert message.endswith("rigops.hostside.shared.a")


def test_a_program_may_not_redefine_what_it_imports(tmp_path: Path) -> None:
    message = refusal_of("from rigops.hostside.shared.a import a\na = 2\n", tmp_path, a="a = 1\n")
    assert message.startswith(f"{HERE} 2: a already means something else")


@st.composite
def _trees(draw: DrawFn) -> tuple[dict[str, str], int]:
    """Draw modules m0, m1, ... that import later ones; m0 is the program; and what it sums up."""
    count = draw(st.integers(1, 6))
    sums = [0] * count
    files: dict[str, str] = {}
    for number in reversed(range(count)):
        later = list(range(number + 1, count))
        needed = draw(st.lists(st.sampled_from(later), unique=True)) if later else []
        sums[number] = 1 + sum(sums[index] for index in needed)
        imports = "".join(f"from rigops.hostside.m{n} import SUM{n}\n" for n in needed)
        terms = " + ".join(["1", *(f"SUM{n}" for n in needed)])
        files[f"hostside/m{number}.py"] = f"{imports}\nSUM{number} = {terms}\n"
    return files, sums[0]


@given(_trees())
def test_any_tree_is_packed_alike_every_time_and_means_the_same(
    tree: tuple[dict[str, str], int],
) -> None:
    files, expected = tree
    with TemporaryDirectory() as folder:
        root = write_tree(Path(folder), files)
        packed = pack("m0", root=root)
        assert packed == pack("m0", root=root)
        (root / "packed.py").write_text(packed.text)
        assert runpy.run_path(str(root / "packed.py"))["SUM0"] == expected
    definitions = [line for line in packed.text.splitlines() if line.startswith("SUM")]
    assert len(definitions) == len(set(definitions))
