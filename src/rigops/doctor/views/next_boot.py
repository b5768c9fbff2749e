"""Which kernel runs, and which one the next boot will start."""

from __future__ import annotations

import re
from collections.abc import Iterable

from rigops.dataclass import dataclass
from rigops.doctor.finding import Evidence
from rigops.numbers import whole
from rigops.probe.sections.bootloader import GRUB_DEFAULTS, Bootloader, MenuEntry
from rigops.probe.sections.bootloader import SECTION as BOOTLOADER
from rigops.probe.sections.packages import SECTION as PACKAGES
from rigops.probe.sections.proc_cmdline import SECTION as PROC_CMDLINE
from rigops.probe.sections.uname import SECTION as UNAME
from rigops.probe.snapshot import HostSnapshot
from rigops.probe.text import assignments

_IMAGE_FILE = re.compile(r".*vmlinuz-(?P<release>[0-9]\S*)")
_IMAGE_PACKAGE = re.compile(r"linux-image-(?:unsigned-)?(?P<release>[0-9]+\.[0-9]+\.[0-9]+-\S+)")
_PARTS = re.compile(r"[0-9]{1,9}|[A-Za-z]+")
_DEBUG = ("-dbg", "-dbgsym")


@dataclass(frozen=True)
class NextKernel:
    """`is_certain`: the bootloader's own configuration says so; else it is the newest there is."""

    release: str
    evidence: Evidence
    is_certain: bool


def running(snapshot: HostSnapshot) -> str | None:
    if release := snapshot[UNAME].or_empty.release:
        return release
    for argument in snapshot[PROC_CMDLINE].or_empty.arguments:
        if argument.startswith("BOOT_IMAGE=") and (shape := _IMAGE_FILE.fullmatch(argument)):
            return shape["release"]
    return None


def next_kernel(snapshot: HostSnapshot) -> NextKernel | None:
    """None: unknown."""
    if (bootloader := snapshot[BOOTLOADER].value) is not None:
        entry, is_certain = _default(bootloader)
        image = _IMAGE_FILE.fullmatch(entry.kernel) if entry else None
        if entry and image:
            certain = is_certain and snapshot[BOOTLOADER].is_complete
            return NextKernel(image["release"], Evidence(BOOTLOADER.name, entry.line), certain)
        newest = _newest(kernel for kernel in bootloader.kernels if whole(kernel[:1]) is not None)
        if newest:
            return NextKernel(
                newest, Evidence(BOOTLOADER.name, f"vmlinuz-{newest}"), is_certain=False
            )
    return _newest_package(snapshot)


def _default(bootloader: Bootloader) -> tuple[MenuEntry | None, bool]:
    """GRUB's: the one to be tried once, else the saved one, else the configured one."""
    if not bootloader.menu:
        return None, False
    configured = assignments(bootloader.files.get(GRUB_DEFAULTS, "")).get("GRUB_DEFAULT", "")
    environment = bootloader.environment
    wanted = environment.get("saved_entry", "") if configured == "saved" else configured
    wanted = environment.get("next_entry", "") or wanted
    if wanted in frozenset({"", "0"}):
        return bootloader.menu[0], True
    named = [
        entry
        for entry in bootloader.menu
        if (image := _IMAGE_FILE.fullmatch(entry.kernel)) and image["release"] in wanted
    ]
    if not named:
        return bootloader.menu[0], False
    # Where one release is the beginning of another, the longer one is meant.
    return max(named, key=lambda one: len(one.kernel)), True


def _newest_package(snapshot: HostSnapshot) -> NextKernel | None:
    found = {
        shape["release"]: package
        for package in snapshot[PACKAGES].or_empty.packages
        if package.is_installed
        and not package.name.endswith(_DEBUG)
        and (shape := _IMAGE_PACKAGE.fullmatch(package.name))
    }
    newest = _newest(found)
    if newest is None:
        return None
    package = found[newest]
    line = f"{package.name}\t{package.version}\t{package.architecture}\t{package.status}"
    return NextKernel(newest, Evidence(PACKAGES.name, line), is_certain=False)


def _newest(releases: Iterable[str]) -> str | None:
    return max(releases, key=_by_version, default=None)


def _by_version(release: str) -> tuple[tuple[bool, int, str], ...]:
    parts = _PARTS.findall(release)
    return tuple((whole(part) is not None, whole(part) or 0, part) for part in parts)
