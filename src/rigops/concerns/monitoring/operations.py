"""Whom a host notifies, its daily self-check, and a textfile for node_exporter.

With a blocker nothing of the concern is changed: neither added nor undone.
"""

from __future__ import annotations

import shlex
from collections.abc import Generator, Mapping
from typing import TYPE_CHECKING, Final

from pyinfra.api.operation import operation
from pyinfra.context import host

from rigops.concerns.concern import SelfChecks
from rigops.concerns.monitoring import AUTO, decide, record
from rigops.concerns.monitoring import NAME as CONCERN
from rigops.concerns.monitoring.facts import MonitoringHost
from rigops.facts.files import FileAt
from rigops.facts.sections import RigopsState
from rigops.hostside.packing import installed_at
from rigops.ownership.file_work import Effect, FileWork
from rigops.ownership.file_work_command import FileWorkCommand
from rigops.ownership.owned_files import owned_file, owned_program, owned_unit, undo_undeclared
from rigops.ownership.ownership import Ownership
from rigops.plan.change import Change
from rigops.plan.commands import blockers
from rigops.plan.context import announce, headline, housekeeping, may_undo, plan_of, provided
from rigops.probe.sections.rigops_state import STATE
from rigops.probe.sections.units import SYSTEM_UNITS
from rigops.rendering import render

if TYPE_CHECKING:
    from rigops.inventory.spec.model import ExpectedGpus, Notify

NOTIFY_PROGRAM: Final = installed_at("notify")
NOTIFY_TARGET: Final = "/etc/rigops/notify"
SELF_CHECK: Final = installed_at("self_check")
SETTINGS: Final = "/etc/rigops/self_check"
CHECK_UNIT: Final = "rigops-self-check"
METRICS_UNIT: Final = "rigops-metrics"
HANDLER: Final = f"{SYSTEM_UNITS}rigops-failed@.service"

_TIMERS: Final = tuple(f"{name}.timer" for name in (CHECK_UNIT, METRICS_UNIT))
# Systemd's note of a timer that makes up for what it missed.
_LAST_RUN: Final = f"/var/lib/systemd/timers/stamp-{CHECK_UNIT}.timer"


# Drop-ins of earlier versions: by now units name the handler themselves.
_DROP_INS: Final = tuple(
    f"{SYSTEM_UNITS}{unit}.d/rigops-failed.conf"
    for unit in ("rigops-.service", "rigops-failed@.service")
)
NOTIFY_ABSENCE: Final[Mapping[str, str]] = {NOTIFY_TARGET: "rmdir /etc/rigops 2>/dev/null || :"}
_ABSENCES: Final[Mapping[str, str]] = {
    **NOTIFY_ABSENCE,
    SETTINGS: f"rm -f {record.PATH} /run/rigops/self_check.json {_LAST_RUN}\n"
    "rmdir /etc/rigops /run/rigops 2>/dev/null || :",
    HANDLER: "systemctl reset-failed 'rigops-failed@*' 2>/dev/null || :",
    **{path: f"rmdir {path.rpartition('/')[0]} 2>/dev/null || :" for path in _DROP_INS},
}


def monitoring(
    *,
    notify: Notify | None,
    metrics: str | None,
    gpus: ExpectedGpus | None,
    skips_p2p: bool = False,
) -> None:
    """Have these; None is undeclared. `skips_p2p`: no proof is expected."""
    is_declared = notify is not None or metrics is not None
    folder: str | None = None
    if is_declared:
        found = host.get_fact(MonitoringHost)
        reasons = [decide.no_python(found)]
        if metrics is not None:
            folder = decide.textfile_folder(metrics, found)
            reasons.append(_unfit(metrics, folder))
        if any(reasons):
            blockers(name="Blockers", concern=CONCERN, reasons=tuple(filter(None, reasons)))
            return
        _have_self_check(gpus, folder, skips_p2p=skips_p2p)
    if folder is not None:
        _have_timer(METRICS_UNIT, folder=folder)
    install_notify(concern=CONCERN, target=notify)
    if notify is not None:
        _have_failures_reported()
    textfile_gone(
        name="Textfile",
        wanted=None if folder is None else f"{folder}/{decide.TEXTFILE}",
        declared=is_declared,
    )
    undo_undeclared(
        name="Undo undeclared settings",
        concern=CONCERN,
        declared=is_declared,
        effects=_ABSENCES,
    )
    changed = {change.subject for change in plan_of(host).changes if change.concern == CONCERN}
    for paths, text in (
        ({NOTIFY_PROGRAM, NOTIFY_TARGET, HANDLER}, "notifications"),
        ({SELF_CHECK, SETTINGS, f"{SYSTEM_UNITS}{_TIMERS[0]}"}, "daily self-check"),
        ({f"{SYSTEM_UNITS}{_TIMERS[1]}"}, "metrics"),
    ):
        if not changed.isdisjoint(paths):
            headline(host, CONCERN, text)


def _unfit(declared: str, folder: str | None) -> str:
    if folder is None:
        return decide.no_folder(host.get_fact(MonitoringHost))
    there = None if declared == AUTO else host.get_fact(FileAt, path=folder)
    if declared != AUTO and (there is None or there.present.kind != "a directory"):
        what = "does not exist" if there is None else "is no directory"
        return f"metrics: {folder} {what}. fix: create it, or declare that of node_exporter"
    return ""


def _have_self_check(gpus: ExpectedGpus | None, folder: str | None, *, skips_p2p: bool) -> None:
    checks = provided(host, SelfChecks)
    commands = checks.commands if checks else {}
    lines = decide.settings(gpus, folder, commands, skips_p2p=skips_p2p)
    owned_program(name=SELF_CHECK, concern=CONCERN, program="self_check")
    owned_file(
        name=SETTINGS,
        concern=CONCERN,
        path=SETTINGS,
        content=render("self-check.j2", lines=lines),
    )
    _have_timer(CHECK_UNIT)


def _have_timer(unit: str, **values: str) -> None:
    """A service, and the timer that starts it."""
    path = f"{SYSTEM_UNITS}{unit}.service"
    content = render(f"{unit}.service.j2", program=SELF_CHECK, state=STATE, **values)
    owned_file(name=path, concern=CONCERN, path=path, content=content)
    timer = f"{unit}.timer"
    owned_unit(name=timer, concern=CONCERN, unit=timer, content=render(f"{timer}.j2"))


def install_notify(*, concern: str, target: Notify | None) -> None:
    """Have failures reported to this command or URL. None: ``undo_undeclared`` ends it.

    A file has one owner, so only one concern may have this, whichever calls the program.
    """
    if target is None:
        return
    owned_program(name=NOTIFY_PROGRAM, concern=concern, program="notify")
    owned_file(
        name=NOTIFY_TARGET,
        concern=concern,
        path=NOTIFY_TARGET,
        content=decide.target(target),
        mode=0o600,
    )


def _have_failures_reported() -> None:
    """Of every unit of rigops: each names this one, whether it is there or not."""
    content = render("rigops-failed@.service.j2", program=NOTIFY_PROGRAM)
    owned_file(name=HANDLER, concern=CONCERN, path=HANDLER, content=content)


@operation()
def textfile_gone(*, wanted: str | None, declared: bool) -> Generator[FileWorkCommand, None, None]:
    """Have no textfile but this one. An ``undo_undeclared`` of the files comes after it.

    + wanted: its path, None where no metrics are declared
    + declared: whether anything of the concern is declared
    """
    state = host.get_fact(RigopsState)
    written = decide.written_textfile(state.records)
    owned = Ownership.from_state(state)
    paths = owned.paths_of(CONCERN)
    is_kept = not declared and not (paths and may_undo(host, CONCERN, paths))
    if written is None or written == wanted or is_kept:
        host.noop("there is no textfile that is not declared")
        return
    housekeeping(host, CONCERN, "the record of the textfile")
    announce(host, Change(CONCERN, "file", written, "(metrics of rigops)\n", None))
    # A run that has begun would write it again.
    units = [f"{METRICS_UNIT}.service"] if wanted else [_TIMERS[1], f"{METRICS_UNIT}.service"]
    stop = f"{shlex.join(('systemctl', 'stop', *units))} 2>/dev/null || :"
    remove = shlex.join(("rm", "-f", written, record.TEXTFILE_PATH))
    work = FileWork(before=owned, more_effects=(Effect(f"{stop}\n{remove}"),))
    yield FileWorkCommand(work, touches=frozenset({RigopsState}))
