"""What a hostile backup server answers and sends: its rig changes nothing else, and goes on.

The server is a program in the place of ssh, since all that it has of the rig is that channel. A row
more is a verb of the server with what it does then, an archive, or a stream.
"""

from __future__ import annotations

import base64
import io
import tarfile
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import pytest

from tests import send_streams as made
from tests.lab.snapshot_host import HERE, LIVE, Ran, SnapshotHost
from tests.shards import ATTACK

if TYPE_CHECKING:
    from tests.lab.conftest import Lab

pytestmark = pytest.mark.shard(ATTACK)

SERVER: Final = "root@server:/backup"
SSH: Final = "/usr/local/sbin/ssh"  # found before the real one
DOES: Final = "/root/hostile"  # shell by the verbs, and what it sends
VICTIM: Final = "/srv/victim"
LOOK: Final = f"cd {VICTIM} && find . -printf '%p %y %i %m %U %s\\n' | sort"
EVIL: Final = "find / /run /data -xdev -name 'evil*'"
NAME: Final = "20260101T000000Z-timer"
FUTURE: Final = "20990101T000000Z-timer"
UUID: Final = "11111111-1111-1111-1111-111111111111"  # made.OURS
PROGRAM: Final = f"""\
#!/bin/bash
read -r verb _ <<<"${{@: -1}}"
[ ! -e {DOES}/$verb ] || exec bash {DOES}/$verb
case $verb in
    folders) echo '["data%2Fhome"]' ;;
    room) echo '[1000000000, 2000000000]' ;;
    list) echo '[["{NAME}", "{UUID}", "{UUID}", true]]' ;;
    look) echo '["directory", 0]' ;;
    receive) cat >/dev/null ;;
    *) echo '[]' ;;
esac
"""


@dataclass(frozen=True)
class Rig:
    on: SnapshotHost

    def begin(self, **settings: object) -> None:
        self.on.start_anew(send_to=SERVER, **settings)
        self.on.does(
            f"rm -rf {DOES} {VICTIM} /root/out && mkdir -p {DOES} {VICTIM}/w {LIVE}/me"
            f" && echo mine >{VICTIM}/w/x"
        )
        self.on.does(f"cat >{SSH} && chmod 755 {SSH}", given=PROGRAM)

    def server(self, verb: str, does: str) -> None:
        self.on.does(f"cat >{DOES}/{verb}", given=does)

    def sends(self, verb: str, content: bytes) -> None:
        given = base64.b64encode(content).decode()
        self.on.does(f"base64 -d >{DOES}/{verb}.content", given=given)
        self.server(verb, f"cat {DOES}/{verb}.content")

    def run(self, *words: str) -> Ran:
        """In memory that a flood would exceed."""
        return self.on.run(*words, before=f"prlimit --as={1 << 30}")

    def restore(self, path: str, *words: str) -> Ran:
        return self.run("restore", "--path", path, "--place", SERVER, *words)

    def take(self, days: int) -> list[str]:
        """One a day, until yesterday."""
        self.on.does(f"install -d -m 700 /data/.rigops/snapshots {HERE}")
        for day in range(1, days + 1):
            name = f"$(date -u -d '-{day} day' +%Y%m%dT%H%M%SZ)-timer"
            self.on.does(f"btrfs -q subvolume snapshot -r {LIVE} {HERE}/{name}")
        return self.on.here()


@pytest.fixture(scope="module")
def rig(module_lab: Lab) -> Rig:
    on = SnapshotHost(module_lab.one("epyc-8x4090"))
    on.install()
    return Rig(on)


ANSWERS: Final = {
    "a number for a copy": ("list", "echo '[5]'"),
    "a number for a list": ("list", "echo 5"),
    "a name that leads elsewhere": ("list", f'echo \'[["../x", "{UUID}", "{UUID}", true]]\''),
    "words for numbers": ("room", 'echo \'["a", "b"]\''),
    "brackets without end": ("room", "python3 -c 'print(\"[\" * 100000)'"),
    "no text": ("room", "printf '[\\377]'"),
    "blanks without end": ("room", "exec yes ''"),
    "a complaint that steers a terminal": (
        "room",
        "printf 'Error: \\e[31mred\\e]0;x\\a. fix: x\\n' >&2; exit 1",
    ),
    "nothing, for ever": ("room", "exec sleep infinity"),
}


@pytest.mark.parametrize(("verb", "does"), ANSWERS.values(), ids=ANSWERS)
def test_whatever_a_server_answers_snapshots_are_taken_and_pruned(
    rig: Rig, verb: str, does: str
) -> None:
    rig.begin(keep="1h")
    rig.take(3)
    rig.server(verb, does)

    ran = rig.run("run")

    assert "Traceback" not in ran.stderr
    assert ran.names("created"), ran
    assert ran.names("pruned"), ran
    assert rig.on.state()["target"]["state"] in {"failed", "unreachable"}
    assert all(line.isprintable() for line in ran.text.splitlines()), ran.text


def test_a_copy_from_the_future_at_a_server_is_not_its_newest(rig: Rig) -> None:
    rig.begin()
    rig.server("list", f'echo \'[["{FUTURE}", "{UUID}", "{UUID}", true]]\'')

    assert rig.run("prune").code == 0  # sends nothing, and notes what is there

    assert LIVE not in rig.on.state()["target"]["newest_at"]


def member(name: str, **values: object) -> tarfile.TarInfo:
    found = tarfile.TarInfo(name)
    for key, value in values.items():
        setattr(found, key, value)
    return found


def archive(*members: tarfile.TarInfo) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as made_here:
        for one in members:
            made_here.addfile(one, io.BytesIO(b"e" * one.size))
    return packed.getvalue()


def link(name: str, target: str) -> tarfile.TarInfo:
    return member(name, type=tarfile.SYMTYPE, linkname=target)


FOLDER: Final = member("./w", type=tarfile.DIRTYPE, mode=0o755)
ARCHIVES: Final = {
    "a link in the place of the folder above": (link("./me", VICTIM),),
    "a link upwards there": (link("./me", "../../../../../../srv/victim"),),
    "a link there, and what is behind it": (link("./me", VICTIM), member("me/w/x", size=5)),
    "a link in the place of what was asked for": (link("./w", f"{VICTIM}/w"),),
    "a link there, and a file behind it": (link("./w", VICTIM), member("./w/evil", size=5)),
    "a name that goes up": (FOLDER, member("../../../../../../srv/victim/evil", size=5)),
    "an absolute name": (FOLDER, member(f"{VICTIM}/evil", size=5)),
    "a hard link": (member("./w", type=tarfile.LNKTYPE, linkname=f"{VICTIM}/w/x"),),
    "a hard link upwards": (
        FOLDER,
        member("./w/y", type=tarfile.LNKTYPE, linkname="../../../../../srv/victim/w/x"),
        member("./w/y", size=5),
    ),
    "another name": (member("./evil", size=5),),
    "nothing": (),
}


@pytest.mark.parametrize("members", ARCHIVES.values(), ids=ARCHIVES)
@pytest.mark.parametrize("words", [("--to", "/root/out"), ()], ids=["elsewhere", "beside"])
def test_no_archive_of_a_server_reaches_anything_of_this_machine(
    rig: Rig, members: tuple[tarfile.TarInfo, ...], words: tuple[str, ...]
) -> None:
    rig.begin()
    rig.sends("tar", archive(*members))
    before = rig.on.does(LOOK)

    rig.restore(f"{LIVE}/me/w", *words)

    assert rig.on.does(LOOK) == before
    assert rig.on.does(EVIL) == ""


def test_an_archive_without_end_leaves_the_disk_as_it_was(rig: Rig) -> None:
    rig.begin()
    rig.sends("tar", FOLDER.tobuf() + member("./w/x", size=1 << 40).tobuf())
    rig.server("tar", f"cat {DOES}/tar.content; exec cat /dev/zero")

    ran = rig.restore(f"{LIVE}/me/w")

    assert ran.code == 1
    assert "takes more than the" in ran.text
    assert rig.on.does(f"ls -A {LIVE}/me") == ""


def test_what_a_server_really_has_is_restored(rig: Rig) -> None:
    """Else all of this could be refused for another reason."""
    rig.begin()
    rig.sends("tar", archive(FOLDER, member("./w/x", size=5)))
    rig.sends("send", stream(made.mkfile(b"small"), made.write(b"small", b"theirs")))

    beside = rig.restore(f"{LIVE}/me/w", "--to", "/root/out")
    whole = rig.restore(LIVE, "--in-place")

    assert (beside.code, whole.code) == (0, 0), beside.text + whole.text
    assert rig.on.does(f"cat {LIVE}/small") == "theirs"


def stream(*commands: bytes) -> bytes:
    return made.begin(NAME) + b"".join(commands) + made.end()


UP: Final = b"../" * 12 + b"srv/victim/"
STREAMS: Final = {
    "a file above": (made.mkfile(UP + b"evil"), made.write(UP + b"evil")),
    "an absolute file": (made.mkfile(b"/srv/victim/evil"),),
    "a write above": (made.write(UP + b"w/x"),),
    "a clone from above": (made.mkfile(b"a"), made.clone(b"a", made.OURS, UP + b"w/x")),
    "a link above": (made.symlink(UP + b"evil", b"/"),),
    "a device above": (made.mknod(UP + b"evil", 0o060600, 0),),
    "a file behind a link upwards": (made.symlink(b"l", UP), made.mkfile(b"l/evil")),
    "a file behind a link to the root": (
        made.symlink(b"l", b"/"),
        made.mkfile(b"l/srv/victim/evil"),
    ),
    "a write through a link": (made.symlink(b"l", UP + b"w/x"), made.write(b"l")),
    "a right above": (
        made.command(made.CHMOD, (made.PATH, UP + b"w/x"), (made.MODE, made.number(0o4777))),
    ),
    "a name above": (
        made.mkfile(b"a"),
        made.command(made.RENAME, (made.PATH, b"a"), (made.PATH_TO, UP + b"evil")),
    ),
    "a removal above": (made.command(made.UNLINK, (made.PATH, UP + b"w/x")),),
}


def test_no_stream_of_a_server_reaches_anything_of_this_machine(rig: Rig) -> None:
    rig.begin()
    before = rig.on.does(LOOK), rig.on.does(f"ls -A {LIVE}")
    for what, commands in STREAMS.items():
        rig.sends("send", stream(*commands))

        ran = rig.restore(LIVE, "--in-place")

        assert rig.on.does(EVIL) == "", what
        assert (rig.on.does(LOOK), rig.on.does(f"ls -A {LIVE}")) == before, what
        assert ran.code == 1, what
