"""The script as it really runs, under every shell of this machine."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from rigops.probe import reading
from rigops.probe import script as probe
from rigops.probe.registry import SECTIONS
from rigops.probe.script import MOST_BYTES, PATH, longest_s, script
from rigops.probe.section import Section
from rigops.probe.sections.boot import SECTION as BOOT
from rigops.probe.sections.pci import SECTION as PCI
from rigops.probe.sections.uname import SECTION as UNAME
from rigops.probe.snapshot import HostSnapshot
from rigops.probe.text import blocks
from tests.unit.probe.secrets import HIDDEN, KEPT, KEY_BLOCK
from tests.unit.probe.snippets import called

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rigops.probe.bundle import Bundle

SHELLS = ("dash", "bash", "mksh", "busybox")


class Host:
    """This machine, with one shell as its only sh and with commands of our own making."""

    def __init__(self, folder: Path, shell: str) -> None:
        self.commands = folder / "bin"
        self.commands.mkdir()
        self.shell = shell
        self.pids = folder / "pids"
        found = shutil.which(shell)
        if found is None:
            pytest.skip(f"{shell} is not installed")
        (self.commands / "sh").symlink_to(found)

    def command(self, name: str, program: str) -> None:
        path = self.commands / name
        path.write_text(f"#!/bin/sh\necho $$ >>{self.pids}\n{program}\n")
        path.chmod(0o755)

    def without(self, *names: str) -> None:
        """A PATH with everything but these."""
        for folder in ("/usr/bin", "/usr/sbin"):
            for name in os.listdir(folder):  # noqa: PTH208 - names, not paths
                link = self.commands / name
                if name not in names and not link.is_symlink() and not link.exists():
                    link.symlink_to(f"{folder}/{name}")

    def run(self, *sections: Section[str], only_own: bool = False) -> Bundle:
        text = script(sections, path=str(self.commands) + ("" if only_own else f":{PATH}"))
        done = subprocess.run(
            [self.commands / "sh", "-s"], input=text.encode(), capture_output=True, check=True
        )
        assert done.stderr == b""
        assert done.stdout.endswith(b" done\n")
        bundle = reading.read(done.stdout, host="here")
        assert bundle is not None
        return bundle

    def end(self) -> None:
        for pid in self.pids.read_text().split() if self.pids.exists() else []:
            with suppress(ProcessLookupError):
                os.kill(int(pid), signal.SIGKILL)


@pytest.fixture(params=SHELLS)
def host(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Host]:
    made = Host(tmp_path, request.param)
    yield made
    made.end()


def section(
    name: str, snippet: str, timeout_s: int = 8, *, asks_driver: bool = False, lane: str = ""
) -> Section[str]:
    return Section(
        name=name,
        snippet=snippet,
        parse=str,
        timeout_s=timeout_s,
        asks_driver=asks_driver,
        lane=lane,
    )


def test_this_machine_answers_every_section(host: Host) -> None:
    bundle = host.run(*SECTIONS)

    assert list(bundle.sections) == [one.name for one in SECTIONS]
    known = HostSnapshot(bundle)
    assert known[UNAME].or_empty.release == os.uname().release
    assert known[BOOT].or_empty.boot_id is not None
    assert known[PCI].is_exhaustive
    assert not any(one.timed_out for one in bundle.sections.values())


def test_answers_keep_their_bytes_their_code_and_their_order(host: Host) -> None:
    bundle = host.run(
        section("binary", 'printf "a\\000\\377b\\n\\n"; exit 7'),
        section("nothing", ":"),
        section("unfinished", "printf x"),
        section("quotes", "echo \"it's\" '$HOME'"),
        section("noise", "echo no >&2; cat; echo yes"),
        section("driver", "echo last", asks_driver=True),
    )

    texts = {name: (one.text, one.rc) for name, one in bundle.sections.items()}
    assert texts == {
        "binary": ("a\0\N{REPLACEMENT CHARACTER}b\n\n", 7),
        "nothing": ("", 0),
        "unfinished": ("x", 0),
        "quotes": ("it's $HOME\n", 0),
        "noise": ("yes\n", 0),
        "driver": ("last\n", 0),
    }


def test_an_endless_answer_is_cut_and_is_not_whole(host: Host) -> None:
    one = host.run(
        section("endless", "while :; do echo aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa; done | cat")
    )

    found = one.sections["endless"]
    assert len(found.text) == MOST_BYTES
    assert not found.is_complete


@pytest.mark.parametrize("with_timeout", [True, False])
def test_a_hanging_driver_costs_its_own_section_only(host: Host, *, with_timeout: bool) -> None:
    host.command("stubborn", "trap '' TERM; echo begun; sleep 8 & wait; sleep 8; sleep 8")
    host.command("unreachable", "trap '' TERM; sleep 8; sleep 8")
    if not with_timeout:
        host.without("timeout")

    began = time.monotonic()
    bundle = host.run(
        section("ignores-term", "stubborn", 3),
        # A session of its own is out of reach of every signal, as a process in D state is.
        section("cannot-be-killed", "echo begun; setsid unreachable; echo", 3),
        section("well", "sleep 1; echo fine"),
        only_own=not with_timeout,
    )

    assert time.monotonic() - began < 3 + 1.5
    assert bundle.sections["well"].text == "fine\n"
    for name in ("ignores-term", "cannot-be-killed"):
        assert bundle.sections[name].timed_out
        assert bundle.sections[name].text == "begun\n"
    left = [Path(f"/proc/{pid}/fd") for pid in host.pids.read_text().split()]
    held = [folder for folder in left if folder.exists() and any(folder.iterdir())]
    assert held
    for folder in held:
        links = {one.name: str(one.readlink()) for one in folder.iterdir()}
        assert (links["0"], links["2"]) == ("/dev/null", "/dev/null")
        # Its own output, into a pipe that nobody reads any more; nothing of the session.
        assert [name for name, link in links.items() if link.startswith("pipe:")] == ["1"]


@pytest.mark.parametrize(
    ("host", "with_timeout"),
    [("dash", True), ("bash", False), ("mksh", True), ("busybox", False)],
    indirect=["host"],
)
def test_what_hangs_or_ends_the_shell_of_a_lane_costs_its_own_section_only(
    host: Host, monkeypatch: pytest.MonkeyPatch, *, with_timeout: bool
) -> None:
    monkeypatch.setattr("rigops.probe.script._TOGETHER_S", 1)
    monkeypatch.setattr("rigops.probe.script._SHARED_S", 8)
    host.command("stubborn", "trap '' TERM; echo begun; sleep 8 & wait; sleep 8; sleep 8")
    host.command("unreachable", "trap '' TERM; sleep 8; sleep 8")
    if not with_timeout:
        host.without("timeout")

    bundle = host.run(
        section("first", "echo before; false", lane="files"),
        section("ignores-term", "stubborn", 3, lane="files"),
        section("cannot-be-killed", "echo begun; setsid unreachable; echo", 3, lane="files"),
        section("ends-the-shell", "echo last; exit 7", lane="files"),
        section("well", "echo fine", lane="files"),
        section("other", "echo other", lane="others"),
        section("leaves", "set -f; IFS=x; cd /proc; f() { :; }; echo left", lane="others"),
        section("next", "echo $PWD $(echo axb) /et*", lane="others"),
        only_own=not with_timeout,
    )

    texts = {name: (one.text, one.rc, one.timed_out) for name, one in bundle.sections.items()}
    ended = {name: (text, rc) for name, (text, rc, timed_out) in texts.items() if not timed_out}
    assert ended == {
        "first": ("before\n", 1),
        "ends-the-shell": ("last\n", 7),
        "well": ("fine\n", 0),
        "other": ("other\n", 0),
        "leaves": ("left\n", 0),
        "next": ("/ axb /etc\n", 0),
    }
    for name in ("ignores-term", "cannot-be-killed"):
        assert texts[name][::2] == ("begun\n", True)


def test_a_watched_command_that_ends_leaves_no_process(host: Host) -> None:
    host.without("timeout")
    host.run(section("quick", "echo"), only_own=True)
    own = str(host.commands).encode()

    def is_ours(pid: str) -> bool:
        with suppress(OSError), open(f"/proc/{pid}/environ", "rb") as environment:  # noqa: PTH123 - procfs
            return own in environment.read()
        return False

    def ours() -> list[str]:
        pids = [entry.name for entry in Path("/proc").iterdir() if entry.name.isdigit()]
        return [pid for pid in pids if is_ours(pid)]

    until = time.monotonic() + 0.2
    while ours() and time.monotonic() < until:
        time.sleep(0.01)
    assert ours() == []


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9, 0.99])
def test_a_script_that_arrives_in_part_does_nothing(
    host: Host, tmp_path: Path, share: float
) -> None:
    whole = script([section("touch", f"touch {tmp_path}/touched")])

    part = whole[: int(len(whole) * share)]
    subprocess.run(
        [host.commands / "sh", "-s"], input=part.encode(), capture_output=True, check=False
    )

    assert not (tmp_path / "touched").exists()


def test_secrets_are_dropped_on_the_host(host: Host, tmp_path: Path) -> None:
    file = tmp_path / "said"
    said = [line for line, _ in HIDDEN] + list(KEPT)
    file.write_text("".join(f"{line}\n" for line in said) + KEY_BLOCK)

    found = host.run(
        section("hidden", f"hide <{file}"),
        section("shown", f"show {file} {tmp_path}/missing"),
    )

    left = [left for _, left in HIDDEN] + list(KEPT)
    key = ["-----BEGIN OPENSSH PRIVATE KEY-----***", "***", "***", KEY_BLOCK.splitlines()[3]]
    assert found.sections["hidden"].text.splitlines() == [*left, *key, "iommu=pt"]
    assert found.sections["shown"].text.splitlines() == [f"== {file}", *left, *key, "iommu=pt", ""]


def test_a_key_without_its_end_hides_nothing_but_what_looks_like_it(
    host: Host, tmp_path: Path
) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    first.write_text("-----BEGIN RSA PRIVATE KEY-----\nabcd\n")
    second.write_text("iommu=pt quiet\nnext\n")

    found = host.run(section("shown", f"show {first} {second}"))

    assert blocks(found.sections["shown"].text)[str(second)] == "iommu=pt quiet\nnext\n"


def test_a_number_of_the_kernel_is_shown_whole(host: Host) -> None:
    """One that is read byte by byte, as dash reads a file, ends after its first digit."""
    number = "/proc/sys/kernel/pid_max"
    block = "/proc/sys/kernel/random/boot_id"

    found = host.run(section("shown", f"show_kernel {number} {block} /proc/missing"))

    assert blocks(found.sections["shown"].text) == {
        name: Path(name).read_text() for name in (number, block)
    }


def test_every_answer_goes_through_the_filter_but_one_that_apply_needs_as_it_is(host: Host) -> None:
    said = section("open", "echo token=geheim")
    exact = Section(name="exact", snippet="echo token=geheim", parse=str, is_exact=True)

    found = host.run(said, exact).sections

    assert found["open"].text.strip() == "token=***"
    assert found["exact"].text.strip() == "token=geheim"


def test_sudo_is_asked_once_and_for_the_sections_that_want_it(host: Host) -> None:
    host.command("id", "echo 1000")
    host.command(
        "sudo", '[ "$1" = -n ] || exit 1; shift; echo "$*" >>' + str(host.pids) + '.sudo; "$@"'
    )
    wanting = Section(name="wanting", snippet="echo", parse=str, wants_root=True)

    bundle = host.run(wanting, section("content", "echo"))

    assert bundle.root
    assert {name: one.root for name, one in bundle.sections.items()} == {
        "wanting": True,
        "content": False,
    }
    # sudo writes what it was given into the host's log: that must not be the whole probe.
    said = (host.pids.parent / "pids.sudo").read_text()
    assert said.splitlines() == ["sh -c :", "sh -s"]
    assert "sudo" not in script([wanting], root=False)


def test_no_program_gets_the_mark_as_a_word(host: Host) -> None:
    """Of a program, everybody on the host may read the words; printf is one in mksh."""
    host.command("id", "echo 1000")
    host.command("sudo", 'shift; "$@"')
    host.command("printf", f'echo "$*" >>{host.pids}.words; exec /usr/bin/printf "$@"')
    wanting = Section(name="wanting", snippet="printf one", parse=str, wants_root=True)

    assert host.run(wanting).sections["wanting"].text == "one"
    words = host.pids.with_suffix(".words")
    assert "mark=" not in (words.read_text() if words.exists() else "")


@pytest.mark.skipif(shutil.which("shellcheck") is None, reason="shellcheck is not installed")
@pytest.mark.parametrize("part", [None, "_TOOLS", "_FRAME", "_WATCHDOG", "_LANES"])
def test_shellcheck_has_nothing_to_say(part: str | None) -> None:
    text = getattr(probe, part) if part else script(SECTIONS)
    # What is meant: the quoted programs run elsewhere, and some variables are set elsewhere.
    done = subprocess.run(
        ["shellcheck", "--shell=sh", "--exclude=SC2016,SC2154,SC2034,SC2317,SC2086,SC2329", "-"],
        input=re.sub("@[A-Z]+@", "1", text),
        text=True,
        capture_output=True,
        check=False,
    )

    assert done.stdout == ""


@pytest.mark.skipif(shutil.which("shellcheck") is None, reason="shellcheck is not installed")
@pytest.mark.parametrize("one", SECTIONS, ids=lambda one: one.name)
def test_shellcheck_has_nothing_to_say_of_a_section(one: Section[object]) -> None:
    # What is meant: splitting of a glob's or ls's fields, and variables that hold several words.
    done = subprocess.run(
        ["shellcheck", "--shell=sh", "--exclude=SC2046,SC2012,SC2086,SC2317", "-"],
        input="show() { :; }; run() { :; }; block() { :; }; units_of() { units=; }\n"
        'asked_at=0; : "$units" "$asked_at"\n' + called(one.snippet),
        text=True,
        capture_output=True,
        check=False,
    )

    assert done.stdout == ""


def test_the_longest_time_is_that_of_both_rounds() -> None:
    quick, slow = section("a", ":", 8), section("b", ":", 20, asks_driver=True)

    assert longest_s([quick, slow]) >= 28


def test_no_shell_needs_a_place_for_a_file() -> None:
    # Bash puts a long here-document into one, and a host whose disk is broken has no place for it.
    assert not re.search(r"<<-?[ '\"]*[A-Za-z]", script(SECTIONS))
