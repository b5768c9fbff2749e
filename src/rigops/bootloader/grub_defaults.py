"""GRUB without drop-ins, as on Arch: one file that belongs to the machine's owner."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rigops.bootloader import grub
from rigops.bootloader.configuration import Files, edit
from rigops.bootloader.tokens import assigned

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rigops.bootloader.configuration import Edit


class Defaults:
    title: Final = "GRUB without drop-ins"

    def arguments(self, files: Files) -> tuple[str, ...]:
        return grub.foreign_arguments(_defaults(files))

    def edits(
        self, files: Files, *, add: Iterable[str] = (), remove: Iterable[str] = ()
    ) -> tuple[Edit, ...]:
        return edit(
            files,
            grub.DEFAULTS,
            assigned(grub.FOR_NORMAL_BOOTS),
            f'{grub.FOR_NORMAL_BOOTS}=""',
            add=add,
            remove=remove,
        )

    def command(self, files: Files, *, add: Iterable[str] = (), remove: Iterable[str] = ()) -> str:
        del files, add, remove
        return grub.REGENERATE

    def by_hand(self, wanted: Iterable[str]) -> str:
        return (
            f"add {' '.join(wanted)} to {grub.FOR_NORMAL_BOOTS} in {grub.DEFAULTS}, run "
            "`grub-mkconfig -o /boot/grub/grub.cfg` (where it is called so, `grub2-mkconfig -o "
            "/boot/grub2/grub.cfg`) and reboot"
        )


def _defaults(files: Files) -> dict[str, str]:
    return {grub.DEFAULTS: files[grub.DEFAULTS]} if grub.DEFAULTS in files else {}
