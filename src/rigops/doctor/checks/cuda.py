"""Whether the driver is new enough for the CUDA toolkits that are installed."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from rigops.catalog import find_branch
from rigops.doctor.check import Check
from rigops.doctor.finding import Evidence, Finding, Fix
from rigops.doctor.views.driver_packages import not_read
from rigops.probe.sections.nvidia_smi_xml import SECTION as SMI
from rigops.probe.sections.nvidia_version import SECTION as NVIDIA_VERSION
from rigops.probe.sections.packages import SECTION as PACKAGES

if TYPE_CHECKING:
    from rigops.doctor.examined import Examined
    from rigops.probe.sections.packages import Package, Packages


_BY_NAME = re.compile(r"cuda-toolkit-(?P<major>[0-9]{1,2})-(?P<minor>[0-9]{1,2})")
_BY_VERSION = re.compile(r"(?:[0-9]+:)?(?P<major>[0-9]{1,2})\.(?P<minor>[0-9]{1,2})[.~-]")
_PLAIN_NAMES = frozenset({"cuda", "cuda-toolkit", "nvidia-cuda-toolkit"})
_CUDA = re.compile(r"(?P<major>[0-9]{1,2})\.(?P<minor>[0-9]{1,2})")

Cuda = tuple[int, int]


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
        return _compared(examined, toolkits, is_complete=is_complete)
    return (
        Finding("skipped", "no package of a CUDA toolkit is installed")
        if is_complete
        else Finding("unknown", "the installed packages could not all be read")
    )


def _compared(examined: Examined, toolkits: dict[Cuda, Package], *, is_complete: bool) -> Finding:
    driver, evidence = _driver(examined)
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


def _driver(examined: Examined) -> tuple[Cuda | None, Evidence | None]:
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
        fix=Fix(
            kind="hands",
            text=f"build with a toolkit up to {_text(driver)} (packages cuda-toolkit-"
            f"{driver[0]}-{driver[1]} and older), or install a driver branch that brings "
            f"{_text(newest)}: see `rigops drivers`",
        ),
    )
