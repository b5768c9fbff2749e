"""The backups of another tool: that tool on the host lists them and gives files back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from rigops.backup.borg_lines import read_drill
from rigops.backup.btrfs_lines import read_snapshots
from rigops.backup.host_program import HostProgram, restore_words
from rigops.dataclass import dataclass

if TYPE_CHECKING:
    from rigops.backup.engine import HostSnapshots, RestoreRequest


@dataclass
class UnmanagedEngine:
    program: HostProgram
    name: str = "unmanaged"

    def list(self, *, sizes: bool) -> HostSnapshots:  # noqa: ARG002 - no tool has sizes of one
        return read_snapshots(self.program.host, self._ask("list"))

    def backup(self, *, dry_run: bool) -> Mapping[str, Any]:  # noqa: ARG002 - refused in any case
        return self._ask("backup")

    def restore(self, request: RestoreRequest, *, dry_run: bool) -> Mapping[str, Any]:
        found = self._ask("restore", *restore_words(request), *(["--dry-run"] if dry_run else []))
        restored = found.get("restored")
        return restored if isinstance(restored, dict) else found

    def drill(self) -> Mapping[str, Any]:
        return read_drill(self._ask("drill"))

    def _ask(self, *words: str) -> Mapping[str, Any]:
        return self.program.ask("unmanaged", *words)
