"""The catalog's entries, as types. The data is TOML beside this file; users may add to it."""

from __future__ import annotations

from typing import Literal

from rigops.dataclass import dataclass

Status = Literal["known-good", "caution", "bad"]
RowStatus = Literal["known-good", "caution", "bad", "unknown", "unsupported"]
Purpose = Literal["any", "p2p", "install", "stability"]
ModuleFlavor = Literal["proprietary", "open"]
Severity = Literal["fail", "warn", "info"]
P2PExpectation = Literal["nvlink", "pcie", "nvlink-or-none", "none", "unknown"]
Setting = Literal["iommu", "acs", "above-4g", "resizable-bar"]
LinkKind = Literal["pcie", "cross-socket", "nvlink"]
Cpu = Literal["any", "amd", "intel"]

ARCHITECTURES = (
    "Kepler",
    "Maxwell",
    "Pascal",
    "Volta",
    "Turing",
    "Ampere",
    "Ada",
    "Hopper",
    "Blackwell",
)
EVERY_CARD = "*"


@dataclass(frozen=True)
class Evidence:
    """Where something was reported, when ("" if it was not looked up), and on which hardware."""

    where: str
    date: str
    hardware: str

    def __str__(self) -> str:
        about = ", ".join(part for part in (self.hardware, self.date) if part)
        return f"{self.where} ({about})" if about else self.where


@dataclass(frozen=True)
class Verdict:
    """A judgement over some versions of a branch, on some cards, for some purpose."""

    status: Status
    versions: str  # a version specifier; "" means every version of the branch
    gpus: tuple[str, ...]  # model or architecture names; ("*",) means every card
    purpose: Purpose
    since: str
    why: str
    evidence: tuple[Evidence, ...]
    short: str = ""  # why, in a few words: for a table


@dataclass(frozen=True)
class Release:
    version: str  # as NVIDIA writes it: 535.54.03, never 535.54.3
    date: str


@dataclass(frozen=True)
class KernelCeiling:
    """The newest kernel that some releases of a branch are known to build for."""

    versions: str  # a version specifier; "" means every version of the branch
    newest: str  # a series such as 6.8
    evidence: tuple[Evidence, ...]


@dataclass(frozen=True)
class KernelChange:
    """A change of the kernel that modules of older releases do not compile with."""

    name: str
    kernels: tuple[str, ...]  # from which on: 6.1.187 in its series, 6.19 in all later ones
    flavors: tuple[ModuleFlavor, ...]
    since: str  # the first release that it concerns, or ""
    fixed: tuple[str, ...]  # the first release that builds, one a branch
    evidence: tuple[Evidence, ...]


@dataclass(frozen=True)
class DriverBranch:
    branch: str
    kind: str  # LTSB, production, new-feature or legacy
    end_of_life: str  # a date, "ended", or "" where it was not looked up
    cuda: str
    architectures: tuple[str, ...]  # that the proprietary modules drive
    open_architectures: tuple[str, ...]  # that the open modules drive
    releases: tuple[Release, ...]
    verdicts: tuple[Verdict, ...]
    evidence: tuple[Evidence, ...]
    kernels: tuple[KernelCeiling, ...] = ()  # the first that fits a release counts


@dataclass(frozen=True)
class Gpu:
    name: str
    aliases: tuple[str, ...]
    pci_ids: tuple[str, ...]  # device ids, four lower-case hexadecimal digits
    architecture: str
    memory_gib: int
    watts_default: int
    watts_min: int  # 0 where it was not looked up
    watts_max: int  # 0 where it was not looked up
    spike_factor: float  # millisecond peaks against the power limit
    pcie_generation: int
    pcie_width: int
    nvlink_links: int
    nvlink_gb_per_s: float  # one way, all links together; 0 without NVLink
    p2p: P2PExpectation  # what the stock driver grants between two of these
    p2p_why: str
    ecc: bool
    memory_temperature: bool  # whether the driver reports it
    first_branch: str  # the oldest branch of the catalog that drives it
    last_branch: str  # "" while the card is still supported
    evidence: tuple[Evidence, ...]
    p2p_own: str = ""  # what modules that the owner patched give, and at what cost


@dataclass(frozen=True)
class Generation:
    """Chips of one architecture, for the cards with them that have no entry of their own."""

    name: str
    pci_ids: tuple[str, ...]  # ranges of device ids: 06c0-06df
    first_branch: str
    last_branch: str  # "" while its cards are still supported
    last_cuda: str  # the last toolkit whose programs run on them, or ""
    evidence: tuple[Evidence, ...]


@dataclass(frozen=True)
class UnlistedGpu:
    """A card that is not in the catalog, by the generation of its chip."""

    name: str
    architecture: str
    first_branch: str
    last_branch: str


DrivenGpu = Gpu | UnlistedGpu  # all that decides which driver drives it


@dataclass(frozen=True)
class Xid:
    number: int
    meaning: str
    severity: Severity
    reading: str  # what it usually means on a home rig
    remedy: str
    nvidia_action: str
    evidence: tuple[Evidence, ...]


@dataclass(frozen=True)
class InitCode:
    """A number of `RmInitAdapter failed! (0x24:0x72:…)`: the first, the second or both."""

    code: str  # 0x24, :0x72, 0x24:0x72
    meaning: str
    remedy: str  # "" where the number alone says nothing
    evidence: tuple[Evidence, ...]


@dataclass(frozen=True)
class Link:
    """Rates of copies along a healthy link, in GB/s one way."""

    name: str
    kind: LinkKind
    generation: int
    width: int  # lanes, or links of NVLink
    theoretical: float
    slowest: float
    fastest: float
    measured: bool  # False: expected from the figures, not measured
    evidence: tuple[Evidence, ...]


@dataclass(frozen=True)
class BoardWords:
    """The name of a setting on the boards of a maker, and its menu."""

    makers: tuple[str, ...]  # parts of the vendor that DMI names, lower case; () is every board
    cpu: Cpu
    words: tuple[str, ...]
    place: str  # "" where menus differ too much to name one
    evidence: tuple[Evidence, ...]
    along: tuple[str, ...] = ()  # what has to be set with it


@dataclass(frozen=True)
class FirmwareSetting:
    """A setting that only a person can reach, and how Linux shows whether it took."""

    setting: Setting
    seen: str
    boards: tuple[BoardWords, ...]
    evidence: tuple[Evidence, ...]
