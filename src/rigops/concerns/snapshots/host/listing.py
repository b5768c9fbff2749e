"""The list of snapshots, why each stays, and which pruning removes next. Changes nothing."""

from __future__ import annotations

import subprocess
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from rigops.backup.host.errors import HostError
from rigops.backup.host.noted_places import find_place
from rigops.backup.host.snapshot_names import folder_of, parse_snapshot_name, path_of
from rigops.backup.host.snapshot_settings import read_snapshot_settings
from rigops.backup.host.time_service import find_unsynchronized
from rigops.backup.pruning import Occasion, choose_pruned, judge_clock, read_runs
from rigops.backup.utc import utc_now, utc_text
from rigops.concerns.snapshots.host.chain import (
    find_reasons_to_stay,
    is_from_future,
    newest_common,
)
from rigops.concerns.snapshots.host.marks import read_parents, read_pinned
from rigops.concerns.snapshots.host.run_state import read_snapshots_state
from rigops.concerns.snapshots.host.spots import find_spot
from rigops.concerns.snapshots.host.stores import (
    LOCAL,
    PRESENT,
    DiskStore,
    MissingStore,
    ServerStore,
    find_local_stores,
    find_target,
)

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from rigops.backup.host.documents import CopyRow, SubvolumeRow, TargetRow
    from rigops.backup.host.output import Output
    from rigops.backup.retention import Rule
    from rigops.concerns.snapshots.host.place import SnapshotCopy

    Store = DiskStore | ServerStore

_SIZES_S = 20.0
_FOREIGN = (
    ("snapper", "/etc/snapper/configs/*"),
    ("btrbk", "/etc/btrbk/btrbk.conf"),
    ("btrbk", "/etc/btrbk.conf"),
    ("timeshift", "/etc/timeshift/timeshift.json"),
)


def add_list(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser("list", help=__doc__)
    parser.add_argument("--sizes", action="store_true")
    parser.set_defaults(carry_out=list_snapshots)


def list_snapshots(options: argparse.Namespace, output: Output) -> int:
    settings = read_snapshot_settings()
    local, target = find_local_stores(), find_target(settings)
    stores = [*local, *([target] if target else [])]
    stored = {path_of(folder) for store in stores for folder in store.folders()}
    paths = sorted(stored.union(settings.subvolumes if settings else ()))
    budget = _Budget(_SIZES_S if options.sizes else 0)
    rule = settings.rule if settings else None
    found = [_subvolume(path, local, target, rule, budget) for path in paths]
    declared = settings.subvolumes if settings else ()
    occasion = Occasion(
        missing=tuple(one["path"] for one in found if one["error"] and one["path"] in declared),
        clock_doubt=judge_clock(
            read_runs(read_snapshots_state()), utc_now(), find_unsynchronized()
        ).doubt,
    )
    for one in found:
        _mark_pruned_next(one["snapshots"], occasion)
    output.result(
        {
            "subvolumes": found,
            "targets": [_target(target, [folder_of(path) for path in paths])] if target else [],
            "foreign": [
                {"tool": tool, "where": str(path)}
                for tool, pattern in _FOREIGN
                for path in sorted(Path("/").glob(pattern[1:]))
            ],
        }
    )
    if not output.as_json:
        for one in found:
            for snapshot in one["snapshots"]:
                places = ", ".join(place["place"] for place in snapshot["places"])
                output.notice(f"{one['path']}  {snapshot['name']}  {places}")
    return 0


class _Budget:
    """Sizes take long on a disk with many snapshots."""

    def __init__(self, seconds: float) -> None:
        self._end = time.monotonic() + seconds

    def exclusive_bytes(self, path: str) -> int | None:
        left = self._end - time.monotonic()
        if left <= 0:
            return None
        words = ["btrfs", "filesystem", "du", "-s", "--raw", path]
        with suppress(subprocess.TimeoutExpired, ValueError, IndexError):
            said = subprocess.run(
                words,
                check=False,
                capture_output=True,
                stdin=subprocess.DEVNULL,
                timeout=left,
            )
            return int(said.stdout.decode(errors="replace").splitlines()[-1].split()[1])
        return None


def _subvolume(
    path: str,
    local: Sequence[DiskStore],
    target: Store | MissingStore | None,
    rule: Rule | None,
    budget: _Budget,
) -> SubvolumeRow:
    folder = folder_of(path)
    document: SubvolumeRow = {
        "path": path, "file_system": None, "subvolume": None, "nested": [], "error": None,
        "snapshots": [],
    }  # fmt: skip
    try:
        find_place(path)
        spot = find_spot(path)
        document["file_system"], document["subvolume"] = spot.volume.uuid, spot.inside
        document["nested"] = list(spot.nested)
        if spot.subvolume is None:
            fix = "restore it, or remove it from subvolumes"
            document["error"] = {"message": f"{path} is no subvolume", "fix": fix}
    except HostError as error:
        document["error"] = {"message": error.message, "fix": error.fix}
    stores: list[Store] = [*local]
    if target and not isinstance(target, MissingStore):
        stores.append(target)
    copies = {id(store): store.place.copies(folder) for store in stores}
    reasons: dict[str, tuple[str, ...]] = {}
    for store in local:
        here, beside = copies[id(store)], store.place.path(folder)
        parents = {
            *read_parents(beside).values(),
            newest_common(here, copies.get(id(target), []), utc_now()),
        }
        reasons.update(
            find_reasons_to_stay(here, rule, utc_now(), parents=parents, pinned=read_pinned(beside))
        )
    document["snapshots"] = [
        _snapshot(
            name,
            [(store, one) for store in stores for one in copies[id(store)] if one.name == name],
            reasons.get(name),
            folder,
            budget,
        )
        for name in sorted({one.name for found in copies.values() for one in found})
    ]
    return document


def _snapshot(
    name: str,
    found: Sequence[tuple[Store, SnapshotCopy]],
    reasons: Sequence[str] | None,
    folder: str,
    budget: _Budget,
) -> CopyRow:
    """`reasons`: None where it is at the target only."""
    parsed = parse_snapshot_name(name)
    first = found[0][0]
    return {
        "name": name,
        "at": utc_text(parsed.at) if parsed else None,
        "kind": parsed.kind if parsed else None,
        "engine": "btrfs",
        "places": [{"place": s.name, "is_complete": copy.is_complete} for s, copy in found],
        "bytes": budget.exclusive_bytes(first.root(folder, name))
        if isinstance(first, DiskStore)
        else None,
        "reasons": list(reasons or ()),
        "is_pruned_next": reasons is not None and not reasons,
    }


def _mark_pruned_next(snapshots: Sequence[CopyRow], occasion: Occasion) -> None:
    """Of those that retention does not keep here."""
    here = sum(any(place["place"] == LOCAL for place in one["places"]) for one in snapshots)
    unwanted = [one["name"] for one in snapshots if one["is_pruned_next"]]
    going = choose_pruned(unwanted, here, occasion).going
    for one in snapshots:
        one["is_pruned_next"] = one["name"] in going


def _target(target: Store | MissingStore, folders: Sequence[str]) -> TargetRow:
    if isinstance(target, MissingStore):
        return {
            "name": target.name, "state": target.state, "newest_at": None, "free_bytes": None,
            "size_bytes": None, "error": target.error if target.state != "absent" else None,
        }  # fmt: skip
    names = [parse_snapshot_name(one.name) for each in folders for one in target.copies(each)]
    now = utc_now()
    past = [one.at for one in names if one and not is_from_future(str(one), now)]
    newest = max(past, default=None)
    free, size = target.place.room()
    return {
        "name": target.name,
        "state": PRESENT,
        "newest_at": utc_text(newest) if newest else None,
        "free_bytes": free,
        "size_bytes": size,
        "error": None,
    }
