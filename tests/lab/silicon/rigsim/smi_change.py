"""What nvidia-smi changes, with the refusals of the real one."""

from collections.abc import Callable
from typing import NamedTuple

from . import paths, settings
from .rig import Gpu
from .smi_view import View

INVALID, NO_PERMISSION = 2, 4
EARLY = "Terminating early due to previous errors."
_WARNING = "Treating as warning and moving on."


class RefusedError(Exception):
    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status


class Change(NamedTuple):
    option: str
    value: str


def _permission(gpu: Gpu, what: str) -> None:
    if not paths.is_root():
        raise RefusedError(
            f"Unable to {what} for GPU {gpu.bus_id}: Insufficient Permissions", NO_PERMISSION
        )


def _clock_permission(gpu: Gpu) -> None:
    if not paths.is_root():
        raise RefusedError(
            f"The current user does not have permission to change clocks for GPU {gpu.bus_id}.",
            NO_PERMISSION,
        )


def _without_persistence(gpu: Gpu) -> str:
    if settings.persistence(gpu):
        return ""
    return (
        f"\nWarning: persistence mode is disabled on device {gpu.bus_id}. See the Known Issues"
        " section of the nvidia-smi(1) man page for more information. Run with [--help | -h]"
        " switch to get more information on how to enable persistence mode.\n"
    )


def _unsupported(what: str, gpu: Gpu) -> str:
    return f"{what} is not supported for GPU {gpu.bus_id}.\n{_WARNING}"


def _persistence(gpu: Gpu, value: str) -> str:
    wanted = {"0": False, "DISABLED": False, "1": True, "ENABLED": True}.get(value.upper())
    if wanted is None:
        raise RefusedError(
            f"Invalid value passed for persistence mode: {value}. Valid values are 0 or 1.", INVALID
        )
    word = "Enabled" if wanted else "Disabled"
    if settings.persistence(gpu) == wanted:
        return f"Persistence mode is already {word} for GPU {gpu.bus_id}."
    _permission(gpu, "set persistence mode")
    settings.put(gpu, "persistence", "1" if wanted else "0")
    return f"{word} persistence mode for GPU {gpu.bus_id}."


def _power_limit(gpu: Gpu, value: str) -> str:
    try:
        watts = float(value)
    except ValueError:
        raise RefusedError(f"Invalid power limit value: {value}", INVALID) from None
    facts = gpu.model.watts
    if not facts.min <= watts <= facts.max:
        raise RefusedError(
            f"Provided power limit {watts:.2f} W is not a valid power limit which should be"
            f" between {facts.min:.2f} W and {facts.max:.2f} W for GPU {gpu.bus_id}",
            INVALID,
        )
    if not paths.is_root():
        raise RefusedError(
            f"Changing power management limit is not permitted for GPU: {gpu.bus_id}."
            "\nInsufficient Permissions",
            NO_PERMISSION,
        )
    before = settings.power_limit(gpu)
    settings.put(gpu, "power_limit", f"{watts:.2f}")
    return (
        f"Power limit for GPU {gpu.bus_id} was set to {watts:.2f} W from {before:.2f} W.\n"
        + _without_persistence(gpu)
    ).rstrip("\n")


def _clock_range(value: str) -> tuple[int, int]:
    try:
        numbers = [int(number) for number in value.split(",")]
        lowest, highest = numbers[0], numbers[-1]
    except ValueError:
        raise RefusedError(f"Failed to parse clocks: {value}", INVALID) from None
    if lowest > highest or len(numbers) > 2:
        raise RefusedError(f"Invalid clock range: {value}", INVALID)
    return lowest, highest


def _lock_graphics(gpu: Gpu, value: str) -> str:
    if not gpu.model.modern:
        return _unsupported("Setting locked GPU clocks", gpu)
    lowest, highest = _clock_range(value)
    _clock_permission(gpu)
    settings.put(gpu, "graphics_clock", f"{lowest},{highest}")
    return (
        f'GPU clocks set to "(gpuClkMin {lowest}, gpuClkMax {highest})" for GPU {gpu.bus_id}\n'
        + _without_persistence(gpu)
    ).rstrip("\n")


def _lock_memory(gpu: Gpu, value: str) -> str:
    if not gpu.model.locked_memory:
        return _unsupported("Setting locked memory clocks", gpu)
    lowest, highest = _clock_range(value)
    _clock_permission(gpu)
    settings.put(gpu, "memory_clock", f"{lowest},{highest}")
    return (
        f'Memory clocks set to "(memClkMin {lowest}, memClkMax {highest})" for GPU {gpu.bus_id}\n'
        + _without_persistence(gpu)
    ).rstrip("\n")


def _applications(gpu: Gpu, value: str) -> str:
    if gpu.model.applications is None:
        return _unsupported("Setting applications clocks", gpu)
    memory, _, graphics = value.partition(",")
    if not (memory.isdigit() and graphics.isdigit()):
        raise RefusedError(f"Failed to parse clocks: {value}", INVALID)
    known = int(memory) in gpu.model.memory_clocks
    if not known or int(graphics) not in gpu.model.graphics_clocks(int(memory)):
        raise RefusedError(
            f'Specified clock combination "(MEM {memory}, SM {graphics})" is not supported for'
            f" GPU {gpu.bus_id}. Run nvidia-smi -q -d SUPPORTED_CLOCKS to see list of supported"
            " clock combinations",
            INVALID,
        )
    _clock_permission(gpu)
    settings.put(gpu, "application_clock", f"{memory},{graphics}")
    return (
        f'Applications clocks set to "(MEM {memory}, SM {graphics})" for GPU {gpu.bus_id}\n'
        + _without_persistence(gpu)
    ).rstrip("\n")


def _reset(name: str, done: str) -> Callable[[Gpu, str], str]:
    def change(gpu: Gpu, _value: str) -> str:
        _clock_permission(gpu)
        settings.drop(gpu, name)
        return f"{done} for GPU {gpu.bus_id}"

    return change


CHANGES: dict[str, Callable[[Gpu, str], str]] = {
    "persistence-mode": _persistence,
    "power-limit": _power_limit,
    "lock-gpu-clocks": _lock_graphics,
    "reset-gpu-clocks": _reset("graphics_clock", "GPU clocks reset to default"),
    "lock-memory-clocks": _lock_memory,
    "reset-memory-clocks": _reset("memory_clock", "Memory clocks reset to default"),
    "applications-clocks": _applications,
    "reset-applications-clocks": _reset("application_clock", "Applications clocks reset"),
}


def apply(changes: list[Change], views: list[View]) -> tuple[list[str], int]:
    """Lines to print and the exit status; the first refusal ends it."""
    lines: list[str] = []
    try:
        for change in changes:
            for view in views:
                lines.append(CHANGES[change.option](view.gpu, change.value))  # noqa: PERF401 - # those before a refusal are printed
    except RefusedError as refusal:
        return [*lines, str(refusal), EARLY], refusal.status
    return [*lines, "All done."], 0
