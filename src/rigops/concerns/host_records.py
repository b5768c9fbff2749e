"""Records of rigops on a host that cannot be read, and what follows from that. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from rigops import json_fields
from rigops.concerns.nvidia_driver import record as driver
from rigops.concerns.nvidia_driver.concern import NAME as DRIVER
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
from rigops.probe.sections.rigops_state import ARGUMENTS, LEAVING, STATE
from rigops.record import Proven, journal
from rigops.record.journal_shell import JOURNAL
from rigops.record.kernel_arguments import UNREADABLE_FIX, parse_arguments
from rigops.vault import pinned_set

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from rigops.probe.sections.rigops_state import RigopsState

PROVEN: Final = f"{STATE}/proven.json"

_RESTORE: Final = "repair it from a backup; where there is none, move it away"


@dataclass(frozen=True)
class DamagedRecord:
    """`is_refused`: what depends on it is not changed until it can be read."""

    path: str
    effect: str
    fix: str
    is_refused: bool = False

    def __str__(self) -> str:
        return f"{self.path} cannot be read: {self.effect}"


@dataclass(frozen=True)
class _Kind:
    effect: str
    parse: Callable[[str], object]
    fix: str = ""
    is_refused: bool = False


def _any_object(text: str) -> object:
    return json_fields.parse(text, place="the record")


def _of_schema(schema: str) -> Callable[[str], object]:
    return lambda text: json_fields.parse(text, place="the record").require_schema(schema)


_KINDS: Final[Mapping[str, _Kind]] = {
    HOLDS_RECORD: _Kind(
        "holds of packages are neither set nor released",
        Holds.parse,
        f"{_RESTORE}, and release its holds by hand: apt-mark showhold",
        is_refused=True,
    ),
    PACKAGES_RECORD: _Kind(
        "no packages are installed",
        OwnedPackages.parse,
        f"{_RESTORE}; its packages then count as somebody else's",
        is_refused=True,
    ),
    WORK_RECORD: _Kind(
        "package work that was cut off is not finished",
        PackageWork.parse,
        "remove it; what dpkg did not finish then counts as somebody else's work",
        is_refused=True,
    ),
    ARGUMENTS: _Kind(
        "kernel arguments are neither added nor removed",
        parse_arguments,
        UNREADABLE_FIX,
        is_refused=True,
    ),
    PROVEN: _Kind(
        "no proof of P2P counts, so the next apply runs preflight and writes it anew",
        Proven.from_json,
        "rigops apply",
    ),
    driver.PATH: _Kind(
        "the next apply resolves the driver anew and writes it",
        _of_schema(driver.SCHEMA),
        "rigops apply",
    ),
    pinned_set.RECORD: _Kind(
        "the next apply copies the packages to the vault again and writes it",
        _of_schema(pinned_set.SCHEMA),
        "rigops apply",
    ),
    LEAVING: _Kind(
        "until the next reboot nothing says which arguments leave with it",
        _any_object,
        "reboot the host",
    ),
    f"{STATE}/acs.json": _Kind(
        "ACS redirection that was cleared comes back with the next reboot only",
        _any_object,
        "reboot the host",
    ),
}  # fmt: skip


def damaged_records(state: RigopsState) -> Iterator[DamagedRecord]:
    """Of those that are there, but for the ownership record, which is rebuilt."""
    for path, kind in _KINDS.items():
        if not _is_whole(kind, state.records.get(path)):
            yield DamagedRecord(path, kind.effect, kind.fix, kind.is_refused)
    if JOURNAL in state.misshapen:
        text = "no run is recorded there"
        yield DamagedRecord(JOURNAL, text, f"move {JOURNAL} away", is_refused=True)


def _is_whole(kind: _Kind, text: str | None) -> bool:
    try:
        if text is not None:
            kind.parse(text)
    except RigopsError:
        return False
    return True


def torn_lines(state: RigopsState) -> int:
    """Of the end of the host's journal."""
    return journal.parse(line.encode() for line in state.journal).unreadable


def has_lost_holds(state: RigopsState) -> bool:
    """A driver is pinned there, and no record says which packages rigops holds for it."""
    if HOLDS_RECORD in state.records or not state.are_files_known:
        return False
    return driver.pinned(state.records.get(driver.PATH)) is not None or bool(
        Ownership.of(state).paths_of(DRIVER)
    )
