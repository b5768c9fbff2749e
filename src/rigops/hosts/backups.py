"""Requests of backup and restore to the storage engines of a host, and their results."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rigops.hosts.borg_key import key_exported
from rigops.hosts.engines import HostAnswer

if TYPE_CHECKING:
    from rigops.backup.engine import RestoreRequest
    from rigops.backup.engines import Engines
    from rigops.hosts.access import Chosen


def back_up(host: Chosen, engines: Engines, *, dry_run: bool) -> HostAnswer:
    done = engines.backup(dry_run=dry_run)
    if not dry_run:
        done = key_exported(host, engines, done)
    status = "fail" if done.get("errors") else "ok"
    shown = {"backup": dict(done), "dry_run": dry_run}
    return HostAnswer(host=host.name, status=status, done=shown, value=done)


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
