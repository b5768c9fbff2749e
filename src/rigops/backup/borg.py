"""The borg engine: archives in a repository, which the host opens with its own passphrase."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Final

from rigops.backup.answer_shape import ProgramResult
from rigops.backup.borg_host import STATE_FILE, with_passphrase
from rigops.backup.borg_lines import read_backup, read_drill
from rigops.backup.btrfs_lines import read_snapshots
from rigops.backup.engine import MOVED, PRUNE_MOST, HostSnapshots, RestoreRequest
from rigops.backup.host_program import PYTHON, HostProgram, restore_words
from rigops.dataclass import dataclass

ACCEPT_LOST: Final = "--accept-lost"

_READ_S: Final = 30.0


@dataclass
class BorgEngine:
    """`consents`: options of a backup by which a person accepts what would stop it."""

    program: HostProgram
    consents: frozenset[str] = frozenset()
    name: str = "borg"

    def list(self, *, sizes: bool) -> HostSnapshots:
        return read_snapshots(self.program.host, self._ask("list", *(["--sizes"] if sizes else [])))

    def backup(self, *, dry_run: bool) -> ProgramResult:
        """A repository that could not be reached at apply is initialized first."""
        if dry_run:
            consents = sorted(self.consents & {MOVED, PRUNE_MOST})
            return read_backup(self._ask("backup", *consents, "--dry-run"))
        if not self._is_open():
            self._ask("init", *sorted(self.consents & {MOVED}))
        return read_backup(self._ask("backup", *sorted(self.consents)))

    def restore(self, request: RestoreRequest, *, dry_run: bool) -> ProgramResult:
        words = restore_words(replace(request, place=""))
        words += ["--of", request.of] if request.of else []
        found = self._ask("restore", *words, *(["--dry-run"] if dry_run else []))
        restored = found.get("restored")
        return restored if isinstance(restored, dict) else found

    def drill(self) -> ProgramResult:
        return read_drill(self._ask("drill"))

    def heal(self, *, confirmed: bool) -> ProgramResult:
        """Sign archives that borg up to 1.2.4 wrote; unless it is confirmed, only name them."""
        return self._ask("heal", *(["--yes"] if confirmed else []))

    def prove(self, passphrase: str) -> ProgramResult:
        """Whether it opens the repository; the host's own passphrase is not used."""
        return self.program.ask("borg", "prove", secret=passphrase.encode())

    def _is_open(self) -> bool:
        """By the host's own record. To open one that is there does no harm."""
        done = self.program.connection.run(["cat", STATE_FILE], deadline_s=_READ_S)
        try:
            repository = json.loads(done.stdout)["repository"]
            return bool(repository["id"]) and repository["state"] == "ok"
        except (ValueError, KeyError, TypeError):
            return False

    def _ask(self, *words: str) -> ProgramResult:
        return self.program.ask("borg", *words, run=with_passphrase(f'{PYTHON} "$@"'))
