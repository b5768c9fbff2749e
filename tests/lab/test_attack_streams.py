"""What a hostile rig sends with its key of the backup server: nothing but its own folder changes.

A row more is a pair in `tests/send_streams.py`, or in FROM_WITHIN: streams whose every command is
sound, so that only where `btrfs receive` runs can hold them.
"""

from __future__ import annotations

import base64
import io
import tarfile
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import pytest

from tests import send_streams as made
from tests.lab.snapshot_host import PROGRAM, SECOND, SnapshotHost
from tests.shards import ATTACK

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.lab.conftest import Lab

pytestmark = pytest.mark.shard(ATTACK)

FOLDER: Final = "data%2Fhome"
NAME: Final = "20261127T020000Z-timer"
STREAMS: Final = "/root/streams"
# Its own copy, as a rig may make it: with links that lead anywhere.
PLANTED: Final = (
    made.begin(uuid=made.THEIRS)
    + made.mkfile(b"small")
    + made.write(b"small", bytes(4096))
    + made.symlink(b"up", b"../../../other")
    + made.symlink(b"root", b"/")
    + made.end()
)
OUTSIDE: Final = (
    "cd /; find backup etc root usr/local -path backup/epyc -prune -o -path root/streams -prune -o"
    " -printf '%p %i %m %U %s %T@ %l\\n' | sort | sha256sum;"
    f" cat backup/other/* | sha256sum; head -c 65536 {SECOND} | sha256sum;"
    " find / -xdev -name 'evil*'"
)
INSIDE: Final = "cd /backup/epyc; find . -maxdepth 3 -printf '%p %i %m %s\\n' | sort"


def begun(*commands: bytes, uuid: bytes = made.OURS) -> bytes:
    return made.begin(NAME, uuid) + b"".join(commands) + made.end()


def from_within(device: int) -> dict[str, bytes]:
    """`device`: of the server's disk, as a stream has it."""
    upon = made.build_upon(made.THEIRS, NAME)
    link = made.symlink(b"l", b"/")
    up = made.symlink(b"l", b"../../../../../../../../etc/cron.d")
    wrong = bytearray(begun(made.mkfile(b"a")))
    wrong[-16] ^= 1
    return {
        "a file behind a link to the root": begun(link, made.mkfile(b"l/evil")),
        "a file behind a link upwards": begun(up, made.mkfile(b"l/evil")),
        "a write through a link": begun(
            made.symlink(b"l", b"../../../other/secret"), made.write(b"l")
        ),
        "a write to an absolute link": begun(
            made.symlink(b"l", b"/backup/other/secret"), made.write(b"l")
        ),
        "a write to the disk": begun(made.mknod(b"d", 0o060600, device), made.write(b"d")),
        "a clone through the parent's link": upon
        + made.mkfile(b"a")
        + made.clone(b"a", made.THEIRS, b"up/secret")
        + made.end(),
        "a clone through its own link": begun(
            made.symlink(b"l", b"../../../other/secret"),
            made.mkfile(b"a"),
            made.clone(b"a", made.OURS, b"l"),
        ),
        "a clone through a link of what has its UUID": begun(
            made.mkfile(b"a"), made.clone(b"a", made.THEIRS, b"up/secret"), uuid=made.THEIRS
        ),
        "its top renamed": begun(
            link,
            made.command(
                made.RENAME, (made.PATH, b"l/" + NAME.encode()), (made.PATH_TO, b"l/evil")
            ),
        ),
        "its top removed": begun(made.command(made.RMDIR, (made.PATH, b""))),
        "a wrong checksum": bytes(wrong),
        "no end": begun(made.mkfile(b"a"))[: -len(made.end())],
    }


def some() -> dict[str, bytes]:
    """Of those that the check refuses by itself; the unit tests have all of them."""
    chosen = [one for number, one in enumerate(made.hostile()) if number % 5 == 0]
    changed = enumerate(made.mutated("serve", 15))
    real = {path.read_bytes() for path in made.REAL.glob("*.stream")}
    found = {what: stream.replace(made.FULL.encode(), NAME.encode()) for what, stream in chosen}
    return {**found, **{f"changed {number}": one for number, one in changed if one not in real}}


@dataclass(frozen=True)
class Server:
    on: SnapshotHost

    def asks(self, request: str, given: str = "/dev/null") -> int:
        words = f"SSH_ORIGINAL_COMMAND='{request}' {PROGRAM} serve /backup/epyc <{given}"
        return self.on.host.run(words).returncode

    def put(self, streams: Mapping[str, bytes]) -> None:
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w:gz") as archive:
            for number, stream in enumerate(streams.values()):
                member = tarfile.TarInfo(str(number))
                member.size = len(stream)
                archive.addfile(member, io.BytesIO(stream))
        given = base64.b64encode(packed.getvalue()).decode()
        self.on.does(f"rm -rf {STREAMS}; mkdir {STREAMS}; base64 -d | tar -xzC {STREAMS}", given)


@pytest.fixture(scope="module")
def server(module_lab: Lab) -> Server:
    on = SnapshotHost(module_lab.one("epyc-8x4090"))
    on.install()
    on.start_anew()
    on.does(
        f"mkdir -p /backup; mount {SECOND} /backup; mkdir /backup/epyc /backup/other;"
        " head -c 4096 /dev/urandom >/backup/other/secret"
    )
    found = Server(on)
    found.put({"planted": PLANTED})
    assert found.asks(f"receive {FOLDER} {made.FULL}", f"{STREAMS}/0") == 0
    return found


def test_nothing_that_a_rig_sends_changes_anything_but_its_folder(server: Server) -> None:
    device = int(server.on.does(f"stat -c %t {SECOND}"), 16) << 8
    device |= int(server.on.does(f"stat -c %T {SECOND}"), 16)
    streams = {**from_within(device), **some()}
    server.put(streams)
    outside, inside = server.on.does(OUTSIDE), server.on.does(INSIDE)

    accepted = [
        what
        for number, what in enumerate(streams)
        if server.asks(f"receive {FOLDER} {NAME}", f"{STREAMS}/{number}") == 0
    ]

    assert len(streams) > 50
    assert server.on.does(OUTSIDE) == outside
    assert accepted == []
    assert server.on.does(INSIDE) == inside


def test_a_rig_may_still_send_what_is_a_snapshot(server: Server) -> None:
    real = (made.REAL / "full-1.stream").read_bytes()
    upon = (made.REAL / "increment-1.stream").read_bytes()
    server.put({"real": real, "upon": upon})

    assert server.asks(f"receive other {made.FULL}", f"{STREAMS}/0") == 0
    assert server.asks(f"receive other {made.NEXT}", f"{STREAMS}/1") == 0

    there = "/backup/epyc/other"
    assert server.on.does(f"ls {there}").split() == [made.FULL, made.NEXT]
    assert server.on.does(f"cat {there}/{made.NEXT}/small") == "hi\nmore"
    assert server.on.does("ls -A /backup/epyc").split() == [FOLDER, "other"]


def test_what_a_killed_receive_left_goes_with_the_next_one(server: Server) -> None:
    left = "/backup/epyc/@receiving-0123456789abcdef"
    server.on.does(f"mkdir {left}; btrfs -q subvolume create {left}/half; touch {left}/half/x")
    server.put({"good": begun(made.mkfile(b"a"))})

    assert server.asks(f"receive {FOLDER} {NAME}", f"{STREAMS}/0") == 0

    assert "receiving" not in server.on.does("ls -A /backup/epyc")
    assert server.asks(f"delete {FOLDER} {NAME}") == 0


@pytest.mark.parametrize("verb", ["look", "tar"])
@pytest.mark.parametrize("path", ["up/secret", "root/backup/other/secret", "../../../other/secret"])
def test_no_path_leads_out_of_a_snapshot(server: Server, verb: str, path: str) -> None:
    words = (
        f"SSH_ORIGINAL_COMMAND='{verb} {FOLDER} {made.FULL} {path}' {PROGRAM} serve /backup/epyc"
    )
    done = server.on.host.run(f"{words} | base64 -w0")

    assert done.stdout in {"", base64.b64encode(b"[]\n").decode()}


def test_other_peoples_names_are_left_alone_and_not_printed(server: Server) -> None:
    server.on.does(
        "cd /backup/epyc; mkdir 'a%1B[31m' 'a%0Ab' \"$(printf 'a\\377')\" \"$(printf 'x\\ny')\""
    )
    asked = f"SSH_ORIGINAL_COMMAND=folders {PROGRAM} serve /backup/epyc"

    assert server.on.does(asked) == f'["{FOLDER}", "other"]'
