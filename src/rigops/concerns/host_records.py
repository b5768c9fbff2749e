"""Records of rigops on a host that cannot be read, and what follows from that. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from fnmatch import fnmatchcase
from itertools import chain
from typing import Final

from rigops.backup.file_systems import FILE_SYSTEMS_FILE, FILE_SYSTEMS_SCHEMA
from rigops.concerns import registry
from rigops.concerns.concern import Concern, HostRecord, of_schema
from rigops.concerns.nvidia_driver import NAME as DRIVER
from rigops.concerns.nvidia_driver import record as driver
from rigops.errors import RigopsError
from rigops.ownership.ownership import Ownership
from rigops.packages.records import (
    HOLDS_RECORD,
    PACKAGES_RECORD,
    WORK_RECORD,
    Holds,
    OwnedPackages,
    PackageWork,
)
from rigops.probe.sections.rigops_state import RigopsState
from rigops.record import Proven, declared, journal
from rigops.record.declared import DeclaredKeys
from rigops.record.proven import FailedProof
from rigops.record.shell import FAILED_PROOF, JOURNAL, PROVEN

_RESTORE: Final = "repair it from a backup; where there is none, move it away"
_OF_NO_CONCERN: Final = (
    HostRecord(
        HOLDS_RECORD,
        "holds of packages are neither set nor released",
        Holds.parse,
        f"{_RESTORE}, and release its holds by hand: apt-mark showhold",
        is_refused=True,
    ),
    HostRecord(
        PACKAGES_RECORD,
        "no packages are installed",
        OwnedPackages.parse,
        f"{_RESTORE}; its packages then count as not rigops'",
        is_refused=True,
    ),
    HostRecord(
        WORK_RECORD,
        "package work that was cut off is not finished",
        PackageWork.parse,
        "remove it; dpkg's unfinished work then counts as another tool's",
        is_refused=True,
    ),
    HostRecord(
        PROVEN,
        "no proof of P2P counts, so the next apply runs preflight and writes it again",
        Proven.from_json,
        "rigops apply",
    ),
    HostRecord(
        FAILED_PROOF,
        "how the last preflight failed is lost, so the next apply runs it and writes it again",
        FailedProof.from_json,
        "rigops apply",
    ),
    HostRecord(
        FILE_SYSTEMS_FILE,
        "on which file systems declared paths were is unknown until the next backup",
        of_schema(FILE_SYSTEMS_SCHEMA),
        "remove it once all declared paths are mounted; the next backup writes it again",
    ),
    HostRecord(
        declared.PATH,
        "rigops init lacks a part of its declaration",
        DeclaredKeys.from_json,
        "remove it; the next change of the host writes it again",
    ),
)


def damaged_records(state: RigopsState) -> Iterator[HostRecord]:
    """Of those that are there, but for the ownership record, which `Ownership.of` judges."""
    of_concerns = chain.from_iterable(concern.records for concern in registry.CONCERNS)
    for record in (*_OF_NO_CONCERN, *of_concerns):
        if not _is_whole(record, state.records.get(record.path)):
            yield record
    if JOURNAL in state.misshapen:
        yield HostRecord(
            JOURNAL,
            "no run is recorded there",
            str,
            f"move {JOURNAL} away",
            is_refused=True,
        )


def _is_whole(record: HostRecord, text: str | None) -> bool:
    try:
        if text is not None:
            record.parse(text)
    except RigopsError:
        return False
    return True


def key_maker(path: str) -> Concern | None:
    """The concern that has the host make a key there; its deploy records one that is found."""
    shapes = ((shape, concern) for concern in registry.CONCERNS for shape in concern.keys_made)
    return next((concern for shape, concern in shapes if fnmatchcase(path, shape)), None)


def torn_lines(state: RigopsState) -> int:
    """Of the end of the host's journal."""
    return journal.parse(line.encode() for line in state.journal).unreadable


def has_lost_holds(state: RigopsState) -> bool:
    """A driver is pinned there, and no record says which packages rigops holds for it."""
    if HOLDS_RECORD in state.records or not state.are_files_known:
        return False
    return driver.pinned(state.records.get(driver.PATH)) is not None or bool(
        Ownership.from_state(state).paths_of(DRIVER)
    )
