"""New kernel arguments, tried by one boot: an extra entry that is started exactly once.

However that boot ends, the one after it is the old one.
"""

from __future__ import annotations

from collections.abc import Iterator

from rigops.concerns.kernel_args.bootloader import grub_menu
from rigops.concerns.kernel_args.bootloader.tokens import ENDS
from rigops.concerns.kernel_args.trial_boot import grub as grub_trial
from rigops.concerns.kernel_args.trial_boot import systemd_boot as systemd_boot_trial
from rigops.concerns.kernel_args.trial_boot.conditions import Conditions
from rigops.concerns.kernel_args.trial_boot.parts import UNIT, NoTrial, Trial, watching
from rigops.probe.kernel_arguments import name, split
from rigops.record.trial_boot import MARK, without_marks

_LONGEST = 2047  # of a command line on x86; the kernel cuts off what is beyond
_WATCHDOG_SINCE = 250  # systemd.watchdog_sec=


def prepare(
    conditions: Conditions,
    *,
    running: str,
    add: tuple[str, ...],
    remove: tuple[str, ...],
    deadline_s: int,
) -> Trial | NoTrial:
    """The trial of `running` (the text of /proc/cmdline) with some arguments more and some less.

    Unless it is confirmed within `deadline_s` of its start, the host reboots to the old ones.
    """
    now = without_marks(split(running))
    if reason := next(_blockers(conditions, running, now), ""):
        return NoTrial(reason)
    is_hardware = any("software" not in identity.lower() for identity in conditions.watchdogs)
    watchdog = is_hardware and (conditions.systemd or 0) >= _WATCHDOG_SINCE
    wanted = marked(
        changed(now, add=add, remove=remove),
        has_watchdog=watchdog,
        has_dracut="dracut" in conditions.tools,
    )
    if len(" ".join(wanted)) > _LONGEST:
        return NoTrial("its kernel command line would become too long")
    back = f"the host goes back to the old ones {deadline_s} s after its start"
    notices = (
        f"new kernel arguments are tried by one boot first; unless it is confirmed, {back}",
        *_hangs(conditions, wanted, has_watchdog=watchdog),
    )
    files = watching(deadline_s)
    if conditions.loader.lower().startswith("systemd-boot"):
        return systemd_boot_trial.prepare(conditions, wanted=wanted, files=files, notices=notices)
    return grub_trial.prepare(conditions, now=now, wanted=wanted, files=files, notices=notices)


def _blockers(conditions: Conditions, running: str, now: tuple[str, ...]) -> Iterator[str]:
    if conditions.unparsed:
        yield "its bootloader could not be examined"
    if conditions.systemd is None:
        yield "it does not run systemd, which would end a bad boot"
    if "***" in running:
        yield "its kernel command line holds a secret, which rigops does not read"
    if "\\" in running:
        yield "its kernel command line holds escaped quotes, which cannot be repeated exactly"
    if grub_menu.is_recovery(now):
        yield "it runs in recovery mode"
    loader = conditions.loader.lower()
    if loader and not loader.startswith(("systemd-boot", "grub")):
        yield f"rigops cannot have {conditions.loader}, which started it, start an entry once"


def _hangs(
    conditions: Conditions, wanted: tuple[str, ...], *, has_watchdog: bool
) -> tuple[str, ...]:
    """Where no program of ours can end that boot."""
    if has_watchdog:
        found = ["should that boot hang before systemd runs, it takes a power cycle to end it"]
    else:
        found = ["should that boot hang, it takes a power cycle to end it: no hardware watchdog"]
    if any(name(one) == "panic" and one.partition("=")[2] == "0" for one in wanted):
        found.append("panic=0 is set there, so that a panic waits for a power cycle too")
    if "mkinitcpio" in conditions.tools and "dracut" not in conditions.tools:
        found.append("its initramfs waits at a prompt for a root that it does not find")
    return tuple(found)


def changed(
    arguments: tuple[str, ...], *, add: tuple[str, ...], remove: tuple[str, ...]
) -> tuple[str, ...]:
    kernels, inits = _parted(arguments)
    left = tuple(one for one in kernels if one not in remove)
    return (*left, *(one for one in dict.fromkeys(add) if one not in left), *inits)


def marked(arguments: tuple[str, ...], *, has_watchdog: bool, has_dracut: bool) -> tuple[str, ...]:
    """With what makes it come back by itself, last and behind one word. Existing settings stay."""
    kernels, inits = _parted(arguments)
    names = {name(one) for one in kernels}
    marks = ["panic=10"]
    if has_watchdog and "systemd.watchdog_device" not in names:
        marks.append("systemd.watchdog_sec=60")
    if has_dracut:
        # Its emergency shell would wait for a person at the keyboard.
        marks += ["rd.shell=0", "rd.emergency=reboot"]
    new = [one for one in marks if name(one) not in names]
    return (*kernels, MARK, f"systemd.wants={UNIT}", *new, *inits)


def _parted(arguments: tuple[str, ...]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Those of the kernel, and those of init with what separates them."""
    at = next((at for at, one in enumerate(arguments) if one in ENDS), len(arguments))
    return arguments[:at], arguments[at:]
