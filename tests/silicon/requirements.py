"""What the tests on a real card need of the machine: the card, its driver, and Python."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

_CARDS = Path("/proc/driver/nvidia/gpus")
_MOUNTS = Path("/proc/self/mountinfo")
_LOAD = "import ctypes; ctypes.CDLL('libcuda.so.1')"


@cache
def lacks() -> str | None:
    """Why there is no card to test on; None: all is there. CUDA is not begun."""
    if not any(map(is_of_kernel, _CARDS.glob("*"))):
        return "no NVIDIA card whose driver is loaded (/proc/driver/nvidia/gpus)"
    if shutil.which("nvidia-smi") is None:
        return "nvidia-smi is not installed"
    loaded = subprocess.run(
        [sys.executable, "-c", _LOAD], check=False, capture_output=True, stdin=subprocess.DEVNULL
    )
    return "libcuda.so.1 cannot be loaded" if loaded.returncode else None


def is_of_kernel(path: Path) -> bool:
    """Not a tree that simulates it: those are files on a disk, or in a tmpfs."""
    device = path.stat().st_dev
    number = f"{os.major(device)}:{os.minor(device)}"
    mounts = (line.split() for line in _MOUNTS.read_text().splitlines())
    return any(one[2] == number and one[one.index("-") + 1] == "proc" for one in mounts)
