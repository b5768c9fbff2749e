"""Copies of files and trees with all that belongs to them, and how large they are."""

from __future__ import annotations

import os
import subprocess
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from rigops.backup.host.btrfs import HANGS, BtrfsError, run_tool
from rigops.backup.host.errors import HostError
from rigops.hostside.shared.bounded import SILENCE_S, BoundedChild

if TYPE_CHECKING:
    from rigops.concerns.snapshots.host.transfer import StreamMeter

SPARE = 16 * 1024 * 1024  # bytes that a restore leaves free

_LOOK_S = 0.2
_TOO_DEEP = "File name too long"
_SHOWN = 200


def measure_tree(path: str) -> int | None:
    """Bytes without holes, and each hard link once; None where it takes too long."""
    with suppress(HostError, ValueError, IndexError):
        return int(run_tool(path, ["du", "-s", "-B1", "--", path]).split()[0])
    return None


def copy_tree(source: str, target: str, meter: StreamMeter) -> None:
    """By sharing the data where the file system can. A cp that hangs is given up."""
    words = ["cp", "-a", "-T", "--reflink=auto", "--sparse=auto", "--", source, target]
    with BoundedChild(words, env={**os.environ, "LC_ALL": "C"}) as child:
        work, since = "", time.monotonic()
        while child.process.returncode is None:
            with suppress(subprocess.TimeoutExpired):
                child.process.wait(_LOOK_S)
            if child.process.returncode is None:
                meter.count(max(0, _written_by(child.process.pid) - meter.done))
                before, work = work, _work_of(child.process.pid)
                since = since if work == before else time.monotonic()
                if time.monotonic() - since > SILENCE_S:
                    raise HostError(
                        f"copying {source}: cp did nothing for {SILENCE_S:.0f} s", HANGS
                    )
        lines = child.errors.splitlines()
    too_deep = [one for one in lines if _TOO_DEEP in one]
    if child.process.returncode != 0 and len(too_deep) < len(lines):
        raise BtrfsError(f"copying {source}", "\n".join(lines))
    if too_deep:  # a user can make such folders, and they hold up nobody else's files
        where = os.path.relpath(too_deep[0].partition("/")[2][:_SHOWN], source[1:])
        meter.output.notice(f"not restored, since cp does not reach so deep: {where}…")


def _work_of(pid: int) -> str:
    """Changes while it uses the processor, reads or writes."""
    with suppress(OSError):
        return "".join(Path(f"/proc/{pid}/{one}").read_text("ascii") for one in ("stat", "io"))
    return ""


def _written_by(pid: int) -> int:
    """Zero where the kernel does not count it."""
    try:
        for line in Path(f"/proc/{pid}/io").read_text(encoding="ascii").splitlines():
            name, _, value = line.partition(": ")
            if name == "wchar":
                return int(value)
    except (OSError, ValueError):
        pass
    return 0
