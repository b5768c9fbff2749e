"""Points of a host's work that are reached again and again: the start of its nth program.

Whatever starts it, that program waits until it may go on; meanwhile a test ends whoever wanted it,
or the host.
"""

from __future__ import annotations

import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tests.lab import machine
from tests.lab.preloaded import preload

if TYPE_CHECKING:
    from tests.lab.hosts import Host

_FOLDER = "/run/points"
_PATIENCE_S = 90
_ANYBODY = 0o666  # _apt too


@dataclass(frozen=True)
class Points:
    host: Host

    def watch(self, limit: int = 0) -> None:
        """From now on, and until the host's next boot. The one with this number is stopped."""
        root = self._root()
        preload(self.host, "points")
        folder = root / _FOLDER[1:]
        folder.mkdir()
        folder.chmod(0o777)
        (folder / "limit").write_text(str(limit))
        (folder / "count").write_text("0" * 8)
        (folder / "count").chmod(_ANYBODY)

    @property
    def count(self) -> int:
        return int((self._root() / f"{_FOLDER[1:]}/count").read_text())

    @property
    def reached(self) -> bool:
        return (self._root() / f"{_FOLDER[1:]}/reached").is_dir()

    def wait(self) -> None:
        end = time.monotonic() + _PATIENCE_S
        while not self.reached:
            assert time.monotonic() < end, f"{self.count} programs were started, and no more"
            time.sleep(0.05)

    def go_on(self) -> None:
        (self._root() / f"{_FOLDER[1:]}/reached").rmdir()

    def cut(self) -> None:
        """The host's processes are gone all at once, and it starts again."""
        record = self.host.record
        pid = machine.leader(record)
        subprocess.run(
            ["nsenter", "--target", str(pid), "--all", "--wd=/", "reboot", "-ff"],
            check=False,  # it does not come back
            capture_output=True,
            stdin=subprocess.DEVNULL,
        )

    def _root(self) -> Path:
        return Path(f"/proc/{machine.leader(self.host.record)}/root")
