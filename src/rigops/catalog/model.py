"""The catalog's entries, as types. The data is TOML beside this file; users may add to it."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Annotated, Any, Literal, NamedTuple

from rigops.catalog.versions import EXAMPLES, is_specifier, is_spelled
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


class Form(NamedTuple):
    """What a value has to be besides its type. `fault`: else it is so, behind the field's name."""

    fits: Callable[[Any], object]
    fault: str
    accepted: str


_DATE = re.compile(r"([0-9]{4}(-[0-9]{2}(-[0-9]{2})?)?)?")
_BRANCH = re.compile(r"[1-9][0-9]{1,3}")
_LAST_BRANCH = re.compile(r"([1-9][0-9]{1,3})?")
_DEVICE_ID = re.compile(r"[0-9a-f]{4}")
_DEVICE_RANGE = re.compile(r"[0-9a-f]{4}-[0-9a-f]{4}")
_INIT_CODE = re.compile(r"(?=.)(0x[0-9a-f]{2})?(:0x[0-9a-f]{2,4})?")
_SERIES = re.compile(r"[1-9][0-9]*\.[0-9]+")
_STABLE = re.compile(r"[1-9][0-9]*\.[0-9]+\.[0-9]+")
_TOOLKIT = re.compile(r"[1-9][0-9]*\.[0-9]+\.[0-9]+")
_BRANCH_NAME = ("is not a driver branch", 'the first number of a version: "535"')
_VERSION = ("is not a version", f"{EXAMPLES}, as NVIDIA writes it")
_SPECIFIER = 'a specifier such as "<525.105.17", or "" for the whole branch'


def _are_stable_and_last_a_series(kernels: tuple[str, ...]) -> bool:
    *stable, last = kernels or ("",)
    return bool(_SERIES.fullmatch(last)) and all(map(_STABLE.fullmatch, stable))


Date = Annotated[
    str, Form(_DATE.fullmatch, "is not a date", '"2024", "2024-02", "2024-02-19" or ""')
]
Branch = Annotated[str, Form(_BRANCH.fullmatch, *_BRANCH_NAME)]
LastBranch = Annotated[str, Form(_LAST_BRANCH.fullmatch, *_BRANCH_NAME)]
Architecture = Annotated[
    str, Form(ARCHITECTURES.__contains__, "has an unknown architecture", ", ".join(ARCHITECTURES))
]
DeviceId = Annotated[
    str,
    Form(
        _DEVICE_ID.fullmatch,
        "has an invalid device id",
        'four lower-case hexadecimal digits such as "2204"',
    ),
]
DeviceRange = Annotated[
    str,
    Form(
        lambda ids: _DEVICE_RANGE.fullmatch(ids) and ids[:4] <= ids[-4:],
        "has no range of device ids",
        '"2200-227f"',
    ),
]
Maker = Annotated[
    str,
    Form(
        lambda name: name and name == name.lower(),
        "has a name that never matches",
        'a part of the vendor\'s name in lower case, such as "asus"',
    ),
]
Specifier = Annotated[str, Form(is_specifier, "is not a version specifier", _SPECIFIER)]
ReleaseName = Annotated[str, Form(is_spelled, *_VERSION)]
ReleaseIfAny = Annotated[str, Form(lambda text: not text or is_spelled(text), *_VERSION)]
Place = Annotated[str, Form(bool, "is empty", "an issue, a page, an account")]


@dataclass(frozen=True)
class Evidence:
    """Where something was reported, when ("" if it was not looked up), and on which hardware."""

    where: Place
    date: Date
    hardware: str

    def __str__(self) -> str:
        about = ", ".join(part for part in (self.hardware, self.date) if part)
        return f"{self.where} ({about})" if about else self.where


Reports = Annotated[
    tuple[Evidence, ...], Form(bool, "is empty", "at least one { where, date, hardware }")
]


@dataclass(frozen=True)
class Verdict:
    """A judgement over some versions of a branch, on some cards, for some purpose."""

    status: Status
    versions: Specifier  # "" means every version of the branch
    # Model or architecture names; ("*",) means every card.
    gpus: Annotated[tuple[str, ...], Form(bool, "is empty", f'names of cards, or ["{EVERY_CARD}"]')]
    purpose: Purpose
    since: Date
    why: str
    evidence: Reports
    short: str = ""  # why, in a few words: for a table


@dataclass(frozen=True)
class Release:
    version: ReleaseName  # 535.54.03, never 535.54.3
    date: Date


@dataclass(frozen=True)
class KernelCeiling:
    """The newest kernel that some releases of a branch are known to build for."""

    versions: Specifier  # "" means every version of the branch
    newest: Annotated[str, Form(_SERIES.fullmatch, "is not a kernel series", '"6.8"')]
    evidence: Reports


@dataclass(frozen=True)
class KernelChange:
    """A change of the kernel that modules of older releases do not compile with."""

    name: str
    kernels: Annotated[  # from which on: 6.1.187 in its series, 6.19 in all later ones
        tuple[str, ...],
        Form(_are_stable_and_last_a_series, "has no series as its last", '"6.1.187", …, "6.19"'),
    ]
    flavors: tuple[ModuleFlavor, ...]
    since: ReleaseIfAny  # the first that it concerns
    fixed: Annotated[  # the first release that builds, one a branch
        tuple[ReleaseName, ...],
        Form(bool, "is empty", "the first release that builds, one for each branch"),
    ]
    evidence: Reports


@dataclass(frozen=True)
class DriverBranch:
    branch: Branch
    kind: str  # LTSB, production, new-feature or legacy
    end_of_life: str  # a date, "ended", or "" where it was not looked up
    cuda: str
    architectures: tuple[Architecture, ...]  # that the proprietary modules drive
    open_architectures: tuple[Architecture, ...]  # that the open modules drive
    releases: tuple[Release, ...]
    verdicts: tuple[Verdict, ...]
    evidence: Reports
    kernels: tuple[KernelCeiling, ...] = ()  # the first that fits a release counts


@dataclass(frozen=True)
class Gpu:
    name: str
    aliases: tuple[str, ...]
    pci_ids: tuple[DeviceId, ...]
    architecture: Architecture
    memory_gib: int
    watts_default: int
    watts_min: int  # 0 where it was not looked up
    watts_max: int  # 0 where it was not looked up
    spike_factor: Annotated[
        float, Form(lambda factor: factor >= 1, "is below 1", "1 or more")
    ]  # millisecond peaks against the power limit
    pcie_generation: int
    pcie_width: int
    nvlink_links: int
    nvlink_gb_per_s: float  # one way, all links together; 0 without NVLink
    p2p: P2PExpectation  # what the stock driver grants between two of these
    p2p_why: str
    ecc: bool
    memory_temperature: bool  # whether the driver reports it
    first_branch: Branch  # the oldest branch of the catalog that drives it
    last_branch: LastBranch  # "" while the card is still supported
    evidence: Reports
    p2p_own: str = ""  # what modules that the owner patched give, and at what cost


class NamedCard(NamedTuple):
    """What a card is found by; `read` gives all of it."""

    name: str
    aliases: tuple[str, ...]
    pci_ids: tuple[str, ...]
    read: Callable[[], Gpu]

    @staticmethod
    def of_entry(gpu: Gpu) -> NamedCard:
        return NamedCard(gpu.name, gpu.aliases, gpu.pci_ids, lambda: gpu)


@dataclass(frozen=True)
class Generation:
    """Chips of one architecture, for the cards with them that have no entry of their own."""

    name: str
    pci_ids: tuple[DeviceRange, ...]
    first_branch: Branch
    last_branch: LastBranch  # "" while its cards are still supported
    last_cuda: str  # the last toolkit whose programs run on them, or ""
    evidence: Reports


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
    number: Annotated[
        int, Form(lambda number: number >= 1, "is not an Xid", "a whole number from 1 on")
    ]
    meaning: str
    severity: Severity
    reading: str  # what it usually means on a home rig
    remedy: str
    nvidia_action: str
    evidence: Reports


@dataclass(frozen=True)
class InitCode:
    """A number of `RmInitAdapter failed! (0x24:0x72:…)`: the first, the second or both."""

    code: Annotated[
        str,
        Form(
            _INIT_CODE.fullmatch,
            "is no code of RmInitAdapter",
            '"0x24", ":0x72", "0x24:0x72"',
        ),
    ]
    meaning: str
    remedy: str  # "" where the number alone says nothing
    evidence: Reports


@dataclass(frozen=True)
class ContainerToolkit:
    """A version of the NVIDIA Container Toolkit that breaks containers, or some of them."""

    version: Annotated[str, Form(_TOOLKIT.fullmatch, "is not a version of the toolkit", '"1.18.2"')]
    status: Literal["caution", "bad"]
    why: str
    evidence: Reports


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
    evidence: Reports


@dataclass(frozen=True)
class BoardWords:
    """The name of a setting on the boards of a maker, and its menu."""

    makers: tuple[Maker, ...]  # parts of the vendor that DMI names; () is every board
    cpu: Cpu
    words: Annotated[
        tuple[str, ...], Form(bool, "is empty", "what the board's menus call the setting")
    ]
    place: str  # "" where menus differ too much to name one
    evidence: Reports
    along: tuple[str, ...] = ()  # what has to be set with it


@dataclass(frozen=True)
class FirmwareSetting:
    """A setting that only a person can reach, and how Linux shows whether it took."""

    setting: Setting
    seen: str
    boards: tuple[BoardWords, ...]
    evidence: Reports
