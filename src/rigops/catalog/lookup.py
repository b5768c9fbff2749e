"""Lookups in the catalog, and which driver suits cards."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from datetime import date
from difflib import get_close_matches
from functools import lru_cache

from packaging.version import Version

from rigops.catalog import versions
from rigops.catalog.loader import Catalog
from rigops.catalog.model import (
    EVERY_CARD,
    ContainerToolkit,
    DrivenGpu,
    DriverBranch,
    Evidence,
    Gpu,
    InitCode,
    ModuleFlavor,
    NamedCard,
    Purpose,
    RowStatus,
    UnlistedGpu,
    Verdict,
    Xid,
)
from rigops.dataclass import dataclass

NOT_KNOWN = (
    "which driver drives {} is not known: the catalog has neither this card nor its chip. Look for "
    "its branch in NVIDIA's list of supported products, and declare that"
)
_NO_REPORT = "No reports, good or bad."

ENDED = "ended"
WORST_FIRST = ("bad", "caution", "known-good")

_CUT = "..."
_LEAST_LEFT = 0.92  # of a card's memory, once its firmware has taken some
_MOST_OF_LAPTOPS_MIB = 16 * 1024
_PCI_ID = re.compile(r"(?:10de[:-])?(?:0x)?([0-9a-f]{4})(?:10de)?")


@dataclass(frozen=True)
class Match:
    """Every card that fits; more than one means that the name is ambiguous."""

    found: tuple[Gpu, ...]

    @property
    def only(self) -> Gpu | None:
        return self.found[0] if len(self.found) == 1 else None


@dataclass(frozen=True)
class Support:
    """The kernel module flavors that drive a card on a branch, and why not the others."""

    flavors: tuple[ModuleFlavor, ...]
    reason: str = ""

    def __bool__(self) -> bool:
        return bool(self.flavors)


def find_gpu(catalog: Catalog, name_or_pci_id: str) -> Match:
    """Find a card: exact model, then alias, then PCI device id, then part of the model name."""
    wanted = _plain(name_or_pci_id)
    pci_id = _PCI_ID.fullmatch(name_or_pci_id.strip().lower())
    by_name, by_alias, by_id = _cards_by_what_names_them(catalog)
    found = by_name.get(wanted) or by_alias.get(wanted) or (pci_id and by_id.get(pci_id[1]))
    if not found and wanted:
        found = tuple(card for name, cards in by_name.items() if wanted in name for card in cards)
    return Match(tuple(card.read() for card in found or ()))


@lru_cache(maxsize=4)
def _cards_by_what_names_them(catalog: Catalog) -> tuple[dict[str, tuple[NamedCard, ...]], ...]:
    """By name, alias and device id: doctor looks up every card of a host for most of its checks."""
    found: tuple[dict[str, tuple[NamedCard, ...]], ...] = ({}, {}, {})
    for card in catalog.named_cards:
        named = ({_plain(card.name)}, {*map(_plain, card.aliases)}, card.pci_ids)
        for cards, names in zip(found, named, strict=True):
            cards.update({name: (*cards.get(name, ()), card) for name in names})
    return found


def similar_names(catalog: Catalog, name: str) -> tuple[str, ...]:
    """Of the five cards that are written most alike, the nearest first."""
    spellings = {
        _plain(name): gpu.name for gpu in catalog.gpus for name in (gpu.name, *gpu.aliases)
    }
    close = get_close_matches(_plain(name), list(spellings), n=len(spellings), cutoff=0.0)
    return tuple(dict.fromkeys(spellings[one] for one in close))[:5]


def find_cut(catalog: Catalog, name: str, mebibytes: int | None) -> Gpu | None:
    """A card whose name the table of nvidia-smi has cut, by its memory too; None if several fit.

    Cards of laptops, which are not in the catalog, have names that go on from those of GeForce
    cards, and never more memory than 16 GiB.
    """
    beginning = _plain(name.removesuffix(_CUT))
    fits = [
        gpu
        for gpu in catalog.gpus
        if name.endswith(_CUT)
        and _plain(gpu.name).startswith(beginning)
        and len(_plain(gpu.name)) > len(beginning)
        and (mebibytes is None or _LEAST_LEFT < mebibytes / 1024 / gpu.memory_gib <= 1)
    ]
    is_laptops = any("GeForce" in gpu.name for gpu in fits) and (
        mebibytes is None or mebibytes <= _MOST_OF_LAPTOPS_MIB
    )
    return fits[0] if len(fits) == 1 and not is_laptops else None


def find_unlisted(catalog: Catalog, device: int) -> UnlistedGpu | None:
    """A card by its chip's generation alone. None: no generation has this device id."""
    pci_id = f"{device:04x}"
    for one in catalog.generations:
        if any(ids[:4] <= pci_id <= ids[-4:] for ids in one.pci_ids):
            name = f"the card 10de:{pci_id}"
            return UnlistedGpu(name, one.name, one.first_branch, one.last_branch)
    return None


def find_toolkit(catalog: Catalog, version: str) -> ContainerToolkit | None:
    """What is known against this version of the container toolkit."""
    return next((one for one in catalog.container_toolkits if one.version == version), None)


def find_xid(catalog: Catalog, number: int) -> Xid | None:
    return catalog.xid(number)


def find_init_codes(catalog: Catalog, first: str, second: str) -> tuple[InitCode, ...]:
    """Both numbers together, else what is known of each."""
    known = {one.code: one for one in catalog.init_codes}
    if both := known.get(f"{first}:{second}"):
        return (both,)
    return tuple(one for code in (first, f":{second}") if (one := known.get(code)))


def find_branch(catalog: Catalog, branch: str) -> DriverBranch | None:
    return next((one for one in catalog.drivers if one.branch == branch), None)


def judge(catalog: Catalog, version: str | Version, gpu: DrivenGpu | None = None) -> list[Verdict]:
    """Worst first; none where nothing is known, good or bad. Without a card: for every card."""
    parsed = versions.parse(version) if isinstance(version, str) else version
    branch = find_branch(catalog, versions.branch_of(parsed))
    if branch is None:
        return []
    applying = [
        verdict
        for verdict in branch.verdicts
        if versions.matches(verdict.versions, parsed) and concerns(verdict, gpu)
    ]
    return sorted(applying, key=lambda verdict: WORST_FIRST.index(verdict.status))


def concerns(verdict: Verdict, gpu: DrivenGpu | None) -> bool:
    if gpu is None or EVERY_CARD in verdict.gpus:
        return True
    return bool({gpu.name, gpu.architecture} & set(verdict.gpus))


def runs_on(branch: DriverBranch, gpu: DrivenGpu) -> Support:
    """The flavors that drive the card, or none and the reason."""
    if int(branch.branch) < int(gpu.first_branch):
        return Support((), f"{gpu.name} is driven from branch {gpu.first_branch} on")
    if gpu.last_branch and int(branch.branch) > int(gpu.last_branch):
        return Support(
            (), f"{gpu.last_branch} is the last branch for {gpu.name} ({gpu.architecture})"
        )
    proprietary = gpu.architecture in branch.architectures
    is_open = gpu.architecture in branch.open_architectures
    if proprietary and is_open:
        return Support(("proprietary", "open"))
    if proprietary:
        return Support(
            ("proprietary",), f"no open modules of {branch.branch} for {gpu.architecture}"
        )
    if is_open:
        return Support(("open",), f"{gpu.architecture} needs the open modules on {branch.branch}")
    return Support((), f"{branch.branch} does not drive {gpu.architecture}")


def drives_all(branch: DriverBranch, cards: Iterable[DrivenGpu]) -> bool:
    """With one kind of module."""
    flavors: set[ModuleFlavor] = {"proprietary", "open"}
    return bool(flavors.intersection(*(runs_on(branch, card).flavors for card in cards)))


def verdicts(catalog: Catalog, version: Version, cards: Sequence[DrivenGpu]) -> list[Verdict]:
    """Worst first; without those on installing, since these are about a driver that runs."""
    return [
        verdict
        for verdict in judge(catalog, version)
        if verdict.purpose != "install"
        and (EVERY_CARD in verdict.gpus or any(concerns(verdict, card) for card in cards))
    ]


def is_good(catalog: Catalog, version: Version, cards: Sequence[DrivenGpu]) -> bool:
    """There are reports, and all are good."""
    return {verdict.status for verdict in verdicts(catalog, version, cards)} == {"known-good"}


def good_branches(catalog: Catalog, cards: Sequence[DrivenGpu]) -> list[DriverBranch]:
    """Those that drive every card and whose last release is known to be good."""
    return [
        branch
        for branch in catalog.drivers
        if branch.releases
        and drives_all(branch, cards)
        and is_good(catalog, versions.parse(branch.releases[-1].version), cards)
    ]


def has_ended(branch: DriverBranch, today: date) -> bool:
    """An end without a day is the end of that month or year."""
    end = branch.end_of_life
    return end == ENDED or bool(end and end < today.isoformat()[: len(end)])


def last_cuda(catalog: Catalog, gpu: DrivenGpu) -> str:
    """The last toolkit whose programs run on the card, where there is one."""
    return next((one.last_cuda for one in catalog.generations if one.name == gpu.architecture), "")


def runs_cuda(branch: DriverBranch, cuda: Version) -> bool:
    return bool(branch.cuda) and Version(branch.cuda) >= cuda


def recommended(catalog: Catalog, cards: Sequence[DrivenGpu]) -> DriverBranch | None:
    """The newest good branch that is maintained for years; where there is none, the newest."""
    good = good_branches(catalog, cards)
    long_term = [branch for branch in good if branch.kind == "LTSB"]
    return max(long_term or good, key=lambda branch: int(branch.branch), default=None)


def why_none(catalog: Catalog, cards: Sequence[DrivenGpu]) -> str:
    """The fix where no driver is recommended."""
    for card in cards:
        if card.last_branch and not any(runs_on(branch, card) for branch in catalog.drivers):
            return (
                f"branch {card.last_branch} is the last for {card.name} ({card.architecture}): "
                "take that legacy driver where the distribution has it, or replace the card"
            )
    if any(drives_all(branch, cards) for branch in catalog.drivers):
        return "see `rigops drivers` for one that is known to be good"
    return "no branch drives all of them: put the cards into separate machines"


@lru_cache(maxsize=1024)  # the catalog's own, for each of many cards
def _plain(name: str) -> str:
    return re.sub(r"[\s_-]+", "", name.lower().replace("nvidia", ""))


@dataclass(frozen=True)
class DriverRow:
    branch: str
    version: str | None  # None: the branch as a whole
    status: RowStatus
    gpus: tuple[str, ...]
    purpose: Purpose
    since: str
    why: str
    evidence: tuple[Evidence, ...]

    def as_json(self) -> dict[str, object]:
        return asdict(self)


def driver_rows(
    catalog: Catalog, gpu: DrivenGpu | None = None, cuda: Version | None = None
) -> list[DriverRow]:
    """A row for each version and verdict, after those of the branch as a whole."""
    branches = [one for one in catalog.drivers if cuda is None or runs_cuda(one, cuda)]
    return [row for branch in branches for row in _rows(branch, gpu)]


def _rows(branch: DriverBranch, gpu: DrivenGpu | None) -> Iterator[DriverRow]:
    if gpu is not None and not (support := runs_on(branch, gpu)):
        yield _bare(branch, None, "unsupported", (gpu.name,), support.reason)
        return
    verdicts = sorted(
        (verdict for verdict in branch.verdicts if concerns(verdict, gpu)),
        key=lambda verdict: WORST_FIRST.index(verdict.status),
    )
    cards = (gpu.name,) if gpu else (EVERY_CARD,)
    releases = [(release.version, versions.parse(release.version)) for release in branch.releases]
    # Verdicts on versions that have no row of their own are shown with the branch.
    for_all = [
        verdict
        for verdict in verdicts
        if not verdict.versions
        or not any(versions.matches(verdict.versions, version) for _, version in releases)
    ]
    yield from (_judged(branch, None, verdict) for verdict in for_all)
    if not for_all:
        yield _bare(branch, None, "unknown", cards, _NO_REPORT)
    for name, version in releases:
        applying = [one for one in verdicts if versions.matches(one.versions, version)]
        yield from (_judged(branch, name, verdict) for verdict in applying)
        if not applying:
            yield _bare(branch, name, "unknown", cards, _NO_REPORT)


def _judged(branch: DriverBranch, version: str | None, verdict: Verdict) -> DriverRow:
    named = version or not verdict.versions
    return DriverRow(
        branch=branch.branch,
        version=version,
        status=verdict.status,
        gpus=verdict.gpus,
        purpose=verdict.purpose,
        since=verdict.since,
        why=verdict.why if named else f"{verdict.versions}: {verdict.why}",
        evidence=verdict.evidence,
    )


def _bare(
    branch: DriverBranch, version: str | None, status: RowStatus, gpus: tuple[str, ...], why: str
) -> DriverRow:
    return DriverRow(
        branch=branch.branch,
        version=version,
        status=status,
        gpus=gpus,
        purpose="any",
        since="",
        why=why,
        evidence=branch.evidence,
    )
