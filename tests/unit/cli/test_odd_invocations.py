"""Odd words and odd inventories: one line that says where, what and what to do, and exit code 2."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from tests import hostile
from tests.unit.cli.conftest import apart

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.unit.cli.conftest import Rigops

MIB = 1024 * 1024


def has(text: str | bytes) -> Callable[[Path], object]:
    content = text.encode() if isinstance(text, str) else text
    return lambda path: path.write_bytes(content)


def sparse(path: Path) -> None:
    path.touch()
    os.truncate(path, 2**40)


INVENTORIES: dict[str, tuple[Callable[[Path], object], str]] = {
    "nothing": (lambda _: None, "no such inventory"),
    "a dangling link": (lambda path: path.symlink_to("nowhere"), "no such inventory"),
    "a link to itself": (lambda path: path.symlink_to(path), "no such inventory"),
    "a directory": (lambda path: path.mkdir(), "no regular file"),
    "a FIFO": (os.mkfifo, "no regular file"),
    "a device": (lambda path: path.symlink_to("/dev/zero"), "no regular file"),
    "a terabyte": (sparse, "larger than 16 MiB"),
    "an unreadable file": (lambda path: path.symlink_to("/proc/self/mem"), "unreadable"),
    "empty": (has(""), "no hosts in this inventory"),
    "not UTF-8": (has(b"rigs = ['\xff']"), "not a UTF-8 text file"),
    "a NUL": (has("rigs = ['a\0b']"), "not valid Python"),
    "a syntax error": (has("rigs = [("), "not valid Python"),
    "a return": (has("return 5\n"), "not valid Python"),
    "brackets": (has("[" * 10_000), "not valid Python"),
    "signs": (has("rigs = " + "-" * 100_000 + "1"), "nested too deeply"),
    "a sum": (has("rigs = " + "1+" * 100_000 + "1"), "nested too deeply"),
    "a number of 5000 digits": (has("a = " + "9" * 5000), "not valid Python"),
    "a computed number of 5000 digits": (
        has("rigs = [('a', {'gpus': 10**5000})]"), "gpus: a number of more than 18 digits"
    ),
    "such a number in a value": (
        has("rigs = [('a', {'nccl': {'A': [-(10**5000)]}})]"), "nccl: a number of more than 18"
    ),
    "such a number as a key": (
        has("rigs = [('a', {10**5000: 1})]"), "key a value of the type int is not a string"
    ),
    "such a number for an unknown key": (
        has("rigs = [('a', {'gpu_x': 10**5000})]"), "gpu_x = a value of the type int: unknown key"
    ),
    "a value in itself": (has("a = {}\na['x'] = a\nrigs = [('b', {'limits': a})]"), "limits"),
    "a value that cannot be shown": (
        has("class E:\n  def __repr__(self): raise OSError\nrigs = [('a', {'gpus': E()})]"),
        "gpus = a value of the type E",
    ),
    "raises": (has("raise ValueError('\\x1b[2J\\n\\u202e')"), "ValueError: \\x1b[2J\\n\\u202e"),
    "raises what cannot be shown": (
        has("class E(Exception):\n  def __str__(self): raise OSError\nraise E()"),
        "E: it cannot be shown",
    ),
    "calls itself": (has("def f(): f()\nf()"), "RecursionError"),
    "exits": (has("import sys\nsys.exit(0)"), "SystemExit"),
    "needs a module": (has("import nosuchmodule"), "No module named 'nosuchmodule'"),
    "a host name that steers": (
        has("rigs = ['a\\udcff\\x1b[2J\\n\\u202e']"),
        "'a\\udcff\\x1b[2J\\n\\u202e' is not a host name"
    ),
    "a key that steers": (
        has("rigs = [('a', {'gpu_\\udcff\\x1b[2J\\n\\u202e': 1})]"), "gpu_\\udcff\\x1b[2J\\n\\u202e"
    ),
    "a value that steers": (
        has("rigs = [('a', {'driver': '\\udcff\\x1b[2J\\n\\u202e'})]"), "\\udcff\\x1b[2J\\n\\u202e"
    ),
    "a group that steers": (has("globals()['a\\x1b[2J\\n'] = ('x', 'y')"), "a\\x1b[2J\\n"),
}  # fmt: skip


@pytest.mark.parametrize(("make", "message"), INVENTORIES.values(), ids=list(INVENTORIES))
def test_an_odd_inventory_is_one_error_with_a_fix(
    rigops: Rigops, tmp_path: Path, make: Callable[[Path], object], message: str
) -> None:
    make(tmp_path / "odd.py")

    for command in ("ssh-config", "doctor"):
        said = rigops(command, "-i", "odd.py")

        assert (said.code, said.out) == (2, "")
        first, *rest = said.err.splitlines()
        assert first.startswith("Error: odd.py:")
        assert message in first
        assert any(line.startswith(("    fix: ", "    accepted: ")) for line in rest)
        assert all(line.startswith("    ") for line in rest)
        assert hostile.raw(said.err) == []
        as_json = rigops(command, "-i", "odd.py", "--json")
        assert (as_json.code, as_json.err) == (2, "")
        assert as_json.json()["schema"] == "rigops.error/1"
        assert hostile.raw(as_json.out) == []


@pytest.mark.parametrize(
    "content",
    [
        "import os\nos.chdir('/')\nrigs = ['box']",
        "import os\nos.unlink(__file__)\nrigs = ['box']",
        "import sys\nsys.stdout.close()\nsys.stderr.close()\nrigs = ['box']",
        "import sys\nsys.stdout.buffer.write(b'x')\nrigs = ['box']",
        "import sys\nprint('\\x1b[2J', file=sys.stderr)\nrigs = ['box']",
    ],
    ids=["goes elsewhere", "removes itself", "closes the streams", "writes bytes", "prints"],
)
def test_what_an_inventory_does_while_it_is_read_is_no_fault(
    rigops: Rigops, tmp_path: Path, content: str
) -> None:
    (tmp_path / "inventory.py").write_text(content)

    said = rigops("ssh-config", "--json")

    assert said.code == 0
    assert [host["host"] for host in said.json()["hosts"]] == ["box"]
    assert hostile.raw(said.err) == []


def test_a_dangling_link_among_group_data_is_named(rigops: Rigops, tmp_path: Path) -> None:
    (tmp_path / "inventory.py").write_text("rigs = ['box']")
    (tmp_path / "group_data").mkdir()
    (tmp_path / "group_data/.#all.py").symlink_to("me@here.123")

    said = rigops("ssh-config")

    assert said.code == 2
    assert "group_data/.#all.py: unreadable: No such file" in said.err


LONG = "x" * 100_000
WORDS: dict[str, tuple[str, ...]] = {
    "an empty command": ("",),
    "a long command": (LONG,),
    "a command that steers": ("\x1b[2J\n\u202e\udcff",),
    "an option that steers": ("doctor", "--\x1b[2J\n\u202e\udcff"),
    "a value that steers": ("preflight", "--level", "\x1b[2J\n\u202e\udcff"),
    "an argument too many that steers": ("ssh-config", "\x1b[2J\n\u202e\udcff"),
    "no value": ("doctor", "-i"),
    "an empty inventory": ("ssh-config", "-i", ""),
    "a long inventory": ("ssh-config", "-i", LONG),
    "a deep inventory": ("ssh-config", "-i", "x/" * 10_000),
    "an inventory that steers": ("ssh-config", "-i", "\x1b[2J\n\u202e\udcff"),
    "a long bundle": ("doctor", "--from", LONG),
    "an empty bundle": ("doctor", "--from", "/dev/null"),
    "a bundle that steers": ("doctor", "--from", "\x1b[2J\n\u202e\udcff"),
    "a long name to save": ("doctor", "@local", "--save", LONG),
    "a check that steers": ("doctor", "--only", "\x1b[2J\n\u202e\udcff"),
    "an empty host": ("doctor", ""),
    "a host that steers": ("doctor", "\x1b[2J\n\u202e\udcff"),
    "an option as a host": ("doctor", "--", "-oProxyCommand=reboot"),
    "a key that steers": ("doctor", "--accept-host-key", "\x1b[2J\n\u202e\udcff"),
    "a card that steers": ("drivers", "--gpu", "\x1b[2J\n\u202e\udcff"),
    "a long card": ("drivers", "--gpu", LONG),
}


@pytest.mark.parametrize("words", WORDS.values(), ids=list(WORDS))
def test_odd_words_are_an_error_with_a_fix(rigops: Rigops, words: tuple[str, ...]) -> None:
    said = rigops(*words)

    assert (said.code, said.out) == (2, "")
    first, *rest = said.err.splitlines()
    assert first.startswith("Error: ")
    assert all(line.startswith("    ") for line in rest)
    assert any(line.startswith(("    fix: ", "    accepted: ")) for line in rest)
    assert hostile.raw(said.err) == []
    before_the_end = words.index("--") if "--" in words else len(words)
    as_json = rigops(*words[:before_the_end], "--json", *words[before_the_end:])
    assert as_json.json()["schema"] == "rigops.error/1"


@pytest.mark.parametrize("name", ["a..b", "x" * 64, "x" * 300, "x." * 200])
def test_a_name_that_no_host_can_have_has_no_address(rigops: Rigops, name: str) -> None:
    said = rigops("doctor", name, "--json")

    assert said.code == 3
    (host,) = said.json()["hosts"]
    assert host["error"]["kind"] == "dns"
    assert "has no address" in host["error"]["message"]


def test_every_command_refuses_an_inventory_that_it_cannot_read(
    rigops: Rigops, tmp_path: Path
) -> None:
    os.mkfifo(tmp_path / "inventory.py")
    end = ("--json", "-i", "inventory.py")
    converge = ["plan"], ["apply", "--yes"], ["release", "rig", "--yes"], ["rollback", "rig"]
    others = ["preflight", "--yes"], ["history"], ["drivers", "--host", "rig"]

    every = apart(tmp_path, *([*words, *end] for words in converge))
    every += [rigops(*words, *end) for words in others]

    for words, said in zip((*converge, *others), every, strict=True):
        assert said.code == 2, words
        assert "rigops.error/1" in said.out
        assert "no regular file" in said.out


def test_the_words_of_an_option_that_is_missing_are_on_its_line(rigops: Rigops) -> None:
    said = rigops("autoinstall", "rig")

    assert said.code == 2
    assert "Missing option '--for'. Choose from: ubuntu, debian" in said.err
