"""rigsim: what the host's units, modprobe and the lab call."""

import os
import sys
import time

from . import cuda_conf, driver, firmware, kernel_log, modules, paths, settings
from .rig import Gpu, Rig, load

_USAGE = (
    "usage: rigsim boot | driver load [VERSION] | driver unload | refresh | kernel-log | falls\n"
)
_NAP = 0.02


def _uncapped(gpu: Gpu) -> bool:
    limit = gpu.model.transient_limit_mhz
    return bool(limit) and settings.highest_graphics(gpu) > limit


def _step(rig: Rig) -> None:
    """All cards go to full power at once; the transients of too many throw one off the bus."""
    present = [gpu for gpu in rig.gpus if gpu.model.transient_cards and not settings.is_lost(gpu)]
    uncapped = [gpu for gpu in present if _uncapped(gpu)]
    if uncapped and len(present) >= present[0].model.transient_cards:
        firmware.lose(uncapped[-1])


def refresh() -> None:
    rig = load()
    firmware.suffer(rig)
    if rig.load == "step" and driver.loaded():
        _step(rig)
    cuda_conf.write(rig)
    kernel_log.import_new()
    _watch_for_falls(rig)


def _watch_for_falls(rig: Rig) -> None:
    """In the background: programs that copy are not root, and cannot take a card off the bus."""
    if rig.falls and paths.ROOT.samefile("/"):
        null = [(os.POSIX_SPAWN_OPEN, number, os.devnull, os.O_RDWR, 0) for number in range(3)]
        os.posix_spawn(
            paths.PROGRAM, [paths.PROGRAM, "falls"], os.environ, file_actions=null, setsid=True
        )


def _wait_for_falls() -> None:
    """Until each card that is to fall has fallen, or is to stay."""
    while (rig := load()).falls:
        due = [gpu for gpu in rig.gpus if gpu.address in rig.falls and not settings.is_lost(gpu)]
        if not due:
            return
        if any(cuda_conf.has_fallen(rig, gpu) for gpu in due):
            firmware.suffer(rig)
            cuda_conf.write(rig)
            kernel_log.import_new()
        time.sleep(_NAP)


def _driver(arguments: list[str]) -> int:
    rig = load()
    if arguments[:1] == ["unload"]:
        driver.unload(rig)
        return 0
    version = arguments[1] if len(arguments) > 1 else modules.on_disk()
    if not version:
        sys.stderr.write("modprobe: FATAL: Module nvidia not found.\n")
        return 1
    if driver.loaded() != version:
        driver.load(rig, version)
        kernel_log.import_new()
    return 0


def main(arguments: list[str]) -> int:
    command, rest = arguments[:1], arguments[1:]
    if command == ["boot"]:
        in_a_host = paths.ROOT.samefile("/")
        firmware.boot(cover=in_a_host)
        if in_a_host:
            # The journal gets the kernel's lines while the boot goes on.
            os.posix_spawn(paths.PROGRAM, [paths.PROGRAM, "kernel-log"], os.environ)
            _watch_for_falls(load())
    elif command == ["driver"] and rest[:1] in (["load"], ["unload"]):
        return _driver(rest)
    elif command == ["refresh"]:
        refresh()
    elif command == ["falls"]:
        _wait_for_falls()
    elif command == ["kernel-log"]:
        kernel_log.import_new()
    else:
        sys.stderr.write(_USAGE)
        return 2
    return 0
