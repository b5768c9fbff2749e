"""Lays the simulated trees over the machine's own, as few places as will do."""

import ctypes
import os
from pathlib import Path

from . import paths

_MS_BIND = 4096
_OPAQUE = "trusted.overlay.opaque"


def _mount(source: str, target: Path, kind: str, flags: int, options: str) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    arguments = [word.encode() for word in (source, str(target), kind)]
    if libc.mount(*arguments, ctypes.c_ulong(flags), options.encode() or None):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), str(target))


def bind(source: Path, target: Path) -> None:
    _mount(str(source), target, "", _MS_BIND, "")


def merge(upper: Path, target: Path) -> None:
    """What upper holds is seen first, and everything else of target still is."""
    work = upper.with_name(upper.name + ".work")
    work.mkdir(exist_ok=True)
    upper.mkdir(parents=True, exist_ok=True)
    options = f"lowerdir={target},upperdir={upper},workdir={work}"
    _mount("rigsim", target, "overlay", 0, options)


def hide(upper: Path, name: str) -> None:
    """Nothing of the machine's own folder of that name is to be seen through upper."""
    folder = upper / name
    folder.mkdir(parents=True, exist_ok=True)
    os.setxattr(folder, _OPAQUE, b"y")


def replace(source: Path, target: Path) -> None:
    """Instead of the target where the kernel has it, else merged into its parent."""
    if target.is_dir():
        bind(source, target)
    else:
        merge(source.parent, target.parent)


def lay_out(trees: Path) -> None:
    """trees: the sys folder that holds what this rig shows."""
    for own in paths.SYS.glob("devices/pci*"):
        hide(trees / "devices", own.name)
    if (paths.SYS / "devices/system/cpu/cpufreq").exists():
        hide(trees / "devices", "system/cpu/cpufreq")
    firmware = ("firmware",) if (trees / "firmware").is_dir() else ()
    for name in ("devices", "class", "module", *firmware):
        merge(trees / name, paths.SYS / name)
    replace(trees / "bus/pci", paths.SYS / "bus/pci")
    replace(trees / "kernel/iommu_groups", paths.SYS / "kernel/iommu_groups")
    drivers = paths.RUN / "trees/proc-driver"
    drivers.mkdir(parents=True, exist_ok=True)
    bind(drivers, paths.PROC / "driver")
    bind(paths.COMMAND_LINE, paths.PROC / "cmdline")
