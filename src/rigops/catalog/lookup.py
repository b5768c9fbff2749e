"""Questions to the catalog, answered without looking at any machine."""

from __future__ import annotations

import re
from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING

from rigops.catalog import versions
from rigops.catalog.model import EVERY_CARD, Link

if TYPE_CHECKING:
    from collections.abc import Callable

    from packaging.version import Version

    from rigops.catalog.loader import Catalog
    from rigops.catalog.model import (
        DriverBranch,
        Gpu,
        LinkKind,
        ModuleFlavor,
        Purpose,
        Verdict,
        Xid,
    )

WORST_FIRST = ("bad", "caution", "known-good")

# Of what the wire carries, a healthy link delivers this much at least.
_DELIVERED = 0.85
# GB/s a lane, after the line's encoding: 8b/10b up to generation 2, 128b/130b from 3 on.
_PCIE_LANE = {1: 0.25, 2: 0.5, 3: 8 / 8.125, 4: 16 / 8.125, 5: 32 / 8.125}
# GB/s a link and way. RTX 3090 and A6000 run generation 3 at 14.0625; say so with gb_per_lane.
_NVLINK = {1: 20.0, 2: 25.0, 3: 25.0, 4: 25.0, 5: 50.0}
# nvidia-smi prints 25.781 or 26.562 where the data sheet says 25.
_SAME_RATE = 0.1

_PCI_ID = re.compile(r"(?:10de[:-])?(?:0x)?([0-9a-f]{4})(?:10de)?")


@dataclass(frozen=True)
class Match:
    """Every card that fits; more than one means that the name is ambiguous."""

    found: tuple[Gpu, ...]
    suggestions: tuple[str, ...] = ()

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
    ways: tuple[Callable[[Gpu], bool], ...] = (
        lambda gpu: wanted == _plain(gpu.name),
        lambda gpu: wanted in map(_plain, gpu.aliases),
        lambda gpu: _pci_id(name_or_pci_id) in gpu.pci_ids,
        lambda gpu: bool(wanted) and wanted in _plain(gpu.name),
    )
    for fits in ways:
        if found := tuple(gpu for gpu in catalog.gpus if fits(gpu)):
            return Match(found)
    return Match((), _near(wanted, catalog.gpus))


def find_xid(catalog: Catalog, number: int) -> Xid | None:
    return next((xid for xid in catalog.xids if xid.number == number), None)


def find_branch(catalog: Catalog, branch: str) -> DriverBranch | None:
    return next((one for one in catalog.drivers if one.branch == branch), None)


def newest_kernel(branch: DriverBranch, version: str | Version) -> str:
    """The series of the newest kernel that the release is known to build for; "" if nobody knows.

    Of a release without a ceiling of its own only that of the branch's last release is known, which
    is no lower.
    """
    parsed = versions.parse(version) if isinstance(version, str) else version
    fitting = (one.newest for one in branch.kernels if versions.matches(one.versions, parsed))
    return next(fitting, branch.newest_kernel)


def expected_link(
    catalog: Catalog,
    kind: LinkKind,
    generation: int,
    width: int,
    gb_per_lane: float | None = None,
) -> Link | None:
    """Return what such a link should deliver, or None where nobody can say.

    Links that nobody measured are reckoned from their rate and marked so. gb_per_lane is the rate
    of one NVLink as nvidia-smi prints it; it tells links of one generation apart.
    """
    for link in catalog.links:
        same_shape = (link.kind, link.generation, link.width) == (kind, generation, width)
        if same_shape and (gb_per_lane is None or _close(gb_per_lane * width, link.theoretical)):
            return link
    rates = {"pcie": _PCIE_LANE, "nvlink": _NVLINK}.get(kind, {})
    rate = gb_per_lane or rates.get(generation)
    if rate is None or not rates or width < 1:
        return None
    theoretical = rate * width
    expected = round(_DELIVERED * theoretical, 2)
    return Link(
        name=f"{'NVLink' if kind == 'nvlink' else 'PCIe'} {generation}.0 x{width}",
        kind=kind,
        generation=generation,
        width=width,
        theoretical=round(theoretical, 2),
        one_way=(expected, expected),
        measured=False,
        evidence=(),
    )


def judge(
    catalog: Catalog, version: str | Version, gpu: Gpu | None = None, purpose: Purpose = "any"
) -> list[Verdict]:
    """Return the verdicts that apply, worst first.

    Without a card every card is meant; with purpose "any" every purpose. An empty list is no
    praise: it means that nothing is known. Whether the branch drives the card says runs_on.
    """
    parsed = versions.parse(version) if isinstance(version, str) else version
    branch = find_branch(catalog, versions.branch_of(parsed))
    if branch is None:
        return []
    applying = [
        verdict
        for verdict in branch.verdicts
        if versions.matches(verdict.versions, parsed)
        and concerns(verdict, gpu)
        and (purpose == "any" or verdict.purpose in ("any", purpose))
    ]
    return sorted(applying, key=lambda verdict: WORST_FIRST.index(verdict.status))


def concerns(verdict: Verdict, gpu: Gpu | None) -> bool:
    if gpu is None or EVERY_CARD in verdict.gpus:
        return True
    return bool({gpu.name, gpu.architecture} & set(verdict.gpus))


def runs_on(branch: DriverBranch, gpu: Gpu) -> Support:
    """Return the flavors that drive the card, or none and the reason."""
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


def _plain(name: str) -> str:
    return re.sub(r"[\s_-]+", "", name.lower().replace("nvidia", ""))


def _pci_id(text: str) -> str:
    match = _PCI_ID.fullmatch(text.strip().lower())
    return match[1] if match else ""


def _near(wanted: str, gpus: tuple[Gpu, ...]) -> tuple[str, ...]:
    spellings = {_plain(name): gpu.name for gpu in gpus for name in (gpu.name, *gpu.aliases)}
    close = get_close_matches(wanted, list(spellings), n=5, cutoff=0.6)
    return tuple(dict.fromkeys(spellings[one] for one in close))


def _close(one: float, other: float) -> bool:
    return abs(one - other) <= _SAME_RATE * other
