"""Points of a host's work that are reached again and again: the start of its nth program.

Whatever starts it, that program waits until it may go on; meanwhile a test ends whoever wanted it,
or the host. Of a single command, its renames are points as well.
"""

from __future__ import annotations

import shutil
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tests.lab import machine
from tests.lab.preloaded import preload, put

if TYPE_CHECKING:
    from tests.lab.hosts import Host

_FOLDER = "/run/points"
_PATIENCE_S = 180
_ANYBODY = 0o666  # _apt too


@dataclass(frozen=True)
class Points:
    host: Host

    def watch(self, limit: int = 0, *, only: str = "", renames: bool = False) -> None:
        """From now on, and until the host's next boot. The one with this number is stopped.

        `only`: how a command line begins that counts. `renames`: they are counted too.
        """
        preload(self.host, "points")
        folder = self._begin(limit, only)
        if renames:
            (folder / "renames").touch()

    def watch_command(self, limit: int = 0) -> str:
        """What to write before the command."""
        place = put(self.host, "points")
        (self._begin(limit) / "renames").touch()
        return f"LD_PRELOAD={place}"

    def forget(self) -> None:
        """As if nobody had ever watched; whoever was stopped goes on."""
        root = self._root()
        shutil.rmtree(root / _FOLDER[1:], ignore_errors=True)
        (root / "etc/ld.so.preload").unlink(missing_ok=True)

    def _begin(self, limit: int, only: str = "") -> Path:
        folder = self._root() / _FOLDER[1:]
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        (folder / "only").write_text(only)
        folder.chmod(0o777)
        (folder / "limit").write_text(str(limit))
        (folder / "count").write_text("0" * 8)
        (folder / "count").chmod(_ANYBODY)
        return folder

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
