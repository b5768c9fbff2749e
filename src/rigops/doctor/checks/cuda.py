"""Whether the driver is new enough for the CUDA toolkits that are installed."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from rigops.catalog import find_branch
from rigops.doctor import rig
from rigops.doctor.check import Check, Examined
from rigops.doctor.checks.driver_packages import PACKAGES, not_read
from rigops.doctor.finding import Evidence, Finding, Remedy, saying

if TYPE_CHECKING:
    from rigops.probe.sections.packages import Package, Packages

COMPAT = "cuda.compat"

_SMI = "nvidia-smi-xml"
_LOADED = "nvidia-version"
_BY_NAME = re.compile(r"cuda-toolkit-(?P<major>[0-9]{1,2})-(?P<minor>[0-9]{1,2})")
_BY_VERSION = re.compile(r"(?:[0-9]+:)?(?P<major>[0-9]{1,2})\.(?P<minor>[0-9]{1,2})[.~-]")
_PLAIN_NAMES = frozenset({"cuda", "cuda-toolkit", "nvidia-cuda-toolkit"})
_CUDA = re.compile(r"(?P<major>[0-9]{1,2})\.(?P<minor>[0-9]{1,2})")

Cuda = tuple[int, int]


def compat(examined: Examined) -> list[Finding]:
    facts = examined.facts
    if rig.has_no_gpu(examined):
        return [_finding("skipped", "there is no NVIDIA GPU")]
    packages = facts.packages
    if packages is None:
        return [_finding("unknown", not_read(facts, PACKAGES, "the installed packages"))]
    whole = facts.is_whole(PACKAGES) and not packages.unread
    toolkits = _toolkits(packages)
    if toolkits:
        return [_compared(examined, toolkits, whole=whole)]
    return [
        _finding("skipped", "no package of a CUDA toolkit is installed")
        if whole
        else _finding("unknown", "the installed packages could not be read whole")
    ]


def _compared(examined: Examined, toolkits: dict[Cuda, Package], *, whole: bool) -> Finding:
    driver, evidence = _driver(examined)
    if driver is None:
        return _finding("unknown", "which CUDA the driver brings could not be read")
    newer = {cuda: package for cuda, package in toolkits.items() if cuda > driver}
    if newer:
        return _too_old(driver, newer, evidence)
    if not whole:
        return _finding("unknown", "the driver is new enough for the toolkits that were read")
    newest = _told(max(toolkits))
    return _finding("ok", f"the driver brings CUDA {_told(driver)}, the newest toolkit is {newest}")


def _toolkits(packages: Packages) -> dict[Cuda, Package]:
    found: dict[Cuda, Package] = {}
    for one in packages.packages:
        by_name = _BY_NAME.fullmatch(one.name)
        shape = by_name or (_BY_VERSION.match(one.version) if one.name in _PLAIN_NAMES else None)
        if one.is_installed and shape:
            found[int(shape["major"]), int(shape["minor"])] = one
    return found


def _driver(examined: Examined) -> tuple[Cuda | None, Evidence | None]:
    """What nvidia-smi says; else what the catalogue knows of the loaded branch."""
    report, loaded = examined.facts.nvidia_smi_xml, examined.facts.nvidia_version
    said = _CUDA.fullmatch(report.cuda or "") if report else None
    if said:
        return (int(said["major"]), int(said["minor"])), Evidence(_SMI, f"CUDA {said[0]}")
    if loaded is None or loaded.version is None:
        return None, None
    branch = find_branch(examined.catalog, loaded.version.partition(".")[0])
    known = _CUDA.fullmatch(branch.cuda) if branch else None
    if known is None:
        return None, None
    return (int(known["major"]), int(known["minor"])), Evidence(_LOADED, loaded.line)


def _told(cuda: Cuda) -> str:
    return f"{cuda[0]}.{cuda[1]}"


def _too_old(driver: Cuda, newer: dict[Cuda, Package], evidence: Evidence | None) -> Finding:
    newest = max(newer)
    same_major = newest[0] == driver[0]
    return Finding(
        id=COMPAT,
        status="warn",
        summary=f"the driver brings CUDA {_told(driver)}, and toolkit {_told(newest)} is installed",
        evidence=(
            *([evidence] if evidence else []),
            *(Evidence(PACKAGES, one.line) for one in newer.values()),
        ),
        why=(
            "Programs of a newer minor version mostly run on an older driver of the same major "
            "version; those that are compiled at run time (PTX) do not."
            if same_major
            else 'What is built with it says "CUDA driver version is insufficient". PyTorch and '
            "others bring a CUDA of their own and do not care about the toolkit."
        ),
        remedy=Remedy(
            kind="hands",
            text=f"build with a toolkit up to {_told(driver)} (packages cuda-toolkit-"
            f"{driver[0]}-{driver[1]} and older), or install a driver branch that brings "
            f"{_told(newest)}: see `rigops drivers`",
        ),
    )


_finding = saying(COMPAT)


CHECKS = (
    Check(
        id=COMPAT,
        title="The driver is new enough for the installed CUDA toolkits",
        explanation=(
            "Compares the CUDA version that the driver brings (nvidia-smi, or the catalogue for "
            "the loaded branch) with the installed packages of CUDA toolkits. An older driver is a "
            "warning. Toolkits that did not come as packages, such as those inside PyTorch, are "
            "not seen."
        ),
        run=compat,
    ),
)
