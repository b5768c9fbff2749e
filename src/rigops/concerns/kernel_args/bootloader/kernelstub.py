"""systemd-boot as Pop!_OS has it: kernelstub writes the entries, and keeps the arguments itself."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Final

from rigops.concerns.kernel_args.bootloader import entries
from rigops.concerns.kernel_args.bootloader.configuration import apart

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rigops.concerns.kernel_args.bootloader.configuration import Edit
    from rigops.probe.boot_files import Files

_CURRENT: Final = "-current"
_ROOM_KIB: Final = 1024


class Kernelstub:
    title: Final = "systemd-boot with kernelstub"

    def arguments(self, files: Files) -> tuple[str, ...]:
        found = entries.normal(files)
        current = [one for one in found if one.stem.endswith(_CURRENT)]
        return entries.common_arguments(current or found)

    def edits(
        self, files: Files, *, add: Iterable[str] = (), remove: Iterable[str] = ()
    ) -> tuple[Edit, ...]:
        """None: its own command changes both its configuration and the entry."""
        del files, add, remove
        return ()

    def command(self, files: Files, *, add: Iterable[str] = (), remove: Iterable[str] = ()) -> str:
        wanted, unwanted = tuple(add), tuple(remove)
        folders = {one.path.partition("/loader/")[0] for one in entries.normal(files)}
        steps = [f"room {shlex.quote(folder)} {_ROOM_KIB}" for folder in sorted(folders)]
        if unwanted:
            steps.append(shlex.join(("kernelstub", "--delete-options", " ".join(unwanted))))
        if wanted:
            steps.append(shlex.join(("kernelstub", "--add-options", " ".join(wanted))))
        return apart("\n".join((*steps, "sync")), needs_room=True) if wanted or unwanted else ""

    def by_hand(self, wanted: Iterable[str]) -> str:
        return f'run `kernelstub --add-options "{" ".join(wanted)}"` and reboot'
