"""Faults of well-typed entries."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from rigops.catalog import versions
from rigops.catalog.model import (
    ARCHITECTURES,
    EVERY_CARD,
    DriverBranch,
    Evidence,
    FirmwareSetting,
    Generation,
    Gpu,
    InitCode,
    KernelChange,
    Link,
    Release,
    Xid,
)

Entry = DriverBranch | KernelChange | Gpu | Generation | Xid | InitCode | FirmwareSetting | Link

_DATE = re.compile(r"([0-9]{4}(-[0-9]{2}(-[0-9]{2})?)?)?")
_BRANCH = re.compile(r"[1-9][0-9]{1,3}")
_PCI_ID = re.compile(r"[0-9a-f]{4}")
_PCI_IDS = re.compile(r"([0-9a-f]{4})-([0-9a-f]{4})")
_INIT_CODE = re.compile(r"(0x[0-9a-f]{2})?(:0x[0-9a-f]{2,4})?")
_STABLE = re.compile(r"[1-9][0-9]*\.[0-9]+\.[0-9]+")
_SERIES = re.compile(r"[1-9][0-9]*\.[0-9]+")


class Fault(NamedTuple):
    message: str
    value: str
    accepted: str


def faults(entry: Entry) -> Iterator[Fault]:
    yield from _evidence("evidence", entry.evidence)
    match entry:
        case DriverBranch():
            yield from _branch(entry)
        case KernelChange():
            yield from _kernel_change(entry)
        case Gpu():
            yield from _gpu(entry)
        case Generation():
            yield from _generation(entry)
        case FirmwareSetting():
            yield from _firmware(entry)
        case Link():
            yield from _link(entry)
        case InitCode(code=code) if not code or not _INIT_CODE.fullmatch(code):
            yield Fault("code is no code of RmInitAdapter", code, '"0x24", ":0x72", "0x24:0x72"')
        case Xid(number=number) if number < 1:
            yield Fault("number is not an Xid", str(number), "a whole number from 1 on")


def _branch(entry: DriverBranch) -> Iterator[Fault]:
    yield from _branch_name("branch", entry.branch)
    yield from _architectures("architectures", entry.architectures)
    yield from _architectures("open_architectures", entry.open_architectures)
    for at, release in enumerate(entry.releases):
        yield from _release(f"releases[{at}]", release, entry.branch)
    for at, verdict in enumerate(entry.verdicts):
        field = f"verdicts[{at}]"
        yield from _evidence(f"{field}.evidence", verdict.evidence)
        yield from _date(f"{field}.since", verdict.since)
        if not verdict.gpus:
            yield Fault(f"{field}.gpus is empty", "[]", f'names of cards, or ["{EVERY_CARD}"]')
        yield from _specifier(f"{field}.versions", verdict.versions)
    for at, ceiling in enumerate(entry.kernels):
        field = f"kernels[{at}]"
        yield from _evidence(f"{field}.evidence", ceiling.evidence)
        yield from _specifier(f"{field}.versions", ceiling.versions)
        if not _SERIES.fullmatch(ceiling.newest):
            yield Fault(f"{field}.newest is not a kernel series", ceiling.newest, '"6.8"')


def _kernel_change(entry: KernelChange) -> Iterator[Fault]:
    if [one for one in entry.kernels if _SERIES.fullmatch(one)] != list(entry.kernels[-1:]):
        accepted = (
            '"6.1.187" for a series that it came back to, and last "6.19", where it came first'
        )
        yield Fault("kernels has no series as its last", ", ".join(entry.kernels), accepted)
    for one in entry.kernels[:-1]:
        if not _STABLE.fullmatch(one):
            yield Fault("kernels has no release of a kernel", one, '"6.1.187"')
    for field, names in (("since", [entry.since] if entry.since else []), ("fixed", entry.fixed)):
        for name in names:
            yield from _release(field, Release(name, ""), name.partition(".")[0])
    if not entry.fixed:
        yield Fault("fixed is empty", "[]", "the first release that builds, one for each branch")


def _release(field: str, release: Release, branch: str) -> Iterator[Fault]:
    yield from _date(f"{field}.date", release.date)
    accepted = f"{versions.EXAMPLES}, of branch {branch}, as NVIDIA writes it"
    fault = Fault(f"{field}.version is not a release of this branch", release.version, accepted)
    try:
        version = versions.parse(release.version)
    except ValueError:
        yield fault
        return
    if versions.branch_of(version) != branch or versions.spelled(version) != release.version:
        yield fault


def _specifier(field: str, text: str) -> Iterator[Fault]:
    try:
        versions.specifier(text)
    except ValueError:
        accepted = 'a specifier such as "<525.105.17", or "" for the whole branch'
        yield Fault(f"{field} is not a version specifier", text, accepted)


def _gpu(entry: Gpu) -> Iterator[Fault]:
    yield from _architectures("architecture", [entry.architecture])
    yield from _branch_name("first_branch", entry.first_branch)
    if entry.last_branch:
        yield from _branch_name("last_branch", entry.last_branch)
    for pci_id in entry.pci_ids:
        if not _PCI_ID.fullmatch(pci_id):
            accepted = 'four lower-case hexadecimal digits such as "2204"'
            yield Fault("pci_ids has an invalid device id", pci_id, accepted)
    least, most = entry.watts_min or entry.watts_default, entry.watts_max or entry.watts_default
    if not 0 < least <= entry.watts_default <= most:
        seen = f"{entry.watts_min}, {entry.watts_default}, {entry.watts_max}"
        yield Fault(
            "watts_min, watts_default and watts_max are out of order",
            seen,
            "0 < min <= default <= max; 0 for an unknown min or max",
        )
    if entry.spike_factor < 1:
        yield Fault("spike_factor is below 1", str(entry.spike_factor), "1 or more")


def _generation(entry: Generation) -> Iterator[Fault]:
    yield from _branch_name("first_branch", entry.first_branch)
    if entry.last_branch:
        yield from _branch_name("last_branch", entry.last_branch)
    for pci_ids in entry.pci_ids:
        shape = _PCI_IDS.fullmatch(pci_ids)
        if shape is None or shape[1] > shape[2]:
            yield Fault("pci_ids has no range of device ids", pci_ids, '"2200-227f"')


def _link(entry: Link) -> Iterator[Fault]:
    if not 0 < entry.slowest <= entry.fastest <= entry.theoretical:
        yield Fault(
            "slowest, fastest and theoretical are out of order",
            f"{entry.slowest}, {entry.fastest}, {entry.theoretical}",
            "0 < slowest <= fastest <= theoretical",
        )


def _firmware(entry: FirmwareSetting) -> Iterator[Fault]:
    for at, board in enumerate(entry.boards):
        field = f"boards[{at}]"
        yield from _evidence(f"{field}.evidence", board.evidence)
        if not board.words:
            yield Fault(f"{field}.words is empty", "[]", "what the board's menus call the setting")
        for maker in board.makers:
            if not maker or maker != maker.lower():
                accepted = 'a part of the vendor\'s name in lower case, such as "asus"'
                yield Fault(f"{field}.makers has a name that never matches", maker, accepted)
    every = [board.cpu for board in entry.boards if not board.makers]
    if not ("any" in every or {"amd", "intel"} <= set(every)):
        accepted = "words with makers = [], for any cpu or for amd and intel each"
        yield Fault("boards lacks words for all other boards", str(every), accepted)


def _evidence(field: str, evidence: tuple[Evidence, ...]) -> Iterator[Fault]:
    if not evidence:
        yield Fault(f"{field} is empty", "[]", "at least one { where, date, hardware }")
    for at, one in enumerate(evidence):
        yield from _date(f"{field}[{at}].date", one.date)
        if not one.where:
            yield Fault(f"{field}[{at}].where is empty", "", "an issue, a page, an account")


def _date(field: str, date: str) -> Iterator[Fault]:
    if not _DATE.fullmatch(date):
        yield Fault(f"{field} is not a date", date, '"2024", "2024-02", "2024-02-19" or ""')


def _branch_name(field: str, branch: str) -> Iterator[Fault]:
    if not _BRANCH.fullmatch(branch):
        yield Fault(
            f"{field} is not a driver branch", branch, 'the first number of a version: "535"'
        )


def _architectures(field: str, names: Iterable[str]) -> Iterator[Fault]:
    for name in names:
        if name not in ARCHITECTURES:
            yield Fault(f"{field} has an unknown architecture", name, ", ".join(ARCHITECTURES))
