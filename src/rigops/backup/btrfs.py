"""The btrfs engine: snapshots of subvolumes, here and at a target."""

from __future__ import annotations

from rigops.backup.answer_shape import ProgramResult
from rigops.backup.btrfs_lines import read_snapshots
from rigops.backup.engine import MOVED, PRUNE_MOST, BackupError, HostSnapshots, RestoreRequest
from rigops.backup.host_program import HostProgram, restore_words
from rigops.dataclass import dataclass


@dataclass
class BtrfsEngine:
    program: HostProgram
    consents: frozenset[str] = frozenset()
    name: str = "btrfs"

    def list(self, *, sizes: bool) -> HostSnapshots:
        return read_snapshots(self.program.host, self._ask("list", *(["--sizes"] if sizes else [])))

    def backup(self, *, dry_run: bool) -> ProgramResult:
        consents = sorted(self.consents & {MOVED, PRUNE_MOST})
        return self._ask("backup", *consents, *(["--dry-run"] if dry_run else []))

    def restore(self, request: RestoreRequest, *, dry_run: bool) -> ProgramResult:
        found = self._ask("restore", *restore_words(request), *(["--dry-run"] if dry_run else []))
        restored = found.get("restored")
        return restored if isinstance(restored, dict) else found

    def drill(self) -> ProgramResult:
        raise BackupError(
            self.program.host,
            "snapshots have no drill: a snapshot is the file system itself",
            "declare borg, whose backups are tried by one",
        )

    def _ask(self, *words: str) -> ProgramResult:
        return self.program.ask("snapshots", *words)
