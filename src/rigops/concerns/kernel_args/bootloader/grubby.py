"""GRUB with a file for each entry (BLS), as on Fedora and its kin: changed through grubby."""

from __future__ import annotations

import re
import shlex
from typing import TYPE_CHECKING, Final

from rigops.concerns.kernel_args.bootloader import entries, grub, tokens
from rigops.concerns.kernel_args.bootloader.configuration import apart, edit
from rigops.concerns.kernel_args.bootloader.tokens import CannotEditError
from rigops.probe.boot_files import GRUB_ENVIRONMENTS, KERNEL_CMDLINE
from rigops.probe.kernel_arguments import name

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rigops.concerns.kernel_args.bootloader.configuration import Edit
    from rigops.probe.boot_files import Files

_VARIABLE = re.compile(r"^([A-Za-z_][A-Za-z0-9_]*)=(.*)$", re.MULTILINE)
_ROOM_KIB: Final = 1024

# Some versions of grubby make another kernel the default on the way.
_UPDATE: Final = """\
room /boot {room}
own=; ! grubby --help 2>&1 | grep -q -e --no-etc-grub-update || own=--no-etc-grub-update
default=$(grubby --default-kernel)
{calls}
[ "$(grubby --default-kernel)" = "$default" ] || grubby --set-default="$default"
sync /boot
"""


class Bls:
    title: Final = "GRUB with BLS entries"

    def arguments(self, files: Files) -> tuple[str, ...]:
        found = entries.normal(files)
        if not found:
            return grub.foreign_arguments(files)
        return entries.common_arguments(found, _variables(files))

    def edits(
        self, files: Files, *, add: Iterable[str] = (), remove: Iterable[str] = ()
    ) -> tuple[Edit, ...]:
        """What kernels to come get theirs from: grubby's command is for those that are there."""
        wanted, unwanted = tuple(add), tuple(remove)
        _refuse_to_replace(files, wanted)
        found: list[Edit] = []
        if grub.DEFAULTS in files:
            variable = tokens.assigned(grub.FOR_EVERY_BOOT)
            line = f'{grub.FOR_EVERY_BOOT}=""'
            found += edit(files, grub.DEFAULTS, variable, line, add=wanted, remove=unwanted)
        if KERNEL_CMDLINE in files:
            found += edit(files, KERNEL_CMDLINE, tokens.bare, add=wanted, remove=unwanted)
        return tuple(found)

    def command(self, files: Files, *, add: Iterable[str] = (), remove: Iterable[str] = ()) -> str:
        del files
        calls = [
            f"grubby --update-kernel=ALL {shlex.quote(f'--{option}={words}')} $own"
            for option, words in (("remove-args", " ".join(remove)), ("args", " ".join(add)))
            if words
        ]
        if not calls:
            return ""
        return apart(_UPDATE.format(room=_ROOM_KIB, calls="\n".join(calls)), needs_room=True)

    def by_hand(self, wanted: Iterable[str]) -> str:
        return f'run `grubby --update-kernel=ALL --args="{" ".join(wanted)}"` and reboot'


def _variables(files: Files) -> dict[str, str]:
    """GRUB's own, of which older releases have the arguments of all entries in one."""
    text = next((files[path] for path in GRUB_ENVIRONMENTS if path in files), "")
    return dict(_VARIABLE.findall(text))


def _refuse_to_replace(files: Files, wanted: Iterable[str]) -> None:
    """Grubby puts NAME=VALUE in the place of any other value of that name, whoever set it."""
    values = {name(one): one for one in wanted if "=" in one}
    for entry in entries.normal(files):
        for there in entry.arguments(_variables(files)):
            new = values.get(name(there), there)
            if new != there:
                reason = f"it has {there}, which grubby would replace by {new}: take it out first"
                raise CannotEditError(reason, entry.path)
