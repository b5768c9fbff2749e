"""From what is recorded, wanted and found to the steps between them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from rigops.ownership.files import (
    Conflict,
    Forget,
    InPlace,
    OwnedFile,
    Remove,
    Restore,
    Show,
    Step,
    Write,
    previous_of,
    require_plain_path,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from rigops.ownership.files import Previous, WantedFile
    from rigops.ownership.ownership import Ownership
    from rigops.probe.sections.rigops_state import Present


def reconcile(
    ownership: Ownership,
    wanted: Mapping[str, WantedFile],
    present: Mapping[str, Present | None],
    *,
    selected: Collection[str],
) -> list[Step]:
    """Return one step per path of the selected concerns: first what is wanted, then the rest.

    `present` has an entry for every such path, None for one that is absent: a path that nobody
    looked at is a KeyError, not an absent file. `wanted` may name concerns outside `selected`;
    their files are neither written nor undone.
    """
    for path in wanted:
        require_plain_path(path)
    steps = [
        _hold(ownership.files[path], file, present[path])
        if path in ownership.files
        else _take(path, file, present[path])
        for path, file in sorted(wanted.items())
        if file.concern in selected
    ]
    steps += [
        _back(owned, present[path])
        for path, owned in sorted(ownership.files.items())
        if path not in wanted and owned.concern in selected
    ]
    return steps


def _take(path: str, file: WantedFile, found: Present | None) -> Step:
    if found is None:
        return Write(_record(path, file, previous=None), None, None)
    if _satisfies(found, file):
        return InPlace(path, file.concern, foreign=True)
    foreign = previous_of(path, found)
    return Write(_record(path, file, previous=foreign), found, foreign)


def _hold(owned: OwnedFile, file: WantedFile, found: Present | None) -> Step:
    record = _record(owned.path, file, previous=owned.previous)
    if found is None:
        return Write(record, None, None)
    if _satisfies(found, file) and record == replace(owned, replaces=""):
        return InPlace(owned.path, file.concern, foreign=False)
    if owned.has_ours(found) or found.digest == file.digest:
        return Write(replace(record, replaces=found.digest), found, None)
    if owned.previous and owned.previous.is_in_place(found):  # recorded, but never written
        return Write(record, found, owned.previous)
    return Conflict(record, found, previous_of(owned.path, found))


def _back(owned: OwnedFile, found: Present | None) -> Step:
    if found is None or (owned.previous and owned.previous.is_in_place(found)):
        return Forget(owned)
    if not owned.has_ours(found):
        return Show(owned, found)
    return Restore(owned, owned.previous) if owned.previous else Remove(owned)


def _satisfies(found: Present, file: WantedFile) -> bool:
    return (found.digest, found.mode) == (file.digest, file.mode)


def _record(path: str, file: WantedFile, *, previous: Previous | None) -> OwnedFile:
    return OwnedFile(
        path=path,
        concern=file.concern,
        digest=file.digest,
        mode=file.mode,
        previous=previous,
    )
