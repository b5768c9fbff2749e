"""Requests of backup and restore to the storage engines of a host, and their results.

A backup exports the key of the host's borg repository to the vault of this machine.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timezone
from posixpath import normpath
from typing import TYPE_CHECKING, Final

from rigops.atomic_file import SHELL, shell_replace
from rigops.backup.answer_shape import ProgramResult
from rigops.backup.borg import BorgEngine
from rigops.backup.borg_host import exporting
from rigops.backup.engine import BackupError, HostSnapshots, RestoreRequest, judge_snapshots
from rigops.backup.engines import Engines
from rigops.backup.host_program import HostProgram
from rigops.concerns.borg import record
from rigops.errors import RigopsError
from rigops.hosts.engines import HostAnswer
from rigops.json_fields import readable
from rigops.vault.borg_keys import has_key, put_key
from rigops.vault.store import Store

if TYPE_CHECKING:
    from rigops.hosts.access import Chosen


def back_up(host: Chosen, engines: Engines, *, dry_run: bool) -> HostAnswer:
    done = engines.backup(dry_run=dry_run)
    if not dry_run:
        done = key_exported(host, engines, done)
    status = "fail" if done.get("errors") else "ok"
    shown = {"backup": dict(done), "dry_run": dry_run}
    return HostAnswer(host=host.name, status=status, done=shown, value=done)


def list_copies(host: Chosen, engines: Engines, *, sizes: bool, engine: str) -> HostAnswer:
    """`engine`: the only one that was asked for, or empty."""
    found = engines.list(sizes=sizes)
    found = replace(found, not_applied=_not_applied(host, engines, found, engine))
    done = {**found.raw, "not_applied": list(found.not_applied)}
    return HostAnswer(host=host.name, status=judge_snapshots(found), done=done, value=found)


def _not_applied(
    host: Chosen, engines: Engines, found: HostSnapshots, engine: str
) -> tuple[str, ...]:
    """Paths of subvolumes, and the repository."""
    asked = {one.name for one in engines.every}
    snapshots, borg = (host.spec.snapshots, host.spec.borg) if host.spec else (None, None)
    known = {one.path for one in found.subvolumes if "btrfs" in asked}
    paths = snapshots.subvolumes if snapshots and engine != "borg" else ()
    missing = [path for path in paths if normpath(path) not in known]
    is_without_borg = engine != "btrfs" and "borg" not in asked
    return (*missing, *([borg.repository] if borg and borg.repository and is_without_borg else ()))


def drill(host: Chosen, engines: Engines) -> HostAnswer:
    done = engines.drill()
    status = "ok" if done.get("result") == "ok" else "fail"
    return HostAnswer(host=host.name, status=status, done={"drill": dict(done)}, value=done)


def heal(host: Chosen, engines: Engines, *, confirmed: bool) -> HostAnswer:
    done = engines.heal(confirmed=confirmed)
    status = "warn" if done.get("to_heal") else "ok"
    return HostAnswer(host=host.name, status=status, done={"heal": dict(done)}, value=done)


def restore(
    host: Chosen, engines: Engines, *, request: RestoreRequest, dry_run: bool
) -> HostAnswer:
    done = engines.restore(request, dry_run=dry_run)
    status = "warn" if done.get("to_do") else "ok"
    shown = {"restored": dict(done), "dry_run": dry_run}
    return HostAnswer(host=host.name, status=status, done=shown, value=done)


_READ_S: Final = 30.0
_EXPORT_S: Final = 300.0
_MODE: Final = 0o644  # of the note, which has nothing of the key
_FIX: Final = "run rigops apply, which exports it too"


def key_exported(host: Chosen, engines: Engines, done: ProgramResult) -> ProgramResult:
    """The result of a backup, and where the key is now. Without one there is no backup."""
    program = next((one.program for one in engines.every if isinstance(one, BorgEngine)), None)
    if program is None:
        return done
    try:
        place = _export(host, program)
    except RigopsError as error:
        failed: ProgramResult = {"message": f"borg: {error}", "fix": _FIX}
        return {**done, "errors": [*done.get("errors", ()), failed]}
    return {**done, "key": place} if place else done


def _export(host: Chosen, program: HostProgram) -> str:
    """Where it is stored; empty where it was stored before, or there is none yet."""
    store = Store.from_declared(host.spec.rigops_vault if host.spec else None)
    state = readable(record.parse, _read(program, record.PATH))
    known = state.repository.id if state else ""
    noted = readable(record.parse_key, _read(program, record.KEY_PATH))
    is_noted = noted is not None and noted.repository == known
    if not known or (is_noted and has_key(store, host.name, known)):
        return ""
    exported = program.connection.run(
        exporting(), privilege=program.privilege, deadline_s=_EXPORT_S
    )
    if exported.exit_code != 0:
        raise BackupError(host.name, "the key of the repository could not be exported", _FIX)
    place = put_key(store, host.name, exported.stdout.decode(errors="replace"))
    at = datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    note = record.ExportedKey(repository=known, exported_at=at).to_json().encode()
    script = f"set -eu\n{SHELL}\n{shell_replace(record.KEY_PATH, _MODE, note)}"
    program.connection.run(["sh", "-c", script], privilege=program.privilege, deadline_s=_READ_S)
    return str(place)


def _read(program: HostProgram, path: str) -> str | None:
    done = program.connection.run(["cat", path], deadline_s=_READ_S)
    return done.stdout.decode(errors="replace") if done.exit_code == 0 else None
