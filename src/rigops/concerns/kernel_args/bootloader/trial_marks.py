"""The command line of a trial boot: what runs now, changed, and what makes it come back by itself.

Arguments of the trial alone come last and begin with one word, so that they can be cut off
again.
"""

from __future__ import annotations

from typing import Final

from rigops.concerns.kernel_args.bootloader.tokens import ENDS
from rigops.probe.kernel_arguments import name
from rigops.record.trial_boot import MARK

ENTRY_ID: Final = "rigops-trial"
UNIT: Final = f"{ENTRY_ID}.service"


def changed(
    arguments: tuple[str, ...], *, add: tuple[str, ...], remove: tuple[str, ...]
) -> tuple[str, ...]:
    kernels, inits = _parted(arguments)
    left = tuple(one for one in kernels if one not in remove)
    return (*left, *(one for one in dict.fromkeys(add) if one not in left), *inits)


def marked(arguments: tuple[str, ...], *, has_watchdog: bool, has_dracut: bool) -> tuple[str, ...]:
    """Existing settings stay."""
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
