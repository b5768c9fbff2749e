"""The installation, decided from the capture of a host and the choices of a person."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, Literal

from rigops.autoinstall import disk_match, networks, releases
from rigops.autoinstall.disk_match import Entry
from rigops.autoinstall.kernels import Kernel, kernel_of
from rigops.autoinstall.networks import Wired, Wireless
from rigops.autoinstall.releases import Distribution, Release
from rigops.capture.document import Capture, Disk
from rigops.catalog import Catalog
from rigops.dataclass import dataclass
from rigops.errors import UsageError, usage_error

Root = Literal["btrfs", "ext4"]
Firmware = Literal["uefi", "bios"]

_HOSTNAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
_USER = re.compile(r"[a-z_][a-z0-9_-]{0,31}")
_KEY = re.compile(r"(?:sk-)?[a-z0-9-]+(?:@openssh\.com)? [A-Za-z0-9+/]+={0,3}(?: [ -~]{0,200})?")
_TIMEZONE = re.compile(r"[A-Za-z0-9_+-]+(?:/[A-Za-z0-9_+-]+){0,2}")
_LOCALE = re.compile(r"[a-z]{2,3}_[A-Z]{2}(?:\.UTF-8)?|C\.UTF-8")
_KEYBOARD = re.compile(r"[a-z]{2,10}")
_VARIANT = re.compile(r"[A-Za-z0-9_-]{1,40}")
_GROUPS: Final = ("adm", "sudo", "video", "render")
_WHO_MAY: Final = {"root", "boot", "swap"}  # what the target may hold beside nothing


@dataclass(frozen=True, kw_only=True)
class Choices:
    """Of the command line; `user` where the capture lacks the login."""

    distribution: Distribution
    release: str | None = None
    root: Root = "btrfs"
    disk: str | None = None
    user: str = "root"
    keys: tuple[str, ...] = ()
    wifi_secret: str | None = None


@dataclass(frozen=True, kw_only=True)
class Account:
    """`uid`: None for root, and where it is not known."""

    name: str
    uid: int | None
    groups: tuple[str, ...]
    keys: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Target:
    """The disk to wipe, and how an installer finds it."""

    name: str
    model: str
    size_bytes: int | None
    entries: tuple[Entry, ...]


@dataclass(frozen=True, kw_only=True)
class Installation:
    host: str
    captured_at: str
    hostname: str
    release: Release
    firmware: Firmware
    root: Root
    target: Target
    account: Account
    wired: tuple[Wired, ...]
    wireless: tuple[Wireless, ...]
    nameservers: tuple[str, ...]
    search: tuple[str, ...]
    kernel: Kernel
    timezone: str
    locale: str
    keyboard: str
    keyboard_variant: str
    warnings: tuple[str, ...] = ()

    @property
    def has_boot_partition(self) -> bool:
        """GRUB writes the order of a trial boot to /boot, and cannot write to btrfs.

        With UEFI it is the EFI system partition that it writes to.
        """
        return self.root == "btrfs" and self.firmware == "bios"

    @property
    def has_secret(self) -> bool:
        return bool(self.wireless)


def decide(capture: Capture, choices: Choices, catalog: Catalog) -> Installation:
    """UsageError where a choice or the capture does not allow an installation."""
    release = _release(capture, choices)
    wired, wireless, warnings = networks.choose_interfaces(capture.network, choices.wifi_secret)
    if not wired and not wireless:
        raise _refused(
            capture,
            "no captured network interface can be configured",
            fix="--with-wifi-secret, if it is on Wi-Fi; else capture the host again",
        )
    kernel = kernel_of(capture, release, catalog)
    target = _target(capture, choices)
    system = capture.system
    return Installation(
        host=capture.host,
        captured_at=capture.at,
        hostname=_hostname(capture),
        release=release,
        firmware=_firmware(capture),
        root=choices.root,
        target=target,
        account=_account(capture, choices),
        wired=wired,
        wireless=wireless,
        nameservers=networks.addresses(capture.network.nameservers),
        search=networks.domains(capture.network.search),
        kernel=kernel,
        timezone=_fitting(_TIMEZONE, system.timezone, "Etc/UTC"),
        locale=_fitting(_LOCALE, system.locale, "en_US.UTF-8"),
        keyboard=_fitting(_KEYBOARD, system.keyboard, "us"),
        keyboard_variant=_fitting(_VARIANT, system.keyboard_variant, ""),
        warnings=(*_cautions(capture), *warnings, *kernel.warnings),
    )


def _fitting(pattern: re.Pattern[str], value: str | None, default: str) -> str:
    return value if value and pattern.fullmatch(value) else default


def _cautions(capture: Capture) -> list[str]:
    if capture.status == "safe":
        return []
    said = f"the capture of {capture.at} is {capture.status} to wipe"
    return [f"{capture.host}: {said}; see: rigops capture {capture.host}"]


def _release(capture: Capture, choices: Choices) -> Release:
    """The chosen one, else that of the host, else the newest."""
    known = releases.for_distribution(choices.distribution)
    system = capture.system
    same = [
        one
        for one in known
        if one.distribution == system.os_id and one.version == system.os_version
    ]
    if choices.release is None:
        return (same or list(known))[-1]
    for one in known:
        if one.version == choices.release:
            return one
    raise usage_error(
        message=f"no release {choices.release} of {choices.distribution}",
        key="--release",
        value=choices.release,
        accepted=" or ".join(one.version for one in known),
    )


def _hostname(capture: Capture) -> str:
    name = (capture.system.hostname or capture.host).partition(".")[0].lower()
    if not _HOSTNAME.fullmatch(name):
        raise _refused(
            capture,
            f"{name!r} is no host name that an installer accepts",
            accepted="letters a-z, digits and dashes, up to 63",
            fix="give the host such a name, then capture it again",
        )
    return name


def _firmware(capture: Capture) -> Firmware:
    if capture.system.firmware == "bios":
        return "bios"
    mounted = {mount.at for one in capture.file_systems for mount in one.mounts}
    if capture.system.firmware == "uefi" or mounted & {"/boot/efi", "/efi"}:
        return "uefi"
    raise _refused(
        capture,
        "the capture lacks whether it boots by UEFI or BIOS",
        fix=f"rigops capture {capture.host}",
    )


def _account(capture: Capture, choices: Choices) -> Account:
    if not choices.keys:
        raise usage_error(
            message="no public ssh key of yours found",
            key="--ssh-key",
            fix="--ssh-key FILE.pub; to make one: ssh-keygen -t ed25519",
        )
    for key in choices.keys:
        if not _KEY.fullmatch(key):
            raise usage_error(
                message="not a line of a public ssh key",
                key="--ssh-key",
                value=key[:60],
                accepted="ssh-ed25519 AAAA… comment",
            )
    captured = next((user for user in capture.users if user.is_login), None)
    name = captured.name if captured else choices.user
    if name == "root":
        return Account(name="root", uid=None, groups=(), keys=choices.keys)
    if not _USER.fullmatch(name):
        raise _refused(
            capture,
            f"{name!r} is no user name that an installer accepts",
            accepted="lower-case letters, digits, _ and -",
            fix="set ssh_user in the inventory",
        )
    of_old = captured.groups if captured else ()
    groups = tuple(one for one in _GROUPS if one == "sudo" or one in of_old)
    return Account(
        name=name, uid=captured.uid if captured else None, groups=groups, keys=choices.keys
    )


def _target(capture: Capture, choices: Choices) -> Target:
    disk = _named(capture, choices.disk) if choices.disk else _with_root(capture)
    _refuse_holding(capture, disk, is_named=choices.disk is not None)
    others = [one for one in capture.disks if one.name != disk.name]
    entries = disk_match.entries(disk, others)
    if choices.distribution == "ubuntu":
        entries = tuple(one for one in entries if one.property == disk_match.SERIAL)
    if not entries:
        raise _unidentified(capture, disk, others)
    return Target(
        name=disk.name, model=disk.model or "", size_bytes=disk.size_bytes, entries=entries
    )


def _with_root(capture: Capture) -> Disk:
    rooted = [disk for disk in capture.disks if "root" in disk.holds]
    if len(rooted) == 1:
        return rooted[0]
    names = ", ".join(disk.name for disk in rooted)
    raise _wrong_disk(
        capture,
        f"the root is on {len(rooted)} disks ({names})"
        if rooted
        else "the capture names no disk that holds the root",
        fix="--disk ID, the one disk to wipe and install to",
    )


def _named(capture: Capture, word: str) -> Disk:
    found = [
        disk
        for disk in capture.disks
        if word in {disk.name, disk.id_serial, disk.id_serial_short, disk.wwn}
    ]
    if len(found) == 1:
        return found[0]
    raise _wrong_disk(capture, f"{len(found) or 'no'} captured disks are {word!r}", value=word)


def _refuse_holding(capture: Capture, disk: Disk, *, is_named: bool) -> None:
    held = [one for one in disk.holds if one not in _WHO_MAY]
    if "backups" in held:
        raise _wrong_disk(
            capture,
            f"{disk.name} holds backups; an installation would wipe them",
            fix="move the backups to another disk, then capture the host again",
        )
    if held and not (is_named and "root" in disk.holds):
        fix = f"--disk {disk.name}, if it may be lost" if "root" in disk.holds else ""
        raise _wrong_disk(
            capture,
            f"{disk.name} holds {', '.join(held)}; an installation would wipe it",
            fix=fix or "choose another disk",
        )


def _unidentified(capture: Capture, disk: Disk, others: Sequence[Disk]) -> UsageError:
    twins = [
        other.name
        for other in others
        if disk.id_serial and disk.id_serial in {other.id_serial, other.id_serial_short}
    ]
    why = f"{', '.join(twins)} has the same serial number" if twins else "no serial number"
    return _wrong_disk(
        capture,
        f"{disk.name} could be taken for another disk: {why}",
        fix="install by hand, with other disks unplugged",
    )


def _refused(capture: Capture, message: str, *, accepted: str = "", fix: str) -> UsageError:
    return usage_error(
        message=f"{capture.host}: {message}", accepted=accepted, fix=fix, host=capture.host
    )


def _wrong_disk(
    capture: Capture, message: str, *, value: str | None = None, fix: str = ""
) -> UsageError:
    return usage_error(
        message=f"{capture.host}: {message}",
        key="--disk",
        value=value,
        accepted=_offered(capture.disks),
        fix=fix,
        host=capture.host,
    )


def _offered(disks: Sequence[Disk]) -> str:
    return ", ".join(f"{disk.name} ({disk.id_serial or 'no serial'})" for disk in disks)
