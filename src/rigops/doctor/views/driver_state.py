"""Questions about the NVIDIA driver that several checks ask."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

from rigops.dataclass import dataclass
from rigops.doctor.card import Card
from rigops.doctor.finding import Evidence
from rigops.probe.kernel_log.log_line import LogLine
from rigops.probe.sections.kernel_log import SECTION as KERNEL_LOG
from rigops.probe.sections.lspci import SECTION as LSPCI
from rigops.probe.sections.nvbandwidth import SECTION as NVBANDWIDTH
from rigops.probe.sections.nvidia_smi_xml import SECTION as SMI
from rigops.probe.sections.nvidia_version import SECTION as NVIDIA_VERSION
from rigops.probe.sections.pci import SECTION as PCI

if TYPE_CHECKING:
    from rigops.doctor.examined import Examined
    from rigops.probe.snapshot import HostSnapshot

DRIVER = "nvidia"
CONCERN = "nvidia_driver"
NOT_LOADED = "no NVIDIA driver is loaded"

# Failures of nvidia-smi that only a loaded driver can cause.
_ANSWERED = frozenset({"mismatch", "no-devices", "not-started", "lost"})
_NUMBERS = re.compile(
    r"(?:[0-9]{1,3}:)?(?P<version>[1-9][0-9]{1,3}\.[0-9]{1,3}(?:\.[0-9]{1,3})?)(?!\.?[0-9])"
)


@dataclass(frozen=True)
class Loaded:
    """None: unknown."""

    is_loaded: bool | None
    evidence: tuple[Evidence, ...] = ()


def loaded(examined: Examined) -> Loaded:
    """That nvidia-smi reaches it is proof, even where /proc does not show it, as under WSL."""
    snapshot = examined.snapshot
    version, smi = snapshot[NVIDIA_VERSION].value, snapshot[SMI].value
    if smi is not None and (smi.gpus or smi.failure in _ANSWERED):
        answers = (*(gpu.line for gpu in smi.gpus), *smi.failure_lines)
        shown = tuple(Evidence(SMI.name, line) for line in answers[:1] if line)
        return Loaded(is_loaded=True, evidence=_version_line(snapshot) or shown)
    if version is not None and version.is_loaded:
        # The name alone proves it, where the version has an unknown shape.
        named = version.version or any(
            line.startswith("NVRM version:") for line in version.unparsed
        )
        return Loaded(True if named else None, _version_line(snapshot))
    if smi is not None and smi.failure == "no-driver":
        quoted = tuple(Evidence(SMI.name, line) for line in smi.failure_lines[:1])
        return Loaded(is_loaded=False, evidence=quoted)
    if version is not None and snapshot[NVIDIA_VERSION].is_complete:
        return Loaded(is_loaded=False)
    others = tuple(bound_to(card) for card in examined.cards)
    is_other = None not in others and not any(one[0] == DRIVER for one in others if one)
    if others and is_other and (snapshot[PCI].is_complete or snapshot[LSPCI].is_complete):
        return Loaded(is_loaded=False, evidence=tuple(one[1] for one in others if one))
    return Loaded(is_loaded=None)


def loaded_version(snapshot: HostSnapshot) -> tuple[str, tuple[Evidence, ...]] | None:
    """NVIDIA's, of the module that is loaded.

    Where /proc was not read, of nvidia-smi, or of nvbandwidth, which asks the driver as well.
    """
    report, copied = snapshot[SMI].or_empty, snapshot[NVBANDWIDTH].or_empty
    if (version := snapshot[NVIDIA_VERSION].or_empty.version) and numbers(version):
        return version, _version_line(snapshot)
    if report.driver and numbers(report.driver):
        return report.driver, (Evidence(SMI.name, report.driver),)
    if copied.driver:
        return copied.driver, (Evidence(NVBANDWIDTH.name, copied.driver_line),)
    return None


def _version_line(snapshot: HostSnapshot) -> tuple[Evidence, ...]:
    version = snapshot[NVIDIA_VERSION].value
    if version is None:
        return ()
    return tuple(
        Evidence(NVIDIA_VERSION.name, line) for line in (version.line, *version.unparsed) if line
    )


def bound_to(card: Card) -> tuple[str, Evidence] | None:
    """The kernel driver that holds a card, "" for none; None: unknown."""
    function, listed = card.function, card.lspci
    if function is not None and (function.driver or " driver=- " in f"{function.line} "):
        return function.driver or "", Evidence(PCI.name, function.line)
    # lspci names the driver before the modules that fit: those alone mean that there is none.
    if listed is not None and (listed.driver or listed.modules):
        quoted = f"Kernel driver in use: {listed.driver}" if listed.driver else listed.line
        return listed.driver or "", Evidence(LSPCI.name, quoted)
    return (DRIVER, Evidence(SMI.name, card.smi.line)) if card.smi is not None else None


def numbers(version: str | None) -> str | None:
    """NVIDIA's version in a package's or module's: 535.104.05 of 1:535.104.05-0ubuntu1."""
    shape = _NUMBERS.match(version or "")
    return shape["version"] if shape else None


def logged(snapshot: HostSnapshot, pattern: re.Pattern[str]) -> tuple[LogLine, ...]:
    return snapshot[KERNEL_LOG].or_empty.matching(pattern)


def cited(lines: Iterable[LogLine], most: int = 3) -> tuple[Evidence, ...]:
    return tuple(Evidence(KERNEL_LOG.name, one.line) for one in tuple(lines)[:most])
