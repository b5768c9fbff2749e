"""Taking a read-only snapshot of a live subvolume."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from rigops.backup.host.btrfs import take_snapshot
from rigops.backup.host.errors import HostError, as_host_error
from rigops.backup.host.one_run import only_run
from rigops.backup.host.snapshot_names import KINDS, SnapshotName, folder_of
from rigops.backup.host.snapshot_settings import read_snapshot_settings
from rigops.backup.host.volumes import RUN, find_source
from rigops.backup.utc import utc_now
from rigops.concerns.snapshots.host.chain import find_reasons_to_stay, kind_of
from rigops.concerns.snapshots.host.marks import read_parents, read_pinned
from rigops.concerns.snapshots.host.place import LocalPlace

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable

    from rigops.backup.host.output import Output
    from rigops.backup.host.volumes import Source

_CREATING = f"{RUN}/snapshots-create.lock"


def nothing_declared() -> HostError:
    return HostError(
        "no subvolumes are declared for this host", 'declare "snapshots": {"subvolumes": ["/home"]}'
    )


def add_create(commands: Any) -> None:
    parser = commands.add_parser("create", help="take a snapshot")
    parser.add_argument("--kind", choices=KINDS, default="manual")
    parser.add_argument("--subvolume", action="append", metavar="PATH", help="default: declared")
    parser.set_defaults(carry_out=create)


def create(options: argparse.Namespace, output: Output) -> int:
    settings = read_snapshot_settings()
    paths = options.subvolume or (settings.subvolumes if settings else ())
    if not paths:
        raise nothing_declared()
    created = []
    has_failed = False
    # Not the lock of a run, which sends for hours: an apply would have to wait for that.
    with only_run(_CREATING, wait_s=60.0):
        for path in paths:
            try:
                source = find_source(path)
                name = create_snapshot(source, options.kind, utc_now())
            except HostError as error:
                output.error(error)
                has_failed = True
                continue
            output.notice(f"{path}: snapshot {name}")
            created.append({"path": path, "name": name})
            if options.kind == "apply":  # a host that declares none has no run that prunes
                _prune_those_of_apply(source, output)
    output.result({"created": created})
    return int(has_failed)


def _prune_those_of_apply(source: Source, output: Output) -> None:
    store, folder = local_store(source), folder_of(source.path)
    try:
        reasons = find_reasons_to_stay(
            store.copies(folder),
            None,
            utc_now(),
            parents=set(read_parents(store.path(folder)).values()),
            pinned=read_pinned(store.path(folder)),
        )
        for name, found in reasons.items():
            if not found and kind_of(name) == "apply":
                store.delete(folder, name)
                output.notice(f"{source.path}: removed {name}")
    except HostError as error:
        output.notice(f"{error.message}: older snapshots stay")


def create_snapshot(source: Source, kind: str, now: datetime) -> str:
    """Its name. It is on the disk when this returns: btrfs commits what makes a snapshot."""
    store = local_store(source)
    folder = folder_of(source.path)
    try:
        store.make(folder)
        name = free_name(now, kind, (one.name for one in store.path(folder).iterdir()))
    except OSError as error:
        raise as_host_error(source.path, error) from error
    take_snapshot(source.folder.at, str(store.path(folder, name)))
    return name


def local_store(source: Source) -> LocalPlace:
    return LocalPlace("local", source.volume, receives=False)


def free_name(now: datetime, kind: str, there: Iterable[str]) -> str:
    """A second has one snapshot, of whatever kind: retention goes by time."""
    taken = {name.partition("-")[0] for name in there}
    at = now
    while str(SnapshotName(at, kind)).partition("-")[0] in taken:
        at += timedelta(seconds=1)
    return str(SnapshotName(at, kind))
