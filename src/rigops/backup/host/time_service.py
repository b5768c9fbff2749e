"""How far this machine's clock is to be believed, and how long it has been up."""

from __future__ import annotations

import ctypes
from datetime import timedelta
from pathlib import Path

_TIMESYNCD = "run/systemd/timesync"
_PID_FILES = ("run/chrony/chronyd.pid", "run/chronyd.pid", "run/ntpd.pid")
_TIMEX_BYTES = 512  # more than any struct timex; all 0 asks, and changes nothing
_TIME_ERROR = 5


def find_unsynchronized(root: Path = Path("/")) -> str:
    """Its name; empty: none runs, or it has. In containers the kernel never says so: no doubt."""
    timesyncd = root / _TIMESYNCD
    if timesyncd.is_dir():
        return "" if (timesyncd / "synchronized").exists() else "systemd-timesyncd"
    for one in _PID_FILES:
        name = _running(root, root / one)
        if name:
            return name if _has_time_error() else ""
    return ""


def _running(root: Path, pid_file: Path) -> str:
    """A file may outlive the process, and its number may be another one's by now."""
    try:
        name = (root / "proc" / pid_file.read_text().strip() / "comm").read_text().strip()
    except (OSError, ValueError):
        return ""
    return name if name == pid_file.stem else ""


def _has_time_error() -> bool:
    found: int = ctypes.CDLL(None).adjtimex(ctypes.create_string_buffer(_TIMEX_BYTES))
    return found == _TIME_ERROR


def read_uptime() -> timedelta | None:
    try:
        return timedelta(seconds=float(Path("/proc/uptime").read_text().split()[0]))
    except (OSError, ValueError, IndexError):
        return None
