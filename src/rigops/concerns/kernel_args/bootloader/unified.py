"""Unified kernel images, and /etc/kernel/cmdline, which they get their command line from.

A change of the command line means that each image is rebuilt.
"""

from __future__ import annotations

import re
import shlex
from typing import Final

from rigops.concerns.kernel_args.bootloader import entries, grub, shell, tokens
from rigops.concerns.kernel_args.bootloader.entries import LoaderEntry
from rigops.concerns.kernel_args.bootloader.shell import apart, synced
from rigops.concerns.kernel_args.bootloader.tokens import (
    ByHand,
    CannotEditError,
    Edit,
    Finder,
    Words,
    edit,
    exact,
)
from rigops.probe import kernel_arguments as arguments
from rigops.probe.boot_files import (
    CMDLINE_DROP_INS,
    KERNEL_CMDLINE,
    KERNEL_INSTALL,
    MKINITCPIO_PRESETS,
    RUNNING,
    VENDOR_CMDLINE,
    Files,
)
from rigops.record.trial_boot import without_marks

_DROP_IN: Final = f"{CMDLINE_DROP_INS}/99-rigops.conf"
_OF_ONE_BOOT: Final = frozenset({"BOOT_IMAGE", "initrd"})
_FOLDERS: Final = ("/efi/EFI/Linux", "/boot/efi/EFI/Linux", "/boot/EFI/Linux")
_ROOM_KIB: Final = 4096
_IMAGE: Final = re.compile(r"(?:/[^/]+)*/(?P<token>[^/]+)/(?P<version>[^/]+)/linux")

# Their makers write over the old ones, so copies of these stay until the new ones were checked.
_STEPS: Final = """\
kept=$(mktemp -d /var/tmp/rigops-images.XXXXXX)
trap 'rm -rf "$kept"' EXIT
for image in {images}; do
    [ -f "$image" ] || continue
    room "${{image%/*}}" {room}
    mkdir -p "$kept${{image%/*}}"
    cp -p "$image" "$kept$image"
done
code=0
{make}
has_them() {{ {seen}; }} # IMAGE
one=
for image in {images}; do
    [ -f "$kept$image" ] || continue
    if has_them "$image"; then
        one=$image
    elif ! cmp -s "$image" "$kept$image"; then # the others are of some other system
        echo "$image was rebuilt without" {wanted} >&2
        code=1
    fi
done
if [ ! "$one" ]; then
    echo "there is no unified kernel image with" {wanted} >&2
    code=1
fi
if [ "$code" != 0 ]; then
    echo "the unified kernel images could not be rebuilt: the old ones are restored" >&2
    for old in {kept}; do
        [ ! -f "$old" ] || cp "$old" "${{old#"$kept"}}"
    done
fi
sync
exit "$code"
"""

# Kernels that have no image there were not installed this way.
_KERNEL_INSTALL: Final = """\
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


class Mkinitcpio(ByHand):
    """Arch, and archinstall where unified kernels were chosen."""

    title: Final = "unified kernels of mkinitcpio"
    how = (
        f"add {{}} to {KERNEL_CMDLINE} (where there is neither it nor a file in "
        f"{CMDLINE_DROP_INS}, it begins as the running command line), run `mkinitcpio -P` and "
        "reboot"
    )

    @staticmethod
    def makes_unified(files: Files) -> bool:
        return any(name.endswith(("_uki", "_efi_image")) for _, name, _ in _preset_settings(files))

    def arguments(self, files: Files) -> tuple[str, ...]:
        """One file, and then all that is in its drop-ins; the running ones where nothing is."""
        base = next((one for one in (KERNEL_CMDLINE, VENDOR_CMDLINE) if one in files), None)
        paths = [one for one in (base, *files.below(CMDLINE_DROP_INS, ".conf")) if one is not None]
        if not paths and RUNNING in files:
            return tokens.bare(_running_cmdline(files)).arguments
        return tuple(one for path in paths for one in tokens.commented(files[path]).arguments)

    def edits(self, files: Files, *, add: Words = (), remove: Words = ()) -> tuple[Edit, ...]:
        for path, name, value in _preset_settings(files):
            if name.endswith("_cmdline") or (name.endswith("_options") and "cmdline" in value):
                raise CannotEditError(f"by {name} the arguments come from another place", path)
        if KERNEL_CMDLINE in files or not files.below(CMDLINE_DROP_INS, ".conf"):
            return _cmdline_edits(files, tokens.commented, add=add, remove=remove)
        # Where the owner has drop-ins and no file, a new file would repeat or outrank them.
        before = exact(files, _DROP_IN) if _DROP_IN in files else None
        ours = [one for one in tokens.commented(before or "").arguments if one not in remove]
        after = f"{' '.join(dict.fromkeys((*ours, *add)))}\n" if ours or add else None
        return (Edit(_DROP_IN, before, after),) if after != before else ()

    def command(self, files: Files, *, add: Words = (), remove: Words = ()) -> str:
        del files, remove
        return _rebuilt("mkinitcpio -P || code=1", add)


class KernelInstall(ByHand):
    """Entries or unified kernels that kernel-install makes from /etc/kernel/cmdline.

    An existing entry is edited in its place: kernel-install would write the kernel over itself, on
    a file system without a journal.
    """

    title: Final = "systemd-boot with kernel-install"
    how = (
        f"add {{}} to {KERNEL_CMDLINE} (where there is none, it begins as the running command "
        "line), run `kernel-install add VERSION /boot/vmlinuz-VERSION` for each kernel, and reboot"
    )

    @staticmethod
    def makes_unified(files: Files) -> bool:
        values: dict[str, str] = {}
        path = next((one for one in KERNEL_INSTALL if one in files), None)
        if path is not None:
            grub.source(files[path], values)
        return values.get("layout") == "uki"

    @staticmethod
    def made(entry: LoaderEntry) -> bool:
        """Whether kernel-install wrote it: by where its kernel is, and by its name."""
        shape = _IMAGE.fullmatch(entry.linux)
        if shape is None:
            return False
        return entry.stem.partition("+")[0] == f"{shape['token']}-{shape['version']}"

    def arguments(self, files: Files) -> tuple[str, ...]:
        found = entries.normal(files)
        if found:
            return entries.common_arguments(found)
        path = next((one for one in (KERNEL_CMDLINE, VENDOR_CMDLINE) if one in files), None)
        if path is not None:
            return arguments.split(files[path])
        return arguments.split(_running_cmdline(files)) if RUNNING in files else ()

    def edits(self, files: Files, *, add: Words = (), remove: Words = ()) -> tuple[Edit, ...]:
        found = entries.normal(files)
        start = " ".join(arguments.split(found[-1].options)) if found else None
        if add and KERNEL_CMDLINE not in files and found:
            exact(files, found[-1].path)
        return (
            *_cmdline_edits(files, tokens.bare, start, add=add, remove=remove),
            *entries.edits(found, files, add=add, remove=remove),
        )

    def command(self, files: Files, *, add: Words = (), remove: Words = ()) -> str:
        del remove
        found = entries.normal(files)
        if found:
            return synced(one.path.rpartition("/")[0] for one in found)
        return _rebuilt(_KERNEL_INSTALL, add)


def _preset_settings(files: Files) -> list[tuple[str, str, str]]:
    """Path, name and value."""
    return [
        (path, one.name, "".join(unit.letter for unit in one.value.units))
        for path in files.below(MKINITCPIO_PRESETS, ".preset")
        for one in shell.read(files[path]).assignments
        if one.value.units
    ]


def _cmdline_edits(
    files: Files, find: Finder, start: str | None = None, *, add: Words, remove: Words
) -> tuple[Edit, ...]:
    """`start`: what a new file begins with, where it is known better than from the running kernel.

    A file of nothing but ours would take the root file system away from the next kernel.
    """
    if KERNEL_CMDLINE in files:
        return edit(files, KERNEL_CMDLINE, find, add=add, remove=remove)
    if not add:
        return ()
    has_vendors = VENDOR_CMDLINE in files
    text = exact(files, VENDOR_CMDLINE) if has_vendors else f"{start or _running_cmdline(files)}\n"
    try:
        return (Edit(KERNEL_CMDLINE, None, tokens.added(text, find, add)),)
    except CannotEditError as error:
        raise CannotEditError(error.reason, KERNEL_CMDLINE) from error


def _running_cmdline(files: Files) -> str:
    """Of this boot, without what only its bootloader or a trial put there."""
    if RUNNING not in files:
        raise CannotEditError(f"there is none, and {RUNNING} was not read", KERNEL_CMDLINE)
    found = without_marks(arguments.split(exact(files, RUNNING)))
    return " ".join(one for one in found if arguments.name(one) not in _OF_ONE_BOOT)


def _rebuilt(make: str, wanted: Words) -> str:
    """`make` is shell that sets `code` to another number than 0 where it fails."""
    seen = (f'grep -qaF -e {shlex.quote(one)} "$1"' for one in wanted)
    steps = _STEPS.format(
        images=" ".join(f"{folder}/*.efi" for folder in _FOLDERS),
        kept=" ".join(f'"$kept"{folder}/*.efi' for folder in _FOLDERS),
        room=_ROOM_KIB,
        make=make.strip(),
        wanted=shlex.join(wanted),
        seen=" && ".join(seen) or "true",
    )
    return apart(steps, needs_room=True)
