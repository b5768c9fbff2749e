"""Unified kernel images: the command line is inside, so that each image has to be made anew."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Final

from rigops.bootloader.shell_steps import apart

if TYPE_CHECKING:
    from collections.abc import Iterable

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
        echo "$image was made anew without" {wanted} >&2
        code=1
    fi
done
if [ ! "$one" ]; then
    echo "there is no unified kernel image with" {wanted} >&2
    code=1
fi
if [ "$code" != 0 ]; then
    echo "the unified kernel images could not be made anew: the old ones are put back" >&2
    for old in {kept}; do
        [ ! -f "$old" ] || cp "$old" "${{old#"$kept"}}"
    done
fi
sync
exit "$code"
"""


def made_anew(make: str, wanted: Iterable[str]) -> str:
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
