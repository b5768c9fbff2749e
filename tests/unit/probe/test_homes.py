"""What root makes of files in homes, where everything is as its owner likes."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from rigops.probe import script
from rigops.probe.homes import IN_HOMES
from rigops.probe.sections import nccl
from tests.unit import programs
from tests.unit.probe.snippets import TOOLS, as_collected, called, entered_by_everybody
from tests.unit.programs import SHELLS

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

UID = 64123  # of nobody here
SECRET = "NCCL_SECRET_OF_ROOT=geheim"
needs_root = pytest.mark.skipif(os.getuid() != 0, reason="only root can become another user")


@dataclass(frozen=True)
class Home:
    path: Path
    secret: Path  # a file that only root can read

    def ask(self, shell: str, snippet: str) -> str:
        done = subprocess.run(
            [*programs.shell(shell), "-c", f"{TOOLS}\n{called(snippet)}"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
            env={"PATH": script.PATH, "OF_ROOT": "geheim"},
        )
        assert done.stderr == ""
        return as_collected(done.stdout).replace(str(self.path), "/home/me")

    def nccl(self, shell: str) -> nccl.Nccl:
        etc = f"{self.secret.parent}/"
        text = self.ask(shell, nccl.SECTION.snippet.replace("/etc/", etc))
        assert "geheim" not in text
        return nccl.parse(text)

    def give(self) -> None:
        for path in (self.path, *self.path.rglob("*")):
            with suppress(FileNotFoundError):
                os.chown(path, UID, UID, follow_symlinks=False)


@pytest.fixture
def home() -> Iterator[Home]:
    with entered_by_everybody() as top:
        found = Home(top / "home", top / "etc/secret")
        found.secret.parent.mkdir(mode=0o700)
        found.secret.write_text(f"{SECRET}\n")
        found.secret.chmod(0o600)
        found.path.mkdir()
        line = f"me:x:{UID}:{UID}::{found.path}:/bin/sh\n"
        (found.secret.parent / "passwd").write_text(line)
        yield found


def _planted(home: Home, kind: str, name: str) -> None:
    path = home.path / name
    path.parent.mkdir(parents=True, exist_ok=True)
    match kind:
        case "a link to a file of root's":
            path.symlink_to(home.secret)
        case "a link to one's own file":
            (home.path / "mine").write_text(SECRET)
            path.symlink_to(home.path / "mine")
        case "a pipe":
            os.mkfifo(path)
        case "a folder":
            path.mkdir()
        case "a file without an end":
            path.touch()
            os.truncate(path, 1 << 40)
        case "a device":
            os.mknod(path, 0o20666, os.makedev(1, 5))


KINDS = (
    "a link to a file of root's",
    "a link to one's own file",
    "a pipe",
    "a folder",
    "a file without an end",
    "a device",
)


@needs_root
@pytest.mark.parametrize("shell", SHELLS)
def test_a_folder_that_is_a_link_leads_no_further_than_its_owner_gets(
    home: Home, shell: str
) -> None:
    hidden = home.secret.parent / "hidden/environment.d"
    hidden.mkdir(parents=True)
    (hidden / "name-of-a-secret.conf").write_text(SECRET)
    (home.path / ".config").symlink_to(hidden.parent)
    home.give()

    found = home.nccl(shell)

    assert (found.settings, found.unread) == ((), ("/home/me/.config",))


@needs_root
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", [".nccl.conf", ".bashrc", ".config/environment.d/a.conf"])
def test_only_a_regular_file_of_a_homes_owner_is_read(home: Home, kind: str, name: str) -> None:
    _planted(home, kind, name)
    home.give()

    found = home.nccl("dash")

    assert (found.settings, found.unread, found.closed) == ((), (f"/home/me/{name}",), ())
    assert found.is_complete
    assert not found.unparsed


@needs_root
@pytest.mark.parametrize("shell", SHELLS)
def test_a_file_of_another_owner_is_not_read_and_one_of_its_owner_is(
    home: Home, shell: str
) -> None:
    (home.path / ".bashrc").write_text("export NCCL_P2P_DISABLE=1\n")
    home.give()
    (home.path / ".nccl.conf").write_text(SECRET)  # root's own, for everybody to read

    found = home.nccl(shell)

    assert [(one.name, one.number) for one in found.settings] == [("NCCL_P2P_DISABLE", 1)]
    assert found.unread == ("/home/me/.nccl.conf",)


@needs_root
def test_a_folder_of_anothers_in_a_home_is_said_not_to_be_read(home: Home) -> None:
    home.give()
    (home.path / ".config/environment.d").mkdir(parents=True)
    (home.path / ".config").chmod(0o700)

    assert home.nccl("dash").unread == ("/home/me/.config",)


@needs_root
def test_a_home_into_which_its_owner_cannot_look_is_closed(home: Home) -> None:
    assert home.nccl("dash").closed == ()
    home.path.chmod(0o700)  # root's

    assert home.nccl("dash").closed == ("/home/me",)


@needs_root
@pytest.mark.parametrize("missing", ["setpriv", "setpriv|su"])
def test_without_a_program_that_changes_the_user_no_home_is_read(home: Home, missing: str) -> None:
    """Busybox's su knows no user of this number, which is as good as no su."""
    (home.path / ".bashrc").write_text("export NCCL_P2P_DISABLE=1\n")
    home.give()
    absent = f'command() {{ case "$2" in {missing}) return 1 ;; esac; builtin command "$@"; }}\n'
    snippet = nccl.SECTION.snippet.replace("/etc/", f"{home.secret.parent}/")
    found = nccl.parse(home.ask("bash", absent + snippet))

    assert (found.settings, found.closed) == ((), ("/home/me",))


@needs_root
def test_a_name_with_a_line_feed_says_nothing_of_other_files(home: Home) -> None:
    folder = home.path / ".config/environment.d"
    folder.mkdir(parents=True)
    (folder / "a\n== ls libnccl\nsetting \nsetting == x\n.conf").write_text("NCCL_DEBUG=INFO\n")
    home.give()

    found = home.nccl("dash")

    assert found.settings == ()
    assert not any(one.path.startswith("x") for one in found.libraries)
    assert found.unparsed  # so that nobody takes it for the whole answer


@needs_root
def test_its_owner_learns_nothing_of_roots_from_the_program_that_reads_it(home: Home) -> None:
    home.give()
    report = home.path / "report"
    asked = "(cat /proc/self/environ; ls -l /proc/self/fd; id -G) >report"

    home.ask("dash", f"{IN_HOMES}\nin_homes '{asked}' <{home.secret.parent}/passwd")

    found = report.read_text()
    assert "geheim" not in found
    assert found.splitlines()[-1] == str(UID)
    kept = {line.split(" -> ")[1] for line in found.splitlines() if " -> " in line}
    own = re.compile(rf"/dev/null|pipe:.*|/proc/[0-9]+/fd|{re.escape(str(report))}")
    assert not [one for one in kept if not own.fullmatch(one)]


@needs_root
def test_a_user_who_stops_the_reading_of_a_home_holds_up_nothing(home: Home) -> None:
    home.give()

    soon = IN_HOMES.replace("timeout 7", "timeout 2")
    program = "echo $$ >pid; kill -s STOP $$"
    text = home.ask("dash", f"{soon}\nin_homes '{program}' <{home.secret.parent}/passwd")
    os.kill(int((home.path / "pid").read_text()), signal.SIGKILL)

    assert text == "closed /home/me\n"
