"""Whether the driver still answers."""

from __future__ import annotations

from typing import Final

from rigops.doctor.check import Check
from rigops.doctor.examined import Examined
from rigops.doctor.finding import Evidence, Finding, fix_by_hand
from rigops.doctor.views import driver_state
from rigops.probe.registry import SECTIONS
from rigops.probe.sections.kernel_log import SECTION as KERNEL_LOG
from rigops.probe.sections.nvidia_version import SECTION as NVIDIA_VERSION
from rigops.probe.sections.processes import SECTION as PROCESSES
from rigops.probe.sections.processes import Task
from rigops.probe.snapshot import HostSnapshot

_BUSY_PERCENT = 50
_ASKING = tuple(section for section in SECTIONS if section.asks_driver)
FIX: Final = fix_by_hand(
    "reboot (`systemctl reboot`; if it does not come to an end, the power button: processes "
    "that wait in the kernel cannot be killed). If it comes back, look at the hardware: the "
    "cards' power cables, their seat in the slots and on risers, the power supply"
)


@Check("drv.hang", needs=(NVIDIA_VERSION, PROCESSES, KERNEL_LOG, *_ASKING), fixes=("hands",))
def hang(examined: Examined) -> Finding:
    """The driver answers.

    A failure is any of these: nvidia-smi does not answer in its time; nvidia-smi or another process
    waits uninterruptibly (state D) inside the driver, seen twice, a second apart; a thread of the
    driver (nv_queue, irq/…-nvidia) uses more than half a processor; the kernel reports such tasks
    as blocked for minutes. It is ok only if all of these were checked.
    """
    snapshot = examined.snapshot
    late = [section.timeout_s for section in _ASKING if snapshot[section].timed_out]
    tasks = snapshot[PROCESSES].or_empty.tasks
    stuck = [task for task in tasks or () if task.waits_for_driver]
    busy = [
        task for task in tasks or () if task.is_driver_thread and task.cpu_percent > _BUSY_PERCENT
    ]
    reasons = [
        *([f"nvidia-smi did not answer within {max(late)} s"] if late else []),
        *([f"{_names(stuck)} cannot be ended"] if stuck else []),
        *([f"{_names(busy)} uses a whole processor"] if busy else []),
    ]
    if reasons:
        lines = tuple(Evidence(PROCESSES.name, task.line) for task in (*stuck, *busy)[:5])
        return Finding(
            "fail",
            f"the driver hangs: {', and '.join(reasons)}",
            lines,
            why="A driver that waits for a card that does not answer takes with it whatever talks "
            "to it, and no signal helps. On home machines a bad contact or power is often behind "
            "it.",
            fix=FIX,
        )
    if driver_state.loaded(examined).is_loaded is False:
        return Finding("skipped", driver_state.NOT_LOADED)
    missing = _not_collected(snapshot)
    if missing:
        return Finding("unknown", f"whether the driver hangs: {missing} was not collected")
    return Finding("ok", "nvidia-smi answers, and nothing waits for the driver for long")


def _names(tasks: list[Task]) -> str:
    return ", ".join(dict.fromkeys(f"{task.comm} ({task.pid})" for task in tasks[:3]))


def _not_collected(snapshot: HostSnapshot) -> str:
    """The first section that would show it and is missing or incomplete."""
    processes = snapshot[PROCESSES].or_empty
    # The holders come last: without them the tasks may be incomplete.
    is_read = processes.tasks is not None and processes.holders is not None
    if not is_read or processes.unparsed or not snapshot[PROCESSES].is_complete:
        return PROCESSES.name
    if not snapshot[KERNEL_LOG].is_complete:
        return KERNEL_LOG.name
    return next((one.name for one in _ASKING if snapshot[one].value is None), "")
