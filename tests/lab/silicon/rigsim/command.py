"""rigsim: what the host's units, modprobe and the lab call."""

import os
import sys

from . import cuda_conf, driver, firmware, kernel_log, modules, paths, settings
from .rig import Gpu, Rig, load

_USAGE = "usage: rigsim boot | driver load [VERSION] | driver unload | refresh | kernel-log\n"


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
    elif command == ["driver"] and rest[:1] in (["load"], ["unload"]):
        return _driver(rest)
    elif command == ["refresh"]:
        refresh()
    elif command == ["kernel-log"]:
        kernel_log.import_new()
    else:
        sys.stderr.write(_USAGE)
        return 2
    return 0
