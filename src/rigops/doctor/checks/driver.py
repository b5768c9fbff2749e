"""The loaded driver: the declared one, good for these cards, and new enough for CUDA."""

from __future__ import annotations

import re
from dataclasses import replace

from packaging.version import Version

from rigops.catalog import find_branch, judge, versions
from rigops.catalog.model import Verdict
from rigops.doctor.check import Check
from rigops.doctor.examined import Examined
from rigops.doctor.finding import Evidence, Finding, Fix, Status, fix_by_hand
from rigops.doctor.views import driver_state
from rigops.doctor.views.driver_advice import DriverAdvice, advise, drives, verdicts
from rigops.doctor.views.driver_packages import not_read
from rigops.doctor.views.driver_state import CONCERN
from rigops.probe.sections.nvbandwidth import SECTION as NVBANDWIDTH
from rigops.probe.sections.nvidia_smi_xml import SECTION as SMI
from rigops.probe.sections.nvidia_version import SECTION as NVIDIA_VERSION
from rigops.probe.sections.own_modules import SECTION as OWN_MODULES
from rigops.probe.sections.packages import SECTION as PACKAGES
from rigops.probe.sections.packages import Package, Packages
from rigops.probe.sections.pci import SECTION as PCI

_BY_NAME = re.compile(r"cuda-toolkit-(?P<major>[0-9]{1,2})-(?P<minor>[0-9]{1,2})")
_BY_VERSION = re.compile(r"(?:[0-9]+:)?(?P<major>[0-9]{1,2})\.(?P<minor>[0-9]{1,2})[.~-]")
_PLAIN_NAMES = frozenset({"cuda", "cuda-toolkit", "nvidia-cuda-toolkit"})
_CUDA = re.compile(r"(?P<major>[0-9]{1,2})\.(?P<minor>[0-9]{1,2})")
Cuda = tuple[int, int]


@Check(
    "drv.pin",
    needs=(PCI, NVIDIA_VERSION, SMI, NVBANDWIDTH, PACKAGES, OWN_MODULES),
    fixes=("apply+reboot", "hands"),
    keys=frozenset({"driver"}),
    cause_rank=60,
)
def pin(examined: Examined) -> Finding:
    """The loaded driver is the declared one, and not known to be bad.

    Looks at the kernel module that is loaded (/proc/driver/nvidia/version, or where that was not
    collected the driver that nvidia-smi or nvbandwidth names), never at the names of packages:
    nvidia-driver-535 has come to install 580. With `driver` declared the version must satisfy it,
    and with `driver_modules` it must be that of the tree that the host has. In any case it is
    looked up in the catalog for the cards of this host (`rigops drivers`): a version that is known
    to be bad fails, with the reports; one that works with limits is a warning, but a note by a
    program alone, whose output may be of another day or of Windows; one without reports is
    information, never ok. What is bad for copies from card to card does not concern a card that is
    alone.
    """
    named = driver_state.loaded_version(examined.snapshot)
    version = _version(named[0]) if named else None
    if named and version:
        found = _judge_version(examined, version, named[1])
        is_told = all(one.section in {SMI.name, NVBANDWIDTH.name} for one in named[1])
        return replace(found, status="info") if is_told and found.status == "warn" else found
    loaded = examined.snapshot[NVIDIA_VERSION].value
    if loaded is None:
        return Finding("unknown", "the loaded driver could not be read")
    if not loaded.is_loaded:
        if examined.spec.driver is None:
            return Finding("unknown", "no NVIDIA driver is loaded, so there is no version to judge")
        return Finding(
            "fail",
            f"no NVIDIA driver is loaded, and {examined.spec.driver.text} is declared",
            fix=_fix(examined),
        )
    evidence = tuple(
        Evidence(NVIDIA_VERSION.name, line) for line in loaded.unparsed or (loaded.line,)
    )
    return Finding("unknown", "a driver is loaded, and its version could not be read", evidence)


def _judge_version(examined: Examined, version: Version, loaded: tuple[Evidence, ...]) -> Finding:
    worst = next(iter(verdicts(examined, version)), None)
    status, summary = _opinion(examined, version, worst)
    return Finding(
        status,
        summary,
        (
            *loaded,
            *(Evidence("catalog", str(one)) for one in (worst.evidence if worst else ())),
        ),
        why=worst.why if worst else "",
        fix=_fix(examined) if status == "fail" else None,
        data={"p2p": "none"} if status == "fail" and _grants_too_much(examined, worst) else {},
    )


def _grants_too_much(examined: Examined, worst: Verdict | None) -> bool:
    """It is bad for copies between cards that have no P2P."""
    expected = {card.model.p2p if card.model else None for card in examined.cards}
    return worst is not None and worst.purpose == "p2p" and expected == {"none"}


def _opinion(examined: Examined, version: Version, worst: Verdict | None) -> tuple[Status, str]:
    wish, allowed = examined.spec.driver, examined.spec.driver_allow_bad is True
    driver = f"driver {versions.spelled(version)}"
    is_bad = worst is not None and worst.status == "bad"
    is_other = wish is not None and version not in wish.versions
    declared = f", and {wish.text} is declared" if wish and is_other else ""
    own = _version_of_own_modules(examined)
    if own and own != version and not is_other:
        is_other, declared = True, f", and driver_modules is of {versions.spelled(own)}"
    if is_bad and not allowed:
        return "fail", f"{driver} is known to be bad for these cards{declared}"
    if is_other:
        return "fail", f"{driver} is loaded{declared}"
    if is_bad:
        return "warn", f"{driver} is known to be bad, and driver_allow_bad allows it"
    return _not_bad(examined, version, worst)


def _not_bad(examined: Examined, version: Version, worst: Verdict | None) -> tuple[Status, str]:
    wish, driver = examined.spec.driver, f"driver {versions.spelled(version)}"
    cards = [card.driven for card in examined.cards]
    if cards and not any(card is None or drives(examined, version, [card]) for card in cards):
        return "skipped", f"{driver} drives none of these cards: see drv.flavor"
    if worst is None:
        return "info", f"{driver}: there are no reports on it"
    if _may_be_bad(examined, version):
        return "unknown", f"{driver} is bad for some cards, and these cards could not be read"
    if worst.status == "caution":
        return (
            "info" if wish else "warn",
            f"{driver} is known to work with limits: use with caution",
        )
    return "ok", f"{driver} is known to be good" + (" and declared" if wish else "")


def _version_of_own_modules(examined: Examined) -> Version | None:
    """Of the tree that was sent last and built: its modules drive with no other user space."""
    there = examined.snapshot[OWN_MODULES].or_empty
    if examined.spec.driver_modules is None:
        return None
    found = {one.version for one in there.built.values() if one.digest in there.trees}
    return _version(found.pop()) if len(found) == 1 else None


def _version(spelled: str) -> Version | None:
    try:
        return versions.parse(spelled)
    except ValueError:
        return None


def _may_be_bad(examined: Examined, version: Version) -> bool:
    pci = examined.snapshot[PCI].value
    if pci is not None and examined.snapshot[PCI].is_exhaustive:
        return False
    return any(
        verdict.status == "bad" and verdict.purpose != "install"
        for verdict in judge(examined.catalog, version)
    )


def _fix(examined: Examined) -> Fix:
    advice = advise(examined)
    return _install(advice) if advice.declare else fix_by_hand(advice.by_hand)


def _install(advice: DriverAdvice) -> Fix:
    wanted = advice.driver
    return Fix(
        kind="apply+reboot",
        concern=CONCERN,
        declare=advice.declare,
        text=f"`rigops apply` installs driver {wanted}, holds it and reboots",
        by_hand=(
            f"install a driver that really is {wanted} (a package's name is no proof: look at "
            "`apt-cache policy`), hold its packages with `apt-mark hold`, and reboot"
        ),
    )


@Check("cuda.compat", needs=(NVIDIA_VERSION, PACKAGES, SMI), fixes=("hands",))
def compat(examined: Examined) -> Finding:
    """The driver is new enough for the installed CUDA toolkits.

    Compares the CUDA version that the driver brings (nvidia-smi, or the catalog for the loaded
    branch) with the installed packages of CUDA toolkits. An older driver is a warning. Toolkits
    that did not come as packages, such as those inside PyTorch, are not seen.
    """
    snapshot = examined.snapshot
    packages = snapshot[PACKAGES].value
    if packages is None:
        return Finding("unknown", not_read(snapshot[PACKAGES], "the installed packages"))
    is_complete = snapshot[PACKAGES].is_exhaustive
    toolkits = _toolkits(packages)
    if toolkits:
        return _compare_toolkits(examined, toolkits, is_complete=is_complete)
    return (
        Finding("skipped", "no package of a CUDA toolkit is installed")
        if is_complete
        else Finding("unknown", "the installed packages could not all be read")
    )


def _compare_toolkits(
    examined: Examined, toolkits: dict[Cuda, Package], *, is_complete: bool
) -> Finding:
    driver, evidence = _cuda_of_driver(examined)
    if driver is None:
        return Finding("unknown", "which CUDA the driver brings could not be read")
    newer = {cuda: package for cuda, package in toolkits.items() if cuda > driver}
    if newer:
        return _too_old(driver, newer, evidence)
    if not is_complete:
        return Finding("unknown", "the driver is new enough for the toolkits that were read")
    newest = _text(max(toolkits))
    return Finding("ok", f"the driver brings CUDA {_text(driver)}, the newest toolkit is {newest}")


def _toolkits(packages: Packages) -> dict[Cuda, Package]:
    found: dict[Cuda, Package] = {}
    for one in packages.packages:
        by_name = _BY_NAME.fullmatch(one.name)
        shape = by_name or (_BY_VERSION.match(one.version) if one.name in _PLAIN_NAMES else None)
        if one.is_installed and shape:
            found[int(shape["major"]), int(shape["minor"])] = one
    return found


def _cuda_of_driver(examined: Examined) -> tuple[Cuda | None, Evidence | None]:
    """By nvidia-smi, else by the catalog for the loaded branch."""
    report, loaded = examined.snapshot[SMI].value, examined.snapshot[NVIDIA_VERSION].value
    cuda = _CUDA.fullmatch(report.cuda or "") if report else None
    if cuda:
        return (int(cuda["major"]), int(cuda["minor"])), Evidence(SMI.name, f"CUDA {cuda[0]}")
    if loaded is None or loaded.version is None:
        return None, None
    branch = find_branch(examined.catalog, loaded.version.partition(".")[0])
    known = _CUDA.fullmatch(branch.cuda) if branch else None
    if known is None:
        return None, None
    return (int(known["major"]), int(known["minor"])), Evidence(NVIDIA_VERSION.name, loaded.line)


def _text(cuda: Cuda) -> str:
    return f"{cuda[0]}.{cuda[1]}"


def _too_old(driver: Cuda, newer: dict[Cuda, Package], evidence: Evidence | None) -> Finding:
    newest = max(newer)
    same_major = newest[0] == driver[0]
    return Finding(
        "warn",
        f"the driver brings CUDA {_text(driver)}, and toolkit {_text(newest)} is installed",
        (
            *([evidence] if evidence else []),
            *(Evidence(PACKAGES.name, one.line) for one in newer.values()),
        ),
        why="Programs of a newer minor version mostly run on an older driver of the same major "
        "version; those that are compiled at run time (PTX) do not."
        if same_major
        else 'What is built with it says "CUDA driver version is insufficient". PyTorch and '
        "others bring a CUDA of their own and do not care about the toolkit.",
        fix=fix_by_hand(
            f"build with a toolkit up to {_text(driver)} (packages cuda-toolkit-"
            f"{driver[0]}-{driver[1]} and older), or install a driver branch that brings "
            f"{_text(newest)}: see `rigops drivers`"
        ),
    )
