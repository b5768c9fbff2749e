"""NVSwitches, whose fabric a service must bring up before CUDA starts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rigops.doctor.check import Check
from rigops.doctor.finding import Evidence, Finding, Fix
from rigops.probe.package_names import driver_version
from rigops.probe.sections.nvidia_version import SECTION as NVIDIA_VERSION
from rigops.probe.sections.packages import SECTION as PACKAGES
from rigops.probe.sections.pci import NVIDIA
from rigops.probe.sections.pci import SECTION as PCI
from rigops.probe.sections.units import SECTION as UNITS

if TYPE_CHECKING:
    from rigops.doctor.examined import Examined

_SERVICE = "nvidia-fabricmanager.service"
_BRIDGE = 0x0680
_WHY = "Without it cuInit answers 802 (system not ready) on machines with NVSwitches."


@Check("fabric", needs=(PCI, NVIDIA_VERSION, PACKAGES, UNITS), fixes=("hands",))
def fabric(examined: Examined) -> Finding:
    """NVSwitches have their fabric manager.

    Only where an NVSwitch is on the bus (class 0x0680 of NVIDIA's), which no home rig has:
    nvidia-fabricmanager must run, and its version must be the loaded driver's.
    """
    snapshot = examined.snapshot
    functions = snapshot[PCI].or_empty.functions
    switches = [
        Evidence(PCI.name, one.line)
        for one in functions
        if one.vendor == NVIDIA and one.pci_class >> 8 == _BRIDGE
    ]
    if not switches:
        return (
            Finding("skipped", "there is no NVSwitch")
            if snapshot[PCI].is_exhaustive
            else Finding("unknown", "whether there is an NVSwitch could not be read")
        )
    return _service(examined, tuple(switches))


def _service(examined: Examined, switches: tuple[Evidence, ...]) -> Finding:
    snapshot = examined.snapshot
    unit = snapshot[UNITS].or_empty.unit(_SERVICE)
    if unit is None or unit.active is None:
        return Finding("unknown", f"whether {_SERVICE} runs could not be read", switches)
    evidence = (*switches, Evidence(UNITS.name, unit.line))
    if unit.active != "active":
        text = (
            f"`systemctl enable --now {_SERVICE}`"
            if unit.exists
            else "install nvidia-fabricmanager of exactly the driver's version, then "
            f"`systemctl enable --now {_SERVICE}`"
        )
        return Finding(
            "fail",
            f"there are NVSwitches, and {_SERVICE} does not run",
            evidence,
            why=_WHY,
            fix=Fix(kind="hands", text=text),
        )
    return _version(examined, evidence)


def _version(examined: Examined, evidence: tuple[Evidence, ...]) -> Finding:
    snapshot = examined.snapshot
    loaded = snapshot[NVIDIA_VERSION].or_empty.version
    packages = snapshot[PACKAGES].or_empty.packages
    names = ("nvidia-fabricmanager", "nvidia-fabric-manager")
    package = next(
        (one for one in packages if one.is_installed and one.name.startswith(names)), None
    )
    version = driver_version(package.version) if package else None
    if package is None or version is None or loaded is None:
        return Finding("unknown", f"{_SERVICE} runs; its version could not be read", evidence)
    if version != loaded:
        return Finding(
            "fail",
            f"fabric manager {version} does not fit driver {loaded}",
            (*evidence, Evidence(PACKAGES.name, package.line)),
            why=f"Both must be of one version. {_WHY}",
            fix=Fix(kind="hands", text=f"install {package.name} {loaded}, hold it, and reboot"),
        )
    return Finding("ok", f"{_SERVICE} {version} runs, as the driver needs it")
