"""Brings a file or a tree back from an archive."""

from __future__ import annotations

import os
import shutil
from datetime import datetime, timezone
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from rigops.concerns.borg.host.archive_contents import Found, find_in_archive
from rigops.concerns.borg.host.archive_listing import BORG_ENGINE
from rigops.concerns.borg.host.archive_names import (
    ARCHIVE_TIME,
    Archive,
    archives_of,
    choose_archives,
    parse_archive_wish,
)
from rigops.concerns.borg.host.borg_meanings import BorgError
from rigops.concerns.borg.host.borg_run_lock import only_borg_run
from rigops.concerns.borg.host.borg_settings import demand_borg_settings
from rigops.concerns.borg.host.borg_state import known_repository
from rigops.concerns.borg.host.repository import (
    check_signatures,
    explain_refusal,
    list_repository,
    open_borg,
)
from rigops.concerns.borg.host.restore_frame import (
    RestorePaths,
    RestoreSource,
    add_restore_options,
    answer_restore,
    demand_room,
    describe_restore,
    finish_extraction,
    read_restore_paths,
    refuse_to_overwrite,
)
from rigops.concerns.snapshots.host.btrfs import HostError
from rigops.concerns.snapshots.host.mounted import mounted_below
from rigops.concerns.snapshots.host.one_run import only_run
from rigops.concerns.snapshots.host.renaming import move_to_free_name, put_in_place
from rigops.concerns.snapshots.host.unfinished import clear_unfinished
from rigops.concerns.snapshots.host.workspace import (
    Folder,
    open_below,
    open_folder,
    workspace,
)

if TYPE_CHECKING:
    import argparse

    from rigops.concerns.borg.host.archive_names import ArchiveWish
    from rigops.concerns.borg.host.borg_process import Borg
    from rigops.concerns.snapshots.host.output import Output


class ArchiveRequest(NamedTuple):
    """`of`: the host that made the archives."""

    paths: RestorePaths
    wish: ArchiveWish
    in_place: bool
    of: str

    @property
    def path(self) -> str:
        return self.paths.path

    @property
    def inside(self) -> str:
        return self.paths.inside


def add_archive_restore(commands: Any) -> None:  # noqa: ANN401 - argparse does not name its type
    parser = add_restore_options(commands, __doc__ or "")
    parser.add_argument("--of", default="", metavar="HOST", help="from archives of this host")
    parser.set_defaults(carry_out=restore_archive)


def restore_archive(options: argparse.Namespace, output: Output) -> int:
    return answer_restore(options, output, partial(_restore, options, output))


def _restore(options: argparse.Namespace, output: Output) -> dict[str, Any]:
    settings = demand_borg_settings()
    request = _read_restore_request(options)
    if options.place not in {"", BORG_ENGINE, settings.repository}:
        raise HostError(
            f"no archives at {options.place} (there are: {settings.repository})",
            "check /etc/rigops/borg.json",
        )
    borg = open_borg(settings, options)
    try:
        archive, found = _choose_archive(borg, request)
        target = request.path if request.in_place else request.paths.target(archive.at)
        source = RestoreSource(archive.name, archive.at, settings.repository, BORG_ENGINE, found)
        done = describe_restore(request.path, source, target)
        if options.dry_run:
            return done
        with only_run(), only_borg_run():
            clear_unfinished(output)
            restoring = _Restoring(borg, request, archive, found, output)
            done.update(restoring.fill() if restoring.fills_folder else restoring.put(target))
    except BorgError as error:
        raise explain_refusal(borg, error) from error
    return done


def _read_restore_request(options: argparse.Namespace) -> ArchiveRequest:
    paths = read_restore_paths(options)
    if paths.path == "/" and not paths.to:
        raise HostError("/ is in use and cannot be replaced here", "use --to DIR")
    return ArchiveRequest(paths, parse_archive_wish(options.at), options.in_place, options.of)


def _choose_archive(borg: Borg, request: ArchiveRequest) -> tuple[Archive, Found]:
    listing = list_repository(borg)
    check_signatures(borg, known_repository(borg.repository))
    mine = archives_of(request.of or borg.settings.host, listing.names)
    for one in choose_archives(mine, request.wish):
        found = find_in_archive(borg, one.name, request.inside)
        if found:
            return one, found
    names = ", ".join(one.name for one in mine[-4:]) or "none"
    raise HostError(
        f"{request.path} is in no archive of that time",
        f"check the spelling and --at; newest archives: {names}",
    )


class _Restoring:
    def __init__(
        self, borg: Borg, request: ArchiveRequest, archive: Archive, found: Found, output: Output
    ) -> None:
        self._borg = borg
        self._request = request
        self._archive = archive
        self._found = found
        self._output = output

    @property
    def fills_folder(self) -> bool:
        """A mount point and a subvolume stay what they are: only what is inside is replaced."""
        path = self._request.path
        if not self._request.in_place or not os.path.isdir(path):  # noqa: PTH112
            return False
        if os.path.islink(path):  # noqa: PTH114
            return False
        return Path(path).stat().st_dev != Path(path).parent.stat().st_dev or os.path.ismount(path)

    def put(self, target: str) -> dict[str, Any]:
        """Made beside under another name, and then renamed."""
        if self._request.paths.to:
            refuse_to_overwrite(target)
            os.makedirs(os.path.dirname(target), mode=0o755, exist_ok=True)  # noqa: PTH103, PTH120
        parent, last = os.path.split(target)
        start = self._start(parent)
        below = [one for one in parent[len(start) :].split("/") if one]
        present = start
        while below and os.path.lexists(f"{present.rstrip('/')}/{below[0]}"):
            present = f"{present.rstrip('/')}/{below.pop(0)}"
        held = [one for one in present[len(start) :].split("/") if one]
        with open_below(start, held) if held else open_folder(start) as above:
            demand_room(above, self._found.bytes)
            with workspace(above) as made:
                parents = [
                    f"{present.strip('/')}/{'/'.join(below[: n + 1])}".strip("/")
                    for n in range(len(below))
                ]
                self._extract(made, parents)
                top = below[0] if below else last
                inside = f"{present.strip('/')}/{top}".strip("/") if below else self._request.inside
                finish_extraction(made, self._request.paths, target)
                return self._rename(made.at(inside), above, top, target)

    def _start(self, parent: str) -> str:
        """From there on no symbolic link is followed: a user of the machine may have made it."""
        if not self._request.in_place:
            return parent
        above = [
            path
            for path in (*self._borg.settings.paths, "/etc", "/var/lib/rigops")
            if self._request.path.startswith(f"{path.rstrip('/')}/") and os.path.isdir(path)  # noqa: PTH112
        ]
        return max(above, key=len, default="/")

    def _rename(self, made: str, above: Folder, top: str, target: str) -> dict[str, Any]:
        if not self._request.in_place or not os.path.lexists(above.at(top)):
            move_to_free_name(made, above.at(top))
            return {"restored_to": target}
        aside = f"{top}.before-restore-{datetime.now(timezone.utc).strftime(ARCHIVE_TIME)}"
        put_in_place(made, above.at(top), above.at(aside))
        return {"restored_to": target, "aside": f"{above.path.rstrip('/')}/{aside}"}

    def fill(self) -> dict[str, Any]:
        """What is there moves into a folder beside it; killed in between, both are complete."""
        path = self._request.path
        mounted = mounted_below(path)
        if mounted:
            names = ", ".join(mounted)
            raise HostError(f"{names}: mounted inside {path}", f"umount {' '.join(mounted)}")
        with open_folder(path) as live:
            demand_room(live, self._found.bytes)
            with workspace(live) as made:
                self._extract(made, [])
                finish_extraction(made, self._request.paths, path)
                return self._swap_contents(made.at(self._request.inside), live, made.path)

    def _swap_contents(self, restored: str, live: Folder, made: str) -> dict[str, Any]:
        aside = f".before-restore-{datetime.now(timezone.utc).strftime(ARCHIVE_TIME)}"
        old = [one for one in os.listdir(live.at("")) if one != os.path.basename(made)]  # noqa: PTH119, PTH208
        if old:
            os.mkdir(live.at(aside), 0o700)  # noqa: PTH102
        for name in old:
            move_to_free_name(live.at(name), live.at(f"{aside}/{name}"))
        for name in os.listdir(restored):  # noqa: PTH208
            move_to_free_name(f"{restored}/{name}", live.at(name))
        owner = Path(restored).stat()
        os.chown(live.number, owner.st_uid, owner.st_gid)
        shutil.copystat(restored, f"/proc/self/fd/{live.number}")
        return {
            "restored_to": live.path,
            "aside": f"{live.path.rstrip('/')}/{aside}" if old else None,
        }

    def _extract(self, made: Folder, parents: list[str]) -> None:
        """`parents`: folders that are missing, and come with their own modes and owners."""
        inside = self._request.inside
        wanted = [f"pf:{one}" for one in parents] + ([f"pp:{inside}"] if inside else [])
        what = f"restoring {self._request.path}"
        total = self._found.bytes

        def tell(found: dict[str, Any]) -> None:
            done = int(found.get("current") or 0)
            self._output.progress(what, min(done, total), total, 0)

        answer = self._borg.ask(
            "extract",
            "--numeric-ids",
            "--sparse",
            "--progress",
            f"{self._borg.repository}::{self._archive.name}",
            *wanted,
            cwd=made.at(""),
            on_progress=tell,
        )
        for one in answer.warnings:
            self._output.notice(f"warning: {one}")
