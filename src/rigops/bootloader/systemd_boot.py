"""systemd-boot with entries that somebody wrote, one for each kernel, as archinstall does."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rigops.bootloader import entries
from rigops.bootloader.refusal import CannotEditError
from rigops.bootloader.shell_steps import synced

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rigops.bootloader.configuration import Edit, Files


class Entries:
    title: Final = "systemd-boot"

    def arguments(self, files: Files) -> tuple[str, ...]:
        return entries.common_arguments(entries.normal(files))

    def edits(
        self, files: Files, *, add: Iterable[str] = (), remove: Iterable[str] = ()
    ) -> tuple[Edit, ...]:
        found, wanted = entries.normal(files), tuple(add)
        if wanted and not found:
            raise CannotEditError("no entry that starts Linux was found in loader/entries")
        return entries.edits(files, found, add=wanted, remove=remove)

    def command(self, files: Files, *, add: Iterable[str] = (), remove: Iterable[str] = ()) -> str:
        del add, remove
        return synced(one.path.rpartition("/")[0] for one in entries.normal(files))

    def by_hand(self, wanted: Iterable[str]) -> str:
        return (
            f"add {' '.join(wanted)} to the `options` line of each file in loader/entries of the "
            "boot partition, and reboot"
        )
