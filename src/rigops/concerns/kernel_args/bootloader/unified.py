"""Unified kernel images, and /etc/kernel/cmdline, which they get their command line from.

A change of the command line means that each image is made anew.
"""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Final

from rigops.concerns.kernel_args.bootloader import tokens, trial_marks
from rigops.concerns.kernel_args.bootloader.configuration import Edit, apart, edit, exact
from rigops.concerns.kernel_args.bootloader.tokens import CannotEditError
from rigops.probe import kernel_arguments as arguments
from rigops.probe.boot_files import KERNEL_CMDLINE, RUNNING, VENDOR_CMDLINE

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rigops.concerns.kernel_args.bootloader.tokens import Finder
    from rigops.probe.boot_files import Files

_OF_ONE_BOOT: Final = frozenset({"BOOT_IMAGE", "initrd"})
FOLDERS: Final = ("/efi/EFI/Linux", "/boot/efi/EFI/Linux", "/boot/EFI/Linux")
_ROOM_KIB: Final = 4096

# Their makers write over the old ones, so that these are kept until the new ones are seen.
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


def cmdline_edits(
    files: Files,
    find: Finder,
    start: str | None = None,
    *,
    add: Iterable[str] = (),
    remove: Iterable[str] = (),
) -> tuple[Edit, ...]:
    """`start`: what a new file begins with, where it is known better than from the running kernel.

    A file of nothing but ours would take the root file system away from the next kernel.
    """
    wanted = tuple(add)
    if KERNEL_CMDLINE in files:
        return edit(files, KERNEL_CMDLINE, find, add=wanted, remove=remove)
    if not wanted:
        return ()
    has_vendors = VENDOR_CMDLINE in files
    text = exact(files, VENDOR_CMDLINE) if has_vendors else f"{start or running_cmdline(files)}\n"
    try:
        return (Edit(KERNEL_CMDLINE, None, tokens.added(text, find, wanted)),)
    except CannotEditError as error:
        raise CannotEditError(error.reason, KERNEL_CMDLINE) from error


def running_cmdline(files: Files) -> str:
    """Of this boot, without what only its bootloader or a trial put there."""
    if RUNNING not in files:
        raise CannotEditError(f"there is none, and {RUNNING} was not read", KERNEL_CMDLINE)
    found = trial_marks.without_marks(arguments.split(exact(files, RUNNING)))
    return " ".join(one for one in found if arguments.name(one) not in _OF_ONE_BOOT)


def rebuilt(make: str, wanted: Iterable[str]) -> str:
    """`make` is shell that sets `code` to another number than 0 where it fails."""
    images = " ".join(f"{folder}/*.efi" for folder in FOLDERS)
    arguments = tuple(wanted)
    seen = (f'grep -qaF -e {shlex.quote(one)} "$1"' for one in arguments)
    steps = _STEPS.format(
        images=images,
        kept=" ".join(f'"$kept"{folder}/*.efi' for folder in FOLDERS),
        room=_ROOM_KIB,
        make=make.strip(),
        wanted=shlex.join(arguments),
        seen=" && ".join(seen) or "true",
    )
    return apart(steps, needs_room=True)
