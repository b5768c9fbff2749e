"""Whether what is installed and configured also runs, or waits for a reboot."""

from __future__ import annotations

import re
from typing import Final

from rigops.dataclass import dataclass
from rigops.doctor.check import Check
from rigops.doctor.examined import Examined
from rigops.doctor.finding import Evidence, Finding, fix_by_hand
from rigops.doctor.views.driver_packages import user_space_versions
from rigops.probe.sections.boot import REBOOT_REQUIRED
from rigops.probe.sections.boot import SECTION as BOOT
from rigops.probe.sections.bootloader import SECTION as BOOTLOADER
from rigops.probe.sections.bootloader import Bootloader, MenuEntry
from rigops.probe.sections.nvidia_version import SECTION as NVIDIA_VERSION
from rigops.probe.sections.package_history import SECTION as PACKAGE_HISTORY
from rigops.probe.sections.packages import SECTION as PACKAGES
from rigops.probe.sections.uname import SECTION as UNAME
from rigops.probe.snapshot import HostSnapshot
from rigops.probe.text import assignments

_RECOVERY: Final = frozenset({"single", "recovery", "rescue", "emergency"})
_NUMBERS = re.compile(r"[0-9]{1,9}")


@dataclass(frozen=True)
class Reason:
    text: str
    evidence: tuple[Evidence, ...]


@Check(
    "drv.reboot_pending",
    needs=(UNAME, BOOT, NVIDIA_VERSION, BOOTLOADER, PACKAGES, PACKAGE_HISTORY),
    fixes=("hands",),
)
def pending(examined: Examined) -> Finding:
    """No reboot is pending.

    A reboot is pending where /run/reboot-required exists, where the installed libraries of the
    driver have another version than the loaded module (distributions do not ask for a reboot after
    a change of the driver), and where the bootloader's next kernel is not the running one. A menu
    entry that was chosen by name is taken as meant.
    """
    snapshot = examined.snapshot
    reasons = [one for one in (_asked(snapshot), _driver(snapshot), _kernel(snapshot)) if one]
    if reasons:
        return _pending(reasons)
    if missing := _missing(snapshot):
        summary = f"no reboot is known to be pending, but not read: {', '.join(missing)}"
        return Finding("unknown", summary)
    return Finding("ok", "no reboot is pending: driver and kernel run as they are installed")


def _missing(snapshot: HostSnapshot) -> list[str]:
    """Each of them could name a reason."""
    needed = (
        (BOOT, snapshot[BOOT].is_complete),
        (PACKAGES, snapshot[PACKAGES].is_exhaustive),
        (NVIDIA_VERSION, snapshot[NVIDIA_VERSION].is_exhaustive),
        (UNAME, snapshot[UNAME].is_complete and snapshot[UNAME].or_empty.release is not None),
        (BOOTLOADER, snapshot[BOOTLOADER].is_complete),
    )
    return [section.name for section, is_read in needed if not is_read]


def _asked(snapshot: HostSnapshot) -> Reason | None:
    boot = snapshot[BOOT].value
    if boot is None or not boot.reboot_required:
        return None
    packages = boot.reboot_packages
    shown = ", ".join(packages[:3]) + (f" and {len(packages) - 3} more" if packages[3:] else "")
    evidence = tuple(Evidence(BOOT.name, name) for name in (REBOOT_REQUIRED, *packages))
    return Reason("the distribution asks for it" + (f" ({shown})" if packages else ""), evidence)


def _driver(snapshot: HostSnapshot) -> Reason | None:
    """Libraries of another version than the module that was loaded when this boot began."""
    loaded, packages = snapshot[NVIDIA_VERSION].value, snapshot[PACKAGES].value
    if loaded is None or loaded.version is None or packages is None:
        return None
    installed = user_space_versions(packages.driver)
    if not installed or loaded.version in installed:
        return None
    version, package = next(iter(installed.items()))
    history = snapshot[PACKAGE_HISTORY].value
    change = history.last(package.name) if history else None
    evidence = [Evidence(NVIDIA_VERSION.name, loaded.line), Evidence(PACKAGES.name, package.line)]
    evidence += [Evidence(PACKAGE_HISTORY.name, change.line)] if change else []
    when = f" since {change.at[:10]}" if change and change.at else ""
    return Reason(
        f"driver {version} is installed{when}, and {loaded.version} is loaded", tuple(evidence)
    )


def _kernel(snapshot: HostSnapshot) -> Reason | None:
    """The kernel that boots next, where that is known."""
    boots, running = snapshot[BOOTLOADER].value, snapshot[UNAME].value
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
        f"kernel {release} boots next, and {running.release} runs",
        (Evidence(BOOTLOADER.name, line),),
    )


def _next_entry(boots: Bootloader) -> MenuEntry | None:
    """The first normal one, where the first is what GRUB starts."""
    settings: dict[str, str] = {}
    for text in boots.files.values():
        settings |= assignments(text)
    chosen = settings.get("GRUB_DEFAULT", "")
    if chosen == "saved":
        chosen = boots.environment.get("saved_entry", "")
    if chosen not in frozenset({"", "0"}):
        return None
    entries = boots.menu or ()
    return next((one for one in entries if _RECOVERY.isdisjoint(one.arguments)), None)


def _by_numbers(release: str) -> tuple[int, ...]:
    return tuple(int(number) for number in _NUMBERS.findall(release)[:8])


def _pending(reasons: list[Reason]) -> Finding:
    return Finding(
        "warn",
        "a reboot is pending: " + "; ".join(one.text for one in reasons),
        tuple(line for one in reasons for line in one.evidence),
        why="Until then the old kernel and the old driver module run beside new files: CUDA may "
        "fail with a version mismatch, and the next unplanned restart brings the change.",
        fix=fix_by_hand("when the cards are idle: `systemctl reboot`, and look again"),
    )
