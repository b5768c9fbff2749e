"""Entries or unified kernels that kernel-install makes from /etc/kernel/cmdline."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from rigops.concerns.kernel_args.bootloader import entries, grub, tokens, unified
from rigops.concerns.kernel_args.bootloader.configuration import exact, synced
from rigops.probe import kernel_arguments as arguments
from rigops.probe.boot_files import KERNEL_CMDLINE, KERNEL_INSTALL, RUNNING, VENDOR_CMDLINE

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rigops.concerns.kernel_args.bootloader.configuration import Edit
    from rigops.concerns.kernel_args.bootloader.entries import Entry
    from rigops.probe.boot_files import Files

_IMAGE: Final = re.compile(r"(?:/[^/]+)*/(?P<token>[^/]+)/(?P<version>[^/]+)/linux")

# Kernels that have no image there were not installed this way.
_MAKE: Final = """\
for folder in /lib/modules/*; do
    version=${folder##*/}
    has_image=
    for image in /efi/EFI/Linux/*.efi /boot/efi/EFI/Linux/*.efi /boot/EFI/Linux/*.efi; do
        case $image in
            *-"$version".efi | *-"$version"+*.efi) has_image=yes ;;
        esac
    done
    [ "$has_image" ] || continue
    kernel=/boot/vmlinuz-$version
    [ -f "$kernel" ] || kernel=$folder/vmlinuz
    set -- "$version" "$kernel"
    # Debian's newer releases find it by themselves.
    [ -e /usr/lib/kernel/install.d/55-initrd.install ] || [ ! -f "/boot/initrd.img-$version" ] ||
        set -- "$@" "/boot/initrd.img-$version"
    kernel-install add "$@" || code=1
done
"""


class KernelInstall:
    """An entry that is there is edited in its place.

    Making it anew would write the kernel over itself on a file system without a journal.
    """

    title: Final = "systemd-boot with kernel-install"

    def arguments(self, files: Files) -> tuple[str, ...]:
        found = entries.normal(files)
        if found:
            return entries.common_arguments(found)
        path = next((one for one in (KERNEL_CMDLINE, VENDOR_CMDLINE) if one in files), None)
        if path is not None:
            return arguments.split(files[path])
        return arguments.split(unified.running_cmdline(files)) if RUNNING in files else ()

    def edits(
        self, files: Files, *, add: Iterable[str] = (), remove: Iterable[str] = ()
    ) -> tuple[Edit, ...]:
        found, wanted, unwanted = entries.normal(files), tuple(add), tuple(remove)
        start = " ".join(arguments.split(found[-1].options)) if found else None
        if wanted and KERNEL_CMDLINE not in files and found:
            exact(files, found[-1].path)
        return (
            *unified.cmdline_edits(files, tokens.bare, start, add=wanted, remove=unwanted),
            *entries.edits(files, found, add=wanted, remove=unwanted),
        )

    def command(self, files: Files, *, add: Iterable[str] = (), remove: Iterable[str] = ()) -> str:
        del remove
        found = entries.normal(files)
        if found:
            return synced(one.path.rpartition("/")[0] for one in found)
        return unified.rebuilt(_MAKE, add)

    def by_hand(self, wanted: Iterable[str]) -> str:
        return (
            f"add {' '.join(wanted)} to {KERNEL_CMDLINE} (where there is none, it begins as the "
            "running command line), run `kernel-install add VERSION /boot/vmlinuz-VERSION` for "
            "each kernel, and reboot"
        )


def makes_unified(files: Files) -> bool:
    values: dict[str, str] = {}
    for path in KERNEL_INSTALL:
        if path in files:
            grub.source(files[path], values)
            break
    return values.get("layout") == "uki"


def made(entry: Entry) -> bool:
    """Whether kernel-install wrote it: by where its kernel is, and by its name."""
    shape = _IMAGE.fullmatch(entry.linux)
    if shape is None:
        return False
    return entry.stem.partition("+")[0] == f"{shape['token']}-{shape['version']}"
