"""What nvidia-smi changes on a card. Text files in /run: a power cycle loses them all."""

import os
import shutil
from pathlib import Path

from . import paths
from .rig import Gpu, Rig

_FORGOTTEN = ("power_limit", "graphics_clock", "memory_clock", "application_clock")


def _file(gpu: Gpu, name: str) -> Path:
    return paths.SETTINGS / str(gpu.number) / name


def get(gpu: Gpu, name: str) -> str:
    return paths.read(_file(gpu, name))


def put(gpu: Gpu, name: str, value: str) -> None:
    paths.write(_file(gpu, name), value + "\n")


def drop(gpu: Gpu, name: str) -> None:
    _file(gpu, name).unlink(missing_ok=True)


def persistence(gpu: Gpu) -> bool:
    return get(gpu, "persistence") == "1"


def power_limit(gpu: Gpu) -> float:
    return float(get(gpu, "power_limit") or gpu.model.watts.default)


def locked_graphics(gpu: Gpu) -> int | None:
    """The highest clock that a lock allows."""
    lock = get(gpu, "graphics_clock")
    return int(lock.split(",")[-1]) if lock else None


def applications(gpu: Gpu) -> tuple[int, int] | None:
    """Memory and graphics application clock; None on cards that have none."""
    if gpu.model.applications is None:
        return None
    memory, _, graphics = get(gpu, "application_clock").partition(",")
    if graphics:
        return int(memory), int(graphics)
    return gpu.model.applications.memory, gpu.model.applications.graphics


def highest_graphics(gpu: Gpu) -> int:
    """The graphics clock at full load."""
    limits = [gpu.model.clocks.graphics]
    if (lock := locked_graphics(gpu)) is not None:
        limits.append(lock)
    if (pair := applications(gpu)) is not None:
        limits.append(pair[1])
    return min(limits)


def is_lost(gpu: Gpu) -> bool:
    return _file(gpu, "lost").exists()


def _alive(process: str) -> bool:
    try:
        os.kill(int(process), 0)
    except (ValueError, ProcessLookupError):
        return False
    except PermissionError:
        pass
    return True


def _has_client() -> bool:
    try:
        return any(_alive(client.name) for client in paths.CLIENTS.iterdir())
    except OSError:
        return False


def jobs(gpu: Gpu) -> list[int]:
    """Processes that compute on it: a file for each by its number, which names the card."""
    try:
        files = sorted(paths.JOBS.iterdir())
    except OSError:
        return []
    of_card = [file.name for file in files if paths.read(file) == gpu.address]
    return [int(process) for process in of_card if _alive(process)]


def close_client(rig: Rig) -> None:
    """The last client closed the cards: without persistence mode the driver forgets."""
    if not paths.is_root() or _has_client():
        return
    for gpu in rig.gpus:
        if not persistence(gpu):
            for name in _FORGOTTEN:
                drop(gpu, name)


def forget_all(rig: Rig) -> None:
    """The driver was unloaded. A card that left the bus stays away until the power is cycled."""
    for gpu in rig.gpus:
        lost = get(gpu, "lost")
        shutil.rmtree(paths.SETTINGS / str(gpu.number), ignore_errors=True)
        if lost:
            put(gpu, "lost", lost)
