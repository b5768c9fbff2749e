"""/etc/kernel/cmdline: what tools that make boot entries and unified kernels put into them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rigops.bootloader import arguments, tokens, trial_marks
from rigops.bootloader.configuration import RUNNING, Edit, edit
from rigops.bootloader.refusal import CannotEditError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rigops.bootloader.configuration import Files
    from rigops.bootloader.tokens import Finder

CMDLINE: Final = "/etc/kernel/cmdline"
VENDOR: Final = "/usr/lib/kernel/cmdline"
_OF_ONE_BOOT: Final = frozenset({"BOOT_IMAGE", "initrd"})


def edits(
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
    if CMDLINE in files:
        return edit(files, CMDLINE, find, add=wanted, remove=remove)
    if not wanted:
        return ()
    text = files.exact(VENDOR) if VENDOR in files else f"{start or running(files)}\n"
    try:
        return (Edit(CMDLINE, None, tokens.added(text, find, wanted)),)
    except CannotEditError as error:
        raise CannotEditError(error.reason, CMDLINE) from error


def running(files: Files) -> str:
    """Of this boot, without what only its bootloader or a trial put there."""
    if RUNNING not in files:
        raise CannotEditError(f"there is none, and {RUNNING} was not read", CMDLINE)
    found = trial_marks.without_marks(arguments.split(files.exact(RUNNING)))
    return " ".join(one for one in found if arguments.name(one) not in _OF_ONE_BOOT)
