"""The command line of a trial boot: what runs now, changed, and what makes it come back by itself.

What is only there for the trial comes last and begins with one word, so that it can be cut off
again.
"""

from __future__ import annotations

from typing import Final

from rigops.probe.kernel_arguments import name

MARK: Final = "rigops.trial"
ENTRY_ID: Final = "rigops-trial"
UNIT: Final = f"{ENTRY_ID}.service"

_PANIC: Final = "panic"
_WANTS: Final = "systemd.wants"
_WATCHDOG: Final = "systemd.watchdog_sec"
_WATCHDOG_DEVICE: Final = "systemd.watchdog_device"
_DRACUT_SHELL: Final = "rd.shell"
_DRACUT_EMERGENCY: Final = "rd.emergency"
_NAMES: Final = frozenset({MARK, _PANIC, _WANTS, _WATCHDOG, _DRACUT_SHELL, _DRACUT_EMERGENCY})
_ENDS: Final = frozenset({"--", "---"})  # what follows is for init, and not for the kernel


def without_marks(arguments: tuple[str, ...]) -> tuple[str, ...]:
    """A trial boot's command line as its permanent twin would be."""
    if MARK not in arguments:
        return arguments
    begin = arguments.index(MARK)
    end = begin
    while end < len(arguments) and name(arguments[end]) in _NAMES:
        end += 1
    return arguments[:begin] + arguments[end:]


def changed(
    arguments: tuple[str, ...], *, add: tuple[str, ...], remove: tuple[str, ...]
) -> tuple[str, ...]:
    kernels, inits = _parted(arguments)
    kept = tuple(one for one in kernels if one not in remove)
    return (*kept, *(one for one in dict.fromkeys(add) if one not in kept), *inits)


def marked(arguments: tuple[str, ...], *, has_watchdog: bool, has_dracut: bool) -> tuple[str, ...]:
    """What somebody has set already stays as they want it."""
    kernels, inits = _parted(arguments)
    names = {name(one) for one in kernels}
    marks = [MARK, f"{_WANTS}={UNIT}"]
    if _PANIC not in names:
        marks.append(f"{_PANIC}=10")
    if has_watchdog and names.isdisjoint({_WATCHDOG, _WATCHDOG_DEVICE}):
        marks.append(f"{_WATCHDOG}=60")
    if has_dracut:
        # Its emergency shell would wait for somebody at the keyboard.
        marks += [
            f"{one}={value}"
            for one, value in ((_DRACUT_SHELL, "0"), (_DRACUT_EMERGENCY, "reboot"))
            if one not in names
        ]
    return (*kernels, *marks, *inits)


def _parted(arguments: tuple[str, ...]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    at = next((at for at, one in enumerate(arguments) if one in _ENDS), len(arguments))
    return arguments[:at], arguments[at:]
