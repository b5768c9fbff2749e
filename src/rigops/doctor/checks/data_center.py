"""Features of data center cards: NVSwitches and their fabric, and cards that are divided (MIG)."""

from __future__ import annotations

from rigops.doctor.card import Card
from rigops.doctor.check import Check
from rigops.doctor.examined import Examined
from rigops.doctor.finding import Evidence, Finding, fix_by_hand
from rigops.probe.package_names import driver_version
from rigops.probe.sections.nvidia_smi_xml import SECTION as SMI
from rigops.probe.sections.nvidia_version import SECTION as NVIDIA_VERSION
from rigops.probe.sections.packages import SECTION as PACKAGES
from rigops.probe.sections.pci import NVIDIA
from rigops.probe.sections.pci import SECTION as PCI
from rigops.probe.sections.units import SECTION as UNITS

_SERVICE = "nvidia-fabricmanager.service"
_BRIDGE = 0x0680
_WHY_FABRIC = "Without it cuInit answers 802 (system not ready) on machines with NVSwitches."

MIG = "mig"


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
    return _judge_service(examined, tuple(switches))


def _judge_service(examined: Examined, switches: tuple[Evidence, ...]) -> Finding:
    snapshot = examined.snapshot
    unit = snapshot[UNITS].or_empty.unit(_SERVICE)
    if unit is None or unit.active is None:
        return Finding("unknown", f"whether {_SERVICE} runs could not be read", switches)
    evidence = (*switches, Evidence(UNITS.name, unit.line))
    if unit.active != "active":
        text = (
            f"`systemctl enable --now --no-reload {_SERVICE}`"
            if unit.exists
            else "install nvidia-fabricmanager of exactly the driver's version, then "
            f"`systemctl enable --now --no-reload {_SERVICE}`"
        )
        return Finding(
            "fail",
            f"there are NVSwitches, and {_SERVICE} does not run",
            evidence,
            why=_WHY_FABRIC,
            fix=fix_by_hand(text),
        )
    return _judge_version(examined, evidence)


def _judge_version(examined: Examined, evidence: tuple[Evidence, ...]) -> Finding:
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
            why=f"Both must be of one version. {_WHY_FABRIC}",
            fix=fix_by_hand(f"install {package.name} {loaded}, hold it, and reboot"),
        )
    return Finding("ok", f"{_SERVICE} {version} runs, as the driver needs it")


@Check("mig", needs=(SMI,), fixes=("hands",))
def mig(examined: Examined) -> Finding | list[Finding]:
    """No card is divided into instances by accident.

    Reads the current and the pending MIG mode of each card from nvidia-smi. Different ones are a
    warning, since the next reset changes what programs see; a divided card is
    information. GeForce
    cards have no MIG.
    """
    snapshot = examined.snapshot
    report = snapshot[SMI].value
    if report is None or not any(card.smi for card in examined.cards):
        return Finding("unknown", "nvidia-smi reported nothing about the cards")
    found = [one for card in examined.cards for one in _judge_division(card)]
    if found:
        return found
    told_all = all(card.smi for card in examined.cards)
    if not told_all or not report.is_complete or not snapshot[SMI].is_complete:
        return Finding("unknown", "nvidia-smi did not report all cards")
    if all(card.smi and card.smi.mig_current is None for card in examined.cards):
        return Finding("skipped", "these cards cannot be divided (MIG)")
    return Finding("ok", "no card is divided (MIG), now or after a reset")


def _judge_division(card: Card) -> list[Finding]:
    smi = card.smi
    if smi is None or smi.mig_current is None:
        return []
    now = "on" if smi.mig_current else "off"
    values = (line for path, line in smi.raw.items() if path.startswith("mig_mode/"))
    evidence = tuple(Evidence(SMI.name, line) for line in (smi.line, *values))
    if smi.mig_pending is not None and smi.mig_pending != smi.mig_current:
        later = "on" if smi.mig_pending else "off"
        return [
            Finding(
                "warn",
                f"MIG is {now} and will be {later} after a reset of the card",
                evidence,
                subject=card.subject,
                why="The next reset or reboot changes which devices programs see.",
                fix=fix_by_hand(
                    f"`nvidia-smi -i {card.address} -mig {int(smi.mig_current)}` to keep it "
                    "as it is, or reboot to have the change now"
                ),
            )
        ]
    if not smi.mig_current:
        return []
    return [
        Finding(
            "info",
            "the card is divided (MIG)",
            evidence,
            subject=card.subject,
            why="A program sees one instance, and instances grant no P2P to each other.",
        )
    ]
