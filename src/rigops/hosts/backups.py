"""Requests of backup and restore to the storage engines of a host, and their results."""

from __future__ import annotations

from dataclasses import replace
from posixpath import normpath
from typing import TYPE_CHECKING

from rigops.backup.engine import judge_snapshots
from rigops.hosts.borg_key import key_exported
from rigops.hosts.engines import HostAnswer

if TYPE_CHECKING:
    from rigops.backup.engine import HostSnapshots, RestoreRequest
    from rigops.backup.engines import Engines
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
