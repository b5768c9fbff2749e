"""A restore from a server, whose archive may be anything."""

from __future__ import annotations

import io
import os
import tarfile
from typing import TYPE_CHECKING, Any

import pytest

from rigops.backup.host.errors import HostError
from rigops.backup.host.output import Output
from rigops.concerns.snapshots.host import stores
from rigops.concerns.snapshots.host.stores import ServerStore
from rigops.concerns.snapshots.host.transfer import StreamMeter
from rigops.hostside.shared.beneath import open_parent
from tests.unit.programs import needed

if TYPE_CHECKING:
    from pathlib import Path

    from tests.unit.concerns.snapshots.fake_server import Server

NAME = "20261127T000000Z-manual"


def archive(folder: Path, *members: tarfile.TarInfo) -> Path:
    path = folder / "archive"
    with tarfile.open(path, "w") as made:
        for one in members:
            made.addfile(one, io.BytesIO(bytes(one.size)))
    return path


def member(name: str, **values: Any) -> tarfile.TarInfo:
    found = tarfile.TarInfo(name)
    found.uid, found.gid = os.getuid(), os.getgid()
    for key, value in values.items():
        setattr(found, key, value)
    return found


def copy(server: Server, text: str, target: Path, inside: str = "me/thesis") -> None:
    needed("prlimit")
    store = ServerStore(server.does(text))
    meter = StreamMeter(Output(as_json=False), "restoring", None)
    with open_parent(str(target)) as entry:
        store.copy("@", NAME, inside, entry, meter)


def test_what_was_asked_for_comes(server: Server, tmp_path: Path) -> None:
    sent = archive(tmp_path, member("./thesis", size=5))

    copy(server, f"os.write(1, open({str(sent)!r}, 'rb').read())", tmp_path / "got")

    assert (tmp_path / "got").read_bytes() == bytes(5)


def test_a_link_in_the_archive_leads_to_nothing_of_this_machine(
    server: Server, tmp_path: Path
) -> None:
    victim = tmp_path / "victim"
    victim.mkdir()
    (victim / "thesis").write_text("precious")
    sent = archive(
        tmp_path,
        member("./me", type=tarfile.SYMTYPE, linkname=str(victim)),
        member("me/thesis", size=5),
    )

    with pytest.raises(HostError):
        copy(server, f"os.write(1, open({str(sent)!r}, 'rb').read())", tmp_path / "got")

    assert (victim / "thesis").read_text() == "precious"
    assert not (tmp_path / "got").exists()


def test_a_link_in_the_place_of_what_was_asked_for_is_moved_and_not_followed(
    server: Server, tmp_path: Path
) -> None:
    (tmp_path / "victim").write_text("precious")
    link = member("./thesis", type=tarfile.SYMTYPE, linkname=str(tmp_path / "victim"))
    sent = archive(tmp_path, link)

    copy(server, f"os.write(1, open({str(sent)!r}, 'rb').read())", tmp_path / "got")

    assert (tmp_path / "got").is_symlink()
    assert (tmp_path / "victim").read_text() == "precious"


def test_an_archive_without_end_ends_at_the_room_that_there_is(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    free = os.statvfs(tmp_path)
    monkeypatch.setattr(stores, "SPARE", free.f_bavail * free.f_frsize - (8 << 20))
    endless = (
        "import tarfile\none = tarfile.TarInfo('./thesis'); one.size = 1 << 40\n"
        "os.write(1, one.tobuf())\nwhile True: os.write(1, bytes(1 << 20))"
    )

    with pytest.raises(HostError, match="takes more than the"):
        copy(server, endless, tmp_path / "got")

    assert not (tmp_path / "got").exists()


def test_a_server_that_sends_nothing_sends_nothing(server: Server, tmp_path: Path) -> None:
    with pytest.raises(HostError):
        copy(server, "sys.exit(1)", tmp_path / "got")
