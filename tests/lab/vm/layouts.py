"""How the disk of a machine is divided: what GRUB can write to decides what it can do at boot."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from uuid import uuid4

from tests.lab.errors import LabError

SUBVOLUME = "@rootfs"  # the name that Debian's installer gives it
_MIB = 1 << 20
_DISK_MIB = 8192
_BIOS_BOOT = "21686148-6449-6E6F-744E-656564454649"
_LINUX = "0FC63DAF-8483-4772-8E79-3D69D8477DE4"
_ESP = "C12A7328-F81F-11D2-BA4B-00A0C93EC93B"


@dataclass(frozen=True)
class FileSystem:
    where: str
    kind: str
    start: int  # bytes
    size: int
    part_type: str
    options: str = "defaults"
    check: int = 0
    uuid: str = field(default_factory=lambda: str(uuid4()))

    @property
    def fstab(self) -> str:
        return f"UUID={self.uuid} {self.where} {self.kind} {self.options} 0 {self.check}\n"


@dataclass(frozen=True)
class Layout:
    """`beside`: what is not in the root file system. `home`: its subvolume at /home, or none."""

    root: FileSystem
    beside: tuple[FileSystem, ...]
    size: int = _DISK_MIB * _MIB
    subvolume: str = SUBVOLUME
    home: str = ""

    @property
    def table(self) -> str:
        """For sfdisk; the first partition is where GRUB keeps its core image."""
        lines = ["label: gpt", f"start=1MiB, size=1MiB, type={_BIOS_BOOT}"]
        for one in (*self.beside, self.root):
            start, size = one.start // _MIB, one.size // _MIB
            lines.append(f"start={start}MiB, size={size}MiB, type={one.part_type}")
        return "\n".join(lines) + "\n"

    @property
    def fstab(self) -> str:
        home = replace(self.root, where="/home", options=f"defaults,subvol={self.home}")
        every = (self.root, *([home] if self.home else []), *self.beside)
        return "".join(one.fstab for one in every)


UEFI = "uefi"
NAMES = ("ext4", "home", "btrfs", "esp", UEFI)


def layout(name: str) -> Layout:
    """ext4: /boot on ext4; home: and @home; btrfs: /boot in the root; esp: and a FAT ESP.

    uefi: as home, with an ESP that a UEFI starts from.
    """
    boot = FileSystem("/boot", "ext4", 2 * _MIB, 512 * _MIB, _LINUX, check=2)
    if name == "ext4":
        return _rooted(boot)
    if name == "btrfs":
        return _rooted()
    if name == "home":  # as rigops autoinstall has installers make it
        return _rooted(boot, subvolume="@", home="@home")
    if name == "esp":
        return _rooted(_esp())
    if name == UEFI:
        esp = _esp()
        boot = replace(boot, start=esp.start + esp.size)
        return _rooted(esp, boot, subvolume="@", home="@home")
    raise LabError(f"layout={name}: there are {', '.join(NAMES)}")


def _esp() -> FileSystem:
    number = uuid4().hex[:8].upper()
    return FileSystem(
        "/boot/efi", "vfat", 2 * _MIB, 256 * _MIB, _ESP, "umask=0077", 1,
        f"{number[:4]}-{number[4:]}",
    )  # fmt: skip


def _rooted(*beside: FileSystem, subvolume: str = SUBVOLUME, home: str = "") -> Layout:
    start = 2 * _MIB + sum(one.size for one in beside)
    size = (_DISK_MIB - 1) * _MIB - start
    root = FileSystem("/", "btrfs", start, size, _LINUX, f"defaults,subvol={subvolume}")
    return Layout(root, beside, subvolume=subvolume, home=home)
