"""What fetching and reading NVIDIA's files needs of the machine."""

from __future__ import annotations

import platform
import shutil
from functools import cache

_PROGRAMS = {"gcc": "gcc", "apt-get": "apt", "dpkg-deb": "dpkg"}


@cache
def lacks() -> str | None:
    """Why nothing can be compared here; None: all is there."""
    if platform.machine() != "x86_64":
        return "NVIDIA's wheels are those of x86_64"
    missing = {package for program, package in _PROGRAMS.items() if not shutil.which(program)}
    return f"not installed: {' '.join(sorted(missing))}" if missing else None
