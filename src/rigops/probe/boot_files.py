"""Where bootloaders have their configuration, and the texts that were read there. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import field
from typing import Final

from rigops.dataclass import dataclass

RUNNING: Final = "/proc/cmdline"

GRUB_MENUS: Final = ("/boot/grub/grub.cfg", "/boot/grub2/grub.cfg")
GRUB_ENVIRONMENTS: Final = ("/boot/grub2/grubenv", "/boot/grub/grubenv")
KERNELSTUB: Final = "/etc/kernelstub/configuration"
KERNEL_CMDLINE: Final = "/etc/kernel/cmdline"
VENDOR_CMDLINE: Final = "/usr/lib/kernel/cmdline"
KERNEL_INSTALL: Final = ("/etc/kernel/install.conf", "/usr/lib/kernel/install.conf")
MKINITCPIO_PRESETS: Final = "/etc/mkinitcpio.d"
CMDLINE_DROP_INS: Final = "/etc/cmdline.d"
LOADER_ENTRIES: Final = (
    "/boot/loader/entries", "/boot/efi/loader/entries", "/efi/loader/entries"
)  # fmt: skip
LOADER_CONFS: Final = tuple(
    f"{folder.removesuffix('/entries')}/loader.conf" for folder in LOADER_ENTRIES
)

# Files that show another way to boot, or another tool for the configuration.
LIMINE: Final = tuple(
    f"{folder}/limine.conf"
    for folder in ("/boot", "/boot/limine", "/boot/EFI/limine", "/boot/efi/EFI/limine",
                   "/efi/EFI/limine", "/efi/limine", "/boot/EFI/BOOT")
)  # fmt: skip
REFIND: Final = (
    "/boot/refind_linux.conf", "/boot/EFI/refind/refind.conf", "/boot/efi/EFI/refind/refind.conf",
    "/efi/EFI/refind/refind.conf",
)  # fmt: skip
EXTLINUX: Final = ("/boot/extlinux/extlinux.conf",)
OSTREE: Final = ("/run/ostree-booted",)
NIXOS: Final = ("/etc/NIXOS",)
PROXMOX: Final = ("/etc/kernel/proxmox-boot-uuids",)
TRACES: Final = (
    *GRUB_MENUS, *LOADER_CONFS, *LIMINE, *REFIND, *EXTLINUX, *OSTREE, *NIXOS, *PROXMOX
)  # fmt: skip


@dataclass(frozen=True)
class Files(Mapping[str, str]):
    """Texts by path. `inexact`: what was hidden or lost while reading, so never to be edited."""

    texts: Mapping[str, str] = field(default_factory=dict)
    inexact: frozenset[str] = frozenset()

    def __getitem__(self, path: str) -> str:
        return self.texts[path]

    def __iter__(self) -> Iterator[str]:
        return iter(self.texts)

    def __len__(self) -> int:
        return len(self.texts)

    def below(self, folder: str, ending: str) -> tuple[str, ...]:
        """Paths of files right in this folder, in their order."""
        return tuple(
            sorted(
                path
                for path in self.texts
                if path.rpartition("/")[0] == folder and path.endswith(ending)
            )
        )
