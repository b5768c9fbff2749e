"""Whether what is installed and configured also runs, or waits for a reboot."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from rigops.doctor import rig
from rigops.doctor.check import Check, Examined
from rigops.doctor.checks.driver_packages import PACKAGES, user_space_versions
from rigops.doctor.finding import Evidence, Finding, Remedy
from rigops.probe.sections.boot import REBOOT_REQUIRED
from rigops.probe.text import assignments

if TYPE_CHECKING:
    from rigops.probe.facts import HostFacts
    from rigops.probe.sections.bootloader import Bootloader, MenuEntry

PENDING = "drv.reboot_pending"

_BOOT = "boot"
_LOADED = "nvidia-version"
_BOOTLOADER = "bootloader"
_KERNEL = "uname"
_RECOVERY: Final = frozenset({"single", "recovery", "rescue", "emergency"})
_FIRST: Final = frozenset({"", "0"})
_NUMBERS = re.compile(r"[0-9]{1,9}")


@dataclass(frozen=True)
class Reason:
    text: str
    evidence: tuple[Evidence, ...]


def pending(examined: Examined) -> list[Finding]:
    facts = examined.facts
    if rig.has_no_gpu(examined):
        return [Finding(id=PENDING, status="skipped", summary="there is no NVIDIA GPU")]
    reasons = [one for one in (_asked(facts), _driver(facts), _kernel(facts)) if one]
    if reasons:
        return [_owed(reasons)]
    if missing := _missing(facts):
        said = f"no reboot is known to be owed, but not read: {', '.join(missing)}"
        return [Finding(id=PENDING, status="unknown", summary=said)]
    return [
        Finding(
            id=PENDING,
            status="ok",
            summary="no reboot is owed: driver and kernel run as they are installed",
        )
    ]


def _missing(facts: HostFacts) -> list[str]:
    """Each of them could name a reason."""
    needed = (
        (_BOOT, facts.boot is not None),
        (PACKAGES, facts.packages is not None and not facts.packages.unread),
        (_LOADED, facts.nvidia_version is not None and not facts.nvidia_version.unread),
        (_KERNEL, facts.uname is not None and facts.uname.release is not None),
        (_BOOTLOADER, facts.bootloader is not None),
    )
    return [name for name, is_read in needed if not is_read or not facts.is_whole(name)]


def _asked(facts: HostFacts) -> Reason | None:
    boot = facts.boot
    if boot is None or not boot.reboot_required:
        return None
    packages = boot.reboot_packages
    shown = ", ".join(packages[:3]) + (f" and {len(packages) - 3} more" if packages[3:] else "")
    evidence = tuple(Evidence(_BOOT, name) for name in (REBOOT_REQUIRED, *packages))
    return Reason("the distribution asks for it" + (f" ({shown})" if packages else ""), evidence)


def _driver(facts: HostFacts) -> Reason | None:
    """Libraries of another version than the module that was loaded when this boot began."""
    loaded, packages = facts.nvidia_version, facts.packages
    if loaded is None or loaded.version is None or packages is None:
        return None
    installed = user_space_versions(packages.driver)
    if not installed or loaded.version in installed:
        return None
    version, package = next(iter(installed.items()))
    history = facts.package_history
    change = history.last(package.name) if history else None
    evidence = [Evidence(_LOADED, loaded.line), Evidence(PACKAGES, package.line)]
    evidence += [Evidence("package-history", change.line)] if change else []
    when = f" since {change.at}" if change and change.at else ""
    return Reason(
        f"driver {version} is installed{when}, and {loaded.version} is loaded", tuple(evidence)
    )


def _kernel(facts: HostFacts) -> Reason | None:
    """The kernel that boots next, where that can be told."""
    boots, running = facts.bootloader, facts.uname
    if boots is None or running is None or running.release is None:
        return None
    entry = _next_entry(boots)
    if entry is not None:
        release = entry.kernel.rpartition("/")[2].partition("-")[2]
        line = entry.line
    elif boots.menu:
        return None  # an entry was chosen by name: its kernel is meant, whatever it is
    else:
        release = max(boots.kernels, key=_by_numbers, default="")
        line = f"vmlinuz-{release}"
        if _by_numbers(release) <= _by_numbers(running.release):
            return None
    if not _NUMBERS.match(release) or release == running.release:
        return None
    return Reason(
        f"kernel {release} boots next, and {running.release} runs", (Evidence(_BOOTLOADER, line),)
    )


def _next_entry(boots: Bootloader) -> MenuEntry | None:
    """The first normal one, where the first is what GRUB starts."""
    settings: dict[str, str] = {}
    for text in boots.files.values():
        settings |= assignments(text)
    chosen = settings.get("GRUB_DEFAULT", "")
    if chosen == "saved":
        chosen = boots.environment.get("saved_entry", "")
    if chosen not in _FIRST:
        return None
    entries = boots.menu or ()
    return next((one for one in entries if _RECOVERY.isdisjoint(one.arguments)), None)


def _by_numbers(release: str) -> tuple[int, ...]:
    return tuple(int(number) for number in _NUMBERS.findall(release)[:8])


def _owed(reasons: list[Reason]) -> Finding:
    return Finding(
        id=PENDING,
        status="warn",
        summary="a reboot is owed: " + "; ".join(one.text for one in reasons),
        evidence=tuple(line for one in reasons for line in one.evidence),
        why=(
            "Until then the old kernel and the old driver module run beside new files: CUDA may "
            "fail with a version mismatch, and the next unplanned restart brings the change."
        ),
        remedy=Remedy(
            kind="hands", text="when the cards are idle: `systemctl reboot`, and look again"
        ),
    )


CHECKS = (
    Check(
        id=PENDING,
        title="No reboot is owed",
        explanation=(
            "A reboot is owed where /run/reboot-required exists, where the installed libraries of "
            "the driver have another version than the loaded module (distributions do not ask for "
            "a reboot after a change of the driver), and where the bootloader's next kernel is not "
            "the running one. A menu entry that was chosen by name is taken as meant."
        ),
        run=pending,
    ),
)
