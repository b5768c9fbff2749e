"""New kernel arguments, tried by one boot: an extra entry that is started exactly once.

Whatever becomes of that boot, the one after it is the old one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rigops.bootloader import grub_menu, grub_trial, systemd_boot_trial
from rigops.bootloader.arguments import name, split
from rigops.bootloader.trial_marks import ENTRY_ID, MARK, changed, marked, without_marks
from rigops.bootloader.trial_parts import (
    CONFIRMED,
    LOG,
    PROGRAM,
    UNIT_FILE,
    NoTrial,
    Trial,
    TrialFile,
    watching,
)
from rigops.bootloader.trial_shell import DISARM

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rigops.bootloader.ground import TrialGround

__all__ = [
    "CONFIRMED",
    "DISARM",
    "ENTRY_ID",
    "LOG",
    "MARK",
    "PROGRAM",
    "UNIT_FILE",
    "NoTrial",
    "Trial",
    "TrialFile",
    "prepare",
    "without_marks",
]

_HIDDEN = "***"
_LONGEST = 2047  # of a command line on x86; the kernel cuts off what is beyond
_WATCHDOG_SINCE = 250  # systemd.watchdog_sec=


def prepare(
    ground: TrialGround,
    *,
    running: str,
    add: tuple[str, ...],
    remove: tuple[str, ...],
    deadline_s: int,
) -> Trial | NoTrial:
    """The trial of `running` (the text of /proc/cmdline) with some arguments more and some less.

    Nobody having confirmed it `deadline_s` after its start, it goes back by itself.
    """
    now = without_marks(split(running))
    if reason := next(_hindrances(ground, running, now), ""):
        return NoTrial(reason)
    watchdog = ground.has_hardware_watchdog and (ground.systemd or 0) >= _WATCHDOG_SINCE
    wanted = marked(
        changed(now, add=add, remove=remove),
        has_watchdog=watchdog,
        has_dracut="dracut" in ground.tools,
    )
    if len(" ".join(wanted)) > _LONGEST:
        return NoTrial("its kernel command line would become too long")
    back = f"the host goes back to the old ones {deadline_s} s after its start"
    notices = (
        f"new kernel arguments are tried by one boot first; unless it is confirmed, {back}",
        *_hangs(ground, wanted, has_watchdog=watchdog),
    )
    files = watching(deadline_s)
    if ground.loader.lower().startswith("systemd-boot"):
        return systemd_boot_trial.prepare(ground, wanted=wanted, files=files, notices=notices)
    return grub_trial.prepare(ground, now=now, wanted=wanted, files=files, notices=notices)


def _hindrances(ground: TrialGround, running: str, now: tuple[str, ...]) -> Iterator[str]:
    if ground.unread:
        yield "its bootloader could not be looked at"
    if ground.systemd is None:
        yield "it does not run systemd, which would take a bad boot back"
    if _HIDDEN in running:
        yield "its kernel command line holds a secret, which rigops does not read"
    if "\\" in running:
        yield "its kernel command line holds escaped quotes, which cannot be repeated exactly"
    if grub_menu.is_recovery(now):
        yield "it runs in recovery mode"
    loader = ground.loader.lower()
    if loader and not loader.startswith(("systemd-boot", "grub")):
        yield f"it was started by {ground.loader}, which rigops cannot tell to start an entry once"


def _hangs(ground: TrialGround, wanted: tuple[str, ...], *, has_watchdog: bool) -> tuple[str, ...]:
    """What no program of ours can bring back."""
    if has_watchdog:
        found = ["should that boot hang before systemd runs, it takes a power cycle to end it"]
    else:
        found = ["should that boot hang, it takes a power cycle to end it: no hardware watchdog"]
    if any(name(one) == "panic" and one.partition("=")[2] == "0" for one in wanted):
        found.append("panic=0 is set there, so that a panic waits for a power cycle too")
    if "mkinitcpio" in ground.tools and "dracut" not in ground.tools:
        found.append("its initramfs waits at a prompt for a root that it does not find")
    return tuple(found)
