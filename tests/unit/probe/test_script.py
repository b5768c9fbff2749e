"""The script as it really runs, under every shell of this machine."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

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
from tests.unit.programs import SHELLS, SHELLS_WHERE_SLOW, assert_clean_shell, needed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rigops.probe.bundle import Bundle

# Ignores TERM and so do its children, all of one group.
STUBBORN = "trap '' TERM; echo begun; sleep 300 & wait; sleep 300"
# A session of its own is out of reach of every signal, as a process in D state is.
UNREACHABLE = "echo begun; setsid unreachable; echo"


class Host:
    """This machine, with one shell as its only sh and with commands of our own making."""

    def __init__(self, folder: Path, shell: str) -> None:
        self.folder = folder
        self.commands = folder / "bin"
        self.commands.mkdir()
        (self.commands / "sh").symlink_to(needed(shell))
        self.path = f"{self.commands}:{PATH}"

    def command(self, name: str, program: str) -> None:
        path = self.commands / name
        path.write_text(f"#!/bin/sh\necho $$ >>{self.folder}/{name}.pids\n{program}\n")
        path.chmod(0o755)

    def without_timeout(self) -> None:
        self.command("timeout", "exit 127")

    def run(self, *sections: Section[Any]) -> Bundle:
        done = subprocess.run(
            [self.commands / "sh", "-s"],
            input=script(sections, path=self.path).encode(),
            capture_output=True,
            check=True,
            timeout=120,
        )
        assert done.stderr == b""
        assert done.stdout.endswith(b" done\n")
        bundle = reading.read(done.stdout, host="here")
        assert bundle is not None
        return bundle

    def pids(self, name: str) -> list[int]:
        """Of a command of ours."""
        return [int(pid) for pid in (self.folder / f"{name}.pids").read_text().split()]

    def processes(self) -> set[int]:
        """All that have our PATH."""
        own = str(self.commands).encode()
        found = set()
        for entry in Path("/proc").iterdir():
            with suppress(OSError):
                if entry.name.isdigit() and own in (entry / "environ").read_bytes():
                    found.add(int(entry.name))
        return found

    def end(self) -> None:
        for pid in self.processes():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


@pytest.fixture(params=SHELLS)
def host(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Host]:
    made = Host(tmp_path, request.param)
    yield made
    made.end()


def section(
    name: str, snippet: str, timeout_s: int = 60, *, asks_driver: bool = False, lane: str = ""
) -> Section[str]:
    return Section(
        name=name,
        snippet=snippet,
        parse=str,
        timeout_s=timeout_s,
        asks_driver=asks_driver,
        lane=lane,
    )


def eventually(holds: Callable[[], bool]) -> bool:
    until = time.monotonic() + 30
    while not holds() and time.monotonic() < until:
        time.sleep(0.01)
    return holds()


def test_this_machine_answers_every_section(host: Host) -> None:
    bundle = host.run(*(replace(one, timeout_s=60) for one in SECTIONS))

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
@pytest.mark.parametrize("host", SHELLS_WHERE_SLOW, indirect=True)
def test_a_hanging_driver_costs_its_own_section_only(host: Host, *, with_timeout: bool) -> None:
    host.command("stubborn", STUBBORN)
    host.command("unreachable", "trap '' TERM; exec sleep 300")
    if not with_timeout:
        host.without_timeout()

    bundle = host.run(
        section("ignores-term", "stubborn", 3),
        section("cannot-be-killed", UNREACHABLE, 3),
        section("well", "sleep 1; echo fine"),
    )

    assert bundle.sections["well"].text == "fine\n"
    for name in ("ignores-term", "cannot-be-killed"):
        assert bundle.sections[name].timed_out
        assert bundle.sections[name].text == "begun\n"
    (stubborn,), (unreachable,) = host.pids("stubborn"), host.pids("unreachable")
    assert eventually(lambda: stubborn not in host.processes())
    # Nobody waited for this one. It has its own output, into a pipe that nobody reads any more, and
    # nothing of the session.
    links = {one.name: str(one.readlink()) for one in Path(f"/proc/{unreachable}/fd").iterdir()}
    assert (links["0"], links["2"]) == ("/dev/null", "/dev/null")
    assert [name for name, link in links.items() if link.startswith("pipe:")] == ["1"]


@pytest.mark.parametrize("host", SHELLS_WHERE_SLOW, indirect=True)
def test_what_hangs_or_ends_the_shell_of_a_lane_costs_its_own_section_only(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rigops.probe.script._TOGETHER_S", 1)
    monkeypatch.setattr("rigops.probe.script._SHARED_S", 60)
    # It holds the pipe of its lane, so it goes when the others have answered.
    answered = host.folder / "answered"
    host.command("unreachable", f"trap '' TERM; until [ -e {answered} ]; do sleep 0.1; done")

    bundle = host.run(
        section("first", "echo before; false", lane="files"),
        section("cannot-be-killed", UNREACHABLE, 3, lane="files"),
        section("ends-the-shell", "echo last; exit 7", lane="files"),
        section("well", f"echo fine; : >{answered}", lane="files"),
        section("other", "echo other", lane="others"),
        section("leaves", "set -f; IFS=x; cd /proc; f() { :; }; echo left", lane="others"),
        section("next", "echo $PWD $(echo axb) /et*", lane="others"),
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
    assert texts["cannot-be-killed"][::2] == ("begun\n", True)


def test_a_watched_command_that_ends_leaves_no_process(host: Host) -> None:
    naps = host.folder / "naps"  # that came to their end
    host.command("sleep", f'/usr/bin/sleep "$@"; echo >>{naps}')
    host.without_timeout()

    host.run(section("quick", "/usr/bin/sleep 0.2"))

    before = naps.read_text() if naps.exists() else ""  # in mksh, one that nobody could end
    assert eventually(lambda: not host.processes())
    assert (naps.read_text() if naps.exists() else "") == before


def test_a_script_that_arrives_in_part_does_nothing(host: Host) -> None:
    whole = script([section("touch", f"touch {host.folder}/touched")])

    for share in (0.1, 0.5, 0.9, 0.99):
        part = whole[: int(len(whole) * share)]
        subprocess.run(
            [host.commands / "sh", "-s"], input=part.encode(), capture_output=True, check=False
        )
        assert not (host.folder / "touched").exists(), share


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
    host.command("sudo", f'[ "$1" = -n ] || exit 1; shift; echo "$*" >>{host.folder}/asked; "$@"')
    wanting = Section(name="wanting", snippet="echo", parse=str, wants_root=True)

    bundle = host.run(wanting, section("content", "echo"))

    assert bundle.root
    assert {name: one.root for name, one in bundle.sections.items()} == {
        "wanting": True,
        "content": False,
    }
    # sudo writes what it was given into the host's log: that must not be the whole probe.
    assert (host.folder / "asked").read_text().splitlines() == ["sh -c :", "sh -s"]
    assert "sudo" not in script([wanting], root=False)


def test_no_program_gets_the_mark_as_a_word(host: Host) -> None:
    """Of a program, everybody on the host may read the words; printf is one in mksh."""
    host.command("id", "echo 1000")
    host.command("sudo", 'shift; "$@"')
    host.command("printf", f'echo "$*" >>{host.folder}/words; exec /usr/bin/printf "$@"')
    wanting = Section(name="wanting", snippet="printf one", parse=str, wants_root=True)

    assert host.run(wanting).sections["wanting"].text == "one"
    words = host.folder / "words"
    assert "mark=" not in (words.read_text() if words.exists() else "")


@pytest.mark.parametrize("part", [None, "_TOOLS", "_FRAME", "_WATCHDOG", "_LANES"])
def test_shellcheck_has_nothing_to_say(part: str | None) -> None:
    text = getattr(probe, part) if part else script(SECTIONS)
    # What is meant: the quoted programs run elsewhere, and some variables are set elsewhere.
    assert_clean_shell(
        re.sub("@[A-Z]+@", "1", text), exclude="SC2016,SC2154,SC2034,SC2317,SC2086,SC2329"
    )


def test_shellcheck_has_nothing_to_say_of_a_section(tmp_path: Path) -> None:
    set_elsewhere = (
        "show() { :; }; run() { :; }; block() { :; }; units_of() { units=; }\n"
        'asked_at=0; : "$units" "$asked_at"\n'
    )
    for one in SECTIONS:
        (tmp_path / one.name).write_text(set_elsewhere + called(one.snippet))
    # What is meant: splitting of a glob's or ls's fields, and variables that hold several words.
    done = subprocess.run(
        [needed("shellcheck"), "--shell=sh", "--exclude=SC2046,SC2012,SC2086,SC2317",
         *tmp_path.iterdir()],
        text=True,
        capture_output=True,
        check=False,
    )  # fmt: skip

    assert done.stdout == ""


def test_the_longest_time_is_that_of_both_rounds() -> None:
    quick, slow = section("a", ":", 8), section("b", ":", 20, asks_driver=True)

    assert longest_s([quick, slow]) >= 28


def test_no_shell_needs_a_place_for_a_file() -> None:
    # Bash puts a long here-document into one, and a host whose disk is broken has no place for it.
    assert not re.search(r"<<-?[ '\"]*[A-Za-z]", script(SECTIONS))
