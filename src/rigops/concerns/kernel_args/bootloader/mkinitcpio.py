"""Unified kernels that mkinitcpio makes: Arch, and archinstall where it was asked for them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rigops.concerns.kernel_args.bootloader import shell, tokens, unified
from rigops.concerns.kernel_args.bootloader.configuration import Edit, exact
from rigops.concerns.kernel_args.bootloader.tokens import CannotEditError
from rigops.probe.boot_files import (
    CMDLINE_DROP_INS,
    KERNEL_CMDLINE,
    MKINITCPIO_PRESETS,
    RUNNING,
    VENDOR_CMDLINE,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rigops.probe.boot_files import Files

DROP_IN: Final = f"{CMDLINE_DROP_INS}/99-rigops.conf"
_IMAGES: Final = ("_uki", "_efi_image")


class Mkinitcpio:
    title: Final = "unified kernels of mkinitcpio"

    def arguments(self, files: Files) -> tuple[str, ...]:
        """One file, and then all that is in its drop-ins; the running ones where nothing is."""
        base = next((one for one in (KERNEL_CMDLINE, VENDOR_CMDLINE) if one in files), None)
        paths = [one for one in (base, *files.below(CMDLINE_DROP_INS, ".conf")) if one is not None]
        if not paths and RUNNING in files:
            return tokens.bare(unified.running_cmdline(files)).arguments
        return tuple(one for path in paths for one in tokens.commented(files[path]).arguments)

    def edits(
        self, files: Files, *, add: Iterable[str] = (), remove: Iterable[str] = ()
    ) -> tuple[Edit, ...]:
        _refuse_other_sources(files)
        wanted, unwanted = tuple(add), tuple(remove)
        if KERNEL_CMDLINE not in files and files.below(CMDLINE_DROP_INS, ".conf"):
            return _own_drop_in(files, wanted, unwanted)
        return unified.cmdline_edits(files, tokens.commented, add=wanted, remove=unwanted)

    def command(self, files: Files, *, add: Iterable[str] = (), remove: Iterable[str] = ()) -> str:
        del files, remove
        return unified.rebuilt("mkinitcpio -P || code=1", add)

    def by_hand(self, wanted: Iterable[str]) -> str:
        return (
            f"add {' '.join(wanted)} to {KERNEL_CMDLINE} (where there is neither it nor a file in "
            f"{CMDLINE_DROP_INS}, it begins as the running command line), run `mkinitcpio -P` "
            "and reboot"
        )


def makes_unified(files: Files) -> bool:
    return any(name.endswith(_IMAGES) for _, name, _ in _settings(files))


def _settings(files: Files) -> list[tuple[str, str, str]]:
    """What presets set: path, name and value."""
    return [
        (path, one.name, "".join(unit.letter for unit in one.value.units))
        for path in files.below(MKINITCPIO_PRESETS, ".preset")
        for one in shell.read(files[path]).assignments
        if one.value.units
    ]


def _refuse_other_sources(files: Files) -> None:
    for path, name, value in _settings(files):
        if name.endswith("_cmdline") or (name.endswith("_options") and "cmdline" in value):
            raise CannotEditError(f"by {name} the arguments come from another place", path)


def _own_drop_in(files: Files, add: tuple[str, ...], remove: tuple[str, ...]) -> tuple[Edit, ...]:
    """Where the owner has drop-ins and no file, a new file would repeat or outrank them."""
    before = exact(files, DROP_IN) if DROP_IN in files else None
    ours = [one for one in tokens.commented(before or "").arguments if one not in remove]
    ours = list(dict.fromkeys((*ours, *add)))
    after = f"{' '.join(ours)}\n" if ours else None
    return (Edit(DROP_IN, before, after),) if after != before else ()
