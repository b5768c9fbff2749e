"""Counters of errors, by kind: where each is read, and what its growth means."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final

from rigops.dataclass import dataclass
from rigops.doctor.examined import Examined
from rigops.doctor.finding import HOST, Evidence, Status
from rigops.doctor.views import pcie
from rigops.probe.sections.aer import SECTION as AER
from rigops.probe.sections.memory import SECTION as MEMORY
from rigops.probe.sections.nvidia_smi_nvlink import SECTION as NVLINK
from rigops.probe.sections.nvidia_smi_xml import SECTION as SMI
from rigops.probe.sections.smart import SECTION as SMART
from rigops.probe.sections.storage import SECTION as STORAGE
from rigops.probe.smi.report import SmiGpu

_WRONG_DATA: Final = frozenset({"corruption_errs", "generation_errs"})
_LINK: Final = (
    "reseat the card and its riser, try a shorter or better riser, and set the PCIe speed of this "
    "slot one generation lower in the BIOS"
)
_BRIDGE: Final = "power off and reseat the bridge, or the module on its board"
_CARD: Final = "watch whether it goes on; if it does, have the card replaced (RMA)"
_RAM: Final = "reseat the modules, test them one by one (memtest86+), and replace the one that errs"
_DISK: Final = "save the data, check the cable and SMART, and replace the disk if it goes on"


@dataclass(frozen=True)
class Counter:
    """`label`: which of its subject; empty where there is one."""

    count: int
    subject: str
    label: str = ""
    evidence: tuple[Evidence, ...] = ()


Counters = Mapping[str, Counter]  # by place: the same at each visit


@dataclass(frozen=True, kw_only=True)
class Kind:
    """`read`: None where they were not collected. `restarts`: with the machine.

    Growth is of the status `grown`, and up to `harmless` information. `is_rate`: what matters is
    how many there are in a minute. `moves`: places may change their names at a boot. `checks` judge
    the same.
    """

    words: str
    read: Callable[[Examined], Counters | None]
    grown: Status
    harmless: int = 0
    is_rate: bool = False
    restarts: bool = False
    moves: bool = False
    checks: tuple[str, ...] = ()
    fix: str = ""


def _aer(*kinds: str) -> Callable[[Examined], Counters | None]:
    def read(examined: Examined) -> Counters | None:
        found = examined.snapshot[AER].value
        if found is None or pcie.aer_is_off(examined.snapshot):
            return None
        below = pcie.subjects_below(examined)
        counters = {}
        for one in found.devices:
            if one.kind in kinds:
                cards = below.get(one.address, [])
                cited = tuple(Evidence(AER.name, line) for line in (f"== {one.head}", *one.lines))
                subject = cards[0] if len(cards) == 1 else HOST
                counters[f"{one.address} {one.kind}"] = Counter(
                    one.total, subject, one.address, cited
                )
        return counters

    return read


def _nvlink(*, recovery: bool) -> Callable[[Examined], Counters | None]:
    def read(examined: Examined) -> Counters | None:
        found = examined.snapshot[NVLINK].value
        if found is None:
            return None
        subjects = {one.smi.uuid: one.subject for one in examined.cards if one.smi}
        return {
            f"{gpu.uuid} {one.link} {one.kind}": Counter(
                one.count,
                subjects.get(gpu.uuid, f"gpu {gpu.index}"),
                f"link {one.link} {one.kind}",
                (Evidence(NVLINK.name, one.line),),
            )
            for gpu in found.gpus
            for one in gpu.errors.values()
            if (one.kind == "Recovery") is recovery
        }

    return read


def _of_card(
    count: Callable[[SmiGpu], int | None], path: str
) -> Callable[[Examined], Counters | None]:
    def read(examined: Examined) -> Counters | None:
        report = examined.snapshot[SMI].value
        if report is None or report.failure:
            return None
        counters = {}
        for card in examined.cards:
            value = count(card.smi) if card.smi else None
            if card.smi and value is not None:
                lines = [line for name, line in card.smi.raw.items() if name.startswith(path)]
                cited = tuple(Evidence(SMI.name, line) for line in lines)
                counters[card.smi.uuid or card.address] = Counter(
                    value, card.subject, evidence=cited
                )
        return counters

    return read


def _retired(smi: SmiGpu) -> int | None:
    if smi.retired_single is None or smi.retired_double is None:
        return None
    return smi.retired_single + smi.retired_double


def _edac(*, corrected: bool) -> Callable[[Examined], Counters | None]:
    def read(examined: Examined) -> Counters | None:
        found = examined.snapshot[MEMORY].value
        if found is None:
            return None
        modules = [one for one in found.counters if one.is_module] or found.counters
        return {
            one.name: Counter(count, HOST, one.label, (Evidence(MEMORY.name, one.line),))
            for one in modules
            if (count := one.corrected if corrected else one.uncorrected) is not None
        }

    return read


def _btrfs(*, wrong_data: bool) -> Callable[[Examined], Counters | None]:
    def read(examined: Examined) -> Counters | None:
        found = examined.snapshot[STORAGE].value
        if found is None:
            return None
        return {
            f"{volume.target} {one.device} {one.name}": Counter(
                one.count,
                volume.target,
                f"{one.device} {one.name}",
                (Evidence(STORAGE.name, one.line),),
            )
            for volume in found.btrfs
            for one in volume.counters or ()
            if (one.name in _WRONG_DATA) is wrong_data
        }

    return read


def _media(examined: Examined) -> Counters | None:
    found = examined.snapshot[SMART].value
    if found is None or found.names is None:
        return None
    return {
        one.device: Counter(
            max(counts),
            one.device,
            evidence=tuple(Evidence(SMART.name, line) for line in (one.head, *one.lines)),
        )
        for one in found.disks
        if (counts := [each for each in (one.unreadable, one.media_errors) if each is not None])
    }


KINDS: Final[Mapping[str, Kind]] = {
    "pcie.corrected": Kind(
        words="corrected errors of the PCIe link",
        read=_aer("correctable"),
        grown="fail",
        is_rate=True,
        restarts=True,
        checks=("pci.aer.corr",),
        fix=_LINK,
    ),
    "pcie.uncorrected": Kind(
        words="uncorrected errors of the PCIe link",
        read=_aer("nonfatal", "fatal"),
        grown="fail",
        restarts=True,
        checks=("pci.aer.uncorr",),
        fix=_LINK,
    ),
    "nvlink.recovery": Kind(
        words="recoveries of NVLink",
        read=_nvlink(recovery=True),
        grown="warn",
        restarts=True,
        checks=("nvl.err",),
        fix=_BRIDGE,
    ),
    "nvlink.corrected": Kind(
        words="corrected errors of NVLink",
        read=_nvlink(recovery=False),
        grown="warn",
        harmless=99,
        restarts=True,
        checks=("nvl.err",),
        fix=_BRIDGE,
    ),
    "ecc.uncorrected": Kind(
        words="uncorrected errors of the card's memory",
        read=_of_card(lambda smi: smi.ecc_aggregate_uncorrected, "ecc_errors/aggregate/"),
        grown="fail",
        checks=("ecc.vol", "ecc.agg"),
        fix=_CARD,
    ),
    "ecc.corrected": Kind(
        words="corrected errors of the card's memory",
        read=_of_card(lambda smi: smi.ecc_aggregate_corrected, "ecc_errors/aggregate/"),
        grown="info",
        checks=("ecc.corr",),
    ),
    "remapped": Kind(
        words="replaced rows of the card's memory",
        read=_of_card(lambda smi: smi.remapped_uncorrected, "remapped_rows/"),
        grown="warn",
        checks=("remap",),
        fix=_CARD,
    ),
    "retired": Kind(
        words="retired pages of the card's memory",
        read=_of_card(_retired, "retired_pages/"),
        grown="warn",
        checks=("retired",),
        fix=_CARD,
    ),
    "ram.uncorrected": Kind(
        words="uncorrected errors of the host's memory",
        read=_edac(corrected=False),
        grown="fail",
        restarts=True,
        checks=("ram.ecc",),
        fix=_RAM,
    ),
    "ram.corrected": Kind(
        words="corrected errors of the host's memory",
        read=_edac(corrected=True),
        grown="warn",
        restarts=True,
        checks=("ram.ecc",),
        fix=_RAM,
    ),
    "btrfs.data": Kind(
        words="wrong data from a device of btrfs",
        read=_btrfs(wrong_data=True),
        grown="fail",
        moves=True,
        checks=("btrfs.stats",),
        fix=_DISK,
    ),
    "btrfs.io": Kind(
        words="failed reads and writes of btrfs",
        read=_btrfs(wrong_data=False),
        grown="warn",
        moves=True,
        checks=("btrfs.stats",),
        fix=_DISK,
    ),
    "disk.media": Kind(
        words="data that the disk could not read",
        read=_media,
        grown="warn",
        moves=True,
        checks=("disk.smart",),
        fix=_DISK,
    ),
}


def read_all(examined: Examined) -> Iterator[tuple[str, Counters]]:
    """Of the kinds that were collected."""
    for name, kind in KINDS.items():
        counters = kind.read(examined)
        if counters is not None:
            yield name, counters
