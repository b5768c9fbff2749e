"""Brings a file or a tree back from an archive."""

from __future__ import annotations

import os
import shutil
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from rigops.backup.host.btrfs import create_subvolume
from rigops.backup.host.errors import HostError
from rigops.backup.host.mounted import mount_of, mounted_below
from rigops.backup.host.noted_places import demand_mounted, note_restored
from rigops.backup.host.one_run import only_run
from rigops.backup.host.paths import is_free
from rigops.backup.host.restore_frame import (
    RestorePaths,
    add_restore_options,
    answer_restore,
    read_restore_paths,
)
from rigops.backup.host.snapshot_settings import read_snapshot_settings
from rigops.backup.host.subvolumes import file_system_uuid
from rigops.backup.host.unfinished import clear_unfinished
from rigops.backup.host.workspace import workspace
from rigops.backup.utc import stamp, utc_now
from rigops.concerns.borg.host.archive_contents import Found, find_in_archive
from rigops.concerns.borg.host.archive_listing import BORG_ENGINE
from rigops.concerns.borg.host.archive_names import (
    Archive,
    archives_of,
    choose_archives,
    may_lack_some,
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
    RestoreSource,
    demand_room,
    describe_restore,
    finish_extraction,
    refuse_to_overwrite,
)
from rigops.hostside.shared.beneath import (
    make_private,
    move,
    open_beneath,
    open_folder,
    open_parent,
    open_typed,
    put_in_place,
)

if TYPE_CHECKING:
    import argparse

    from rigops.backup.host.documents import Moved, Restored
    from rigops.backup.host.output import Output
    from rigops.concerns.borg.host.archive_names import ArchiveWish
    from rigops.concerns.borg.host.borg_process import Borg
    from rigops.hostside.shared.beneath import Entry, Folder


_PLACEHOLDER = ".rigops-restore-placeholder"  # borg replaces an empty folder by a new one


class ArchiveRequest(NamedTuple):
    """`of`: the host that made the archives. `replaces`: also what is there."""

    paths: RestorePaths
    wish: ArchiveWish
    in_place: bool
    replaces: bool
    of: str

    @property
    def path(self) -> str:
        return self.paths.path

    @property
    def inside(self) -> str:
        return self.paths.inside


def add_archive_restore(commands: Any) -> None:
    parser = add_restore_options(
        commands, __doc__ or "", "an archive", "the repository, or nothing"
    )
    parser.add_argument("--of", default="", metavar="HOST", help="from archives of this host")
    parser.set_defaults(carry_out=restore_archive)


def restore_archive(options: argparse.Namespace, output: Output) -> int:
    return answer_restore(options, output, partial(_restore, options, output))


def _restore(options: argparse.Namespace, output: Output) -> Restored:
    settings = demand_borg_settings()
    request = _read_restore_request(options)
    if options.place not in {"", BORG_ENGINE, settings.repository}:
        raise HostError(
            f"no archives at {options.place} (there are: {settings.repository})",
            "check /etc/rigops/borg.json",
        )
    if request.in_place:
        demand_mounted(request.path)
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
            moved = restoring.fill() if restoring.fills_folder else restoring.put(target)
            if request.in_place:
                note_restored(request.path)
    except BorgError as error:
        raise explain_refusal(borg, error) from error
    return {**done, **moved}


def _read_restore_request(options: argparse.Namespace) -> ArchiveRequest:
    paths = read_restore_paths(options)
    if paths.path == "/" and not paths.to:
        raise HostError("/ is in use and cannot be replaced here", "use --to DIR")
    is_gone = not paths.to and is_free(paths.path)
    wish, replaces = parse_archive_wish(options.at), options.in_place
    return ArchiveRequest(paths, wish, replaces or is_gone, replaces, options.of)


def _choose_archive(borg: Borg, request: ArchiveRequest) -> tuple[Archive, Found]:
    listing = list_repository(borg)
    check_signatures(borg, known_repository(borg.repository))
    mine = archives_of(request.of or borg.settings.host, listing.names)
    whole_first = may_lack_some(request.path, borg.settings.paths)
    for one in choose_archives(mine, request.wish, utc_now(), whole_first=whole_first):
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
        if not self._request.replaces:
            return False
        try:
            with open_parent(self._request.path) as entry:
                if not entry.is_folder:
                    return False
                with open_beneath(entry.folder, entry.name) as folder:
                    here, above = mount_of(folder), mount_of(entry.folder)
                    return here != above or folder.device != entry.folder.device
        except FileNotFoundError:
            return False

    def put(self, target: str) -> Moved:
        """Made beside under another name, and then renamed."""
        parent, last = os.path.split(target)
        with ExitStack() as opened:
            above, missing = self._open_present(parent, opened)
            live = above.entry(missing[0] if missing else last)
            if self._request.paths.to:
                refuse_to_overwrite(live)
            demand_room(above, self._found.bytes)
            made = opened.enter_context(workspace(above))
            tree = opened.enter_context(make_private(made.entry("tree")))
            start = above.path.strip("/")
            paths = ("/".join(missing[: number + 1]) for number in range(len(missing)))
            wanted = [f"{start}/{one}".strip("/") for one in paths]
            is_subvolume = self._was_subvolume(live)
            if is_subvolume:
                self._make_subvolume(tree)
            self._extract(tree, wanted)
            if is_subvolume:
                self._finish_subvolume(tree)
            finish_extraction(tree, self._request.paths)
            inside = wanted[0] if wanted else self._request.inside
            if not inside:  # all of an archive
                return self._rename(made.entry("tree"), live, target)
            holder, name = os.path.split(inside)
            with open_beneath(tree, holder) as folder:
                return self._rename(folder.entry(name), live, target)

    def _open_present(self, parent: str, opened: ExitStack) -> tuple[Folder, list[str]]:
        """The last folder on the way that is there, and the names of those that are not.

        No link is followed, but in a folder that the person named for it.
        """
        if self._request.paths.to:
            os.makedirs(parent, mode=0o755, exist_ok=True)
            return opened.enter_context(open_typed(parent)), []
        at = opened.enter_context(open_folder("/"))
        names = [one for one in parent.split("/") if one]
        while names and at.entry(names[0]).look():
            at = opened.enter_context(open_beneath(at, names.pop(0)))
        return at, names

    def _was_subvolume(self, live: Entry) -> bool:
        """Of which snapshots are to be taken again. One that is there now is filled instead."""
        settings = read_snapshot_settings()
        is_declared = settings is not None and self._request.path in settings.subvolumes
        return is_declared and self._request.in_place and bool(file_system_uuid(live.folder))

    def _make_subvolume(self, tree: Folder) -> None:
        above, name = os.path.split(self._request.inside)
        with ExitStack() as opened:
            at = tree
            for part in filter(None, above.split("/")):
                at = opened.enter_context(make_private(at.entry(part)))
            create_subvolume(at.entry(name).at)
            with open_beneath(at, name) as made:
                flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
                os.close(os.open(_PLACEHOLDER, flags, 0o600, dir_fd=made.number))

    def _finish_subvolume(self, tree: Folder) -> None:
        with open_beneath(tree, self._request.inside) as made:
            found = os.fstat(made.number)
            os.unlink(_PLACEHOLDER, dir_fd=made.number)
            os.utime(made.number, ns=(found.st_atime_ns, found.st_mtime_ns))

    def _rename(self, made: Entry, live: Entry, target: str) -> Moved:
        if not self._request.replaces or live.look() is None:
            move(made, live)
            return {"restored_to": target}
        aside = live.folder.entry(f"{live.name}.before-restore-{stamp(utc_now())}")
        put_in_place(made, live, aside)
        return {"restored_to": target, "aside": aside.path}

    def fill(self) -> Moved:
        """The present files move into a folder beside; killed in between, both are complete."""
        path = self._request.path
        mounted = mounted_below(path)
        if mounted:
            names = ", ".join(mounted)
            raise HostError(f"{names}: mounted inside {path}", f"umount {' '.join(mounted)}")
        with open_folder(path) as live:
            demand_room(live, self._found.bytes)
            with workspace(live) as made:
                self._extract(made, [])
                finish_extraction(made, self._request.paths)
                with open_beneath(made, self._request.inside) as restored:
                    return self._swap_contents(restored, live, made)

    def _swap_contents(self, restored: Folder, live: Folder, made: Folder) -> Moved:
        old = [one for one in live.names() if one != os.path.basename(made.path)]
        aside = live.entry(f".before-restore-{stamp(utc_now())}")
        if old:
            with make_private(aside) as before:
                for name in old:
                    move(live.entry(name), before.entry(name))
        for name in restored.names():
            move(restored.entry(name), live.entry(name))
        owner = os.fstat(restored.number)
        os.chown(live.number, owner.st_uid, owner.st_gid)
        shutil.copystat(restored.at, live.at)
        return {"restored_to": live.path, "aside": aside.path if old else None}

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
            f"{self._borg.repository}::{self._archive.name}",
            *wanted,
            cwd=made.at,
            on_progress=tell,
        )
        for one in answer.warnings:
            self._output.notice(f"warning: {one}")
