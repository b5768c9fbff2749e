"""The program that backs up, its settings, its timers, its secrets, and the repository."""

from __future__ import annotations

import shlex
from collections.abc import Generator, Mapping
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Final

from pyinfra.api.arguments import ConnectorArguments
from pyinfra.api.command import QuoteString, StringCommand
from pyinfra.api.host import Host
from pyinfra.api.operation import operation
from pyinfra.api.state import State
from pyinfra.connectors.util import CommandOutput, OutputLine
from pyinfra.context import host

from rigops import json_fields
from rigops.backup.borg_host import CREDENTIAL, PASSPHRASE, credential, with_passphrase
from rigops.concerns.borg import NAME as CONCERN
from rigops.concerns.borg import decide, record
from rigops.concerns.borg.decide import DRILL_UNIT, KNOWN_HOSTS, SETTINGS, UNIT, WATCHED
from rigops.concerns.borg.facts import BorgHostFact
from rigops.concerns.borg.host.borg_meanings import DOES_NOT_OPEN
from rigops.concerns.borg.passphrase_command import (
    AskPassphraseCommand,
    StorePassphraseCommand,
)
from rigops.concerns.borg.record import KEY, PUBLIC_KEY, BorgState, ExportedKey
from rigops.errors import RigopsError
from rigops.facts.sections import RigopsState
from rigops.hostside.packing import installed_at
from rigops.ownership.file_work import FileWork
from rigops.ownership.file_work_command import FileWorkCommand
from rigops.ownership.owned_files import (
    owned_file,
    owned_key,
    owned_program,
    owned_unit,
    undo_undeclared,
)
from rigops.ownership.ownership import Ownership
from rigops.plan.change import Change
from rigops.plan.commands import blockers
from rigops.plan.context import (
    announce,
    headline,
    housekeeping,
    next_step,
    notice,
    plan_of,
    warning,
)
from rigops.probe.sections.rigops_state import STATE
from rigops.probe.sections.units import SYSTEM_UNITS
from rigops.rendering import render
from rigops.vault.borg_keys import has_key, put_key
from rigops.vault.store import Store

if TYPE_CHECKING:
    from rigops.inventory.spec.model import Borg

PROGRAM: Final = installed_at(CONCERN)

_NOT_SHOWN: Final = "(not shown)\n"
_REPOSITORY_S: Final = 600
_KEY_FILES: Final = (KEY, PUBLIC_KEY, KNOWN_HOSTS)
# Systemd's notes of timers that make up for what they missed.
_LAST_RUNS: Final = tuple(
    f"/var/lib/systemd/timers/stamp-{one}.timer" for one in (UNIT, DRILL_UNIT)
)
_NO_FOLDER: Final = "rmdir /etc/rigops 2>/dev/null || :"
_LEFT: Final = (*_KEY_FILES, PASSPHRASE, CREDENTIAL, record.PATH, record.KEY_PATH, *_LAST_RUNS)
# Folders of borg itself, and of the rig's data for each archive.
_FOLDERS: Final = (f"{STATE}/borg", f"{STATE}/identity", "/var/cache/rigops/borg")
_ABSENCES: Final[Mapping[str, str]] = {
    KEY: shlex.join(("rm", "-f", PUBLIC_KEY, KNOWN_HOSTS)),
    SETTINGS: f"{shlex.join(('rm', '-f', *_LEFT))}\n{shlex.join(('rm', '-rf', *_FOLDERS))}\n"
    f"rmdir /var/cache/rigops 2>/dev/null || :\n{_NO_FOLDER}",
    WATCHED: _NO_FOLDER,
}


def back_up(declared: Borg, *, vault: str | None) -> None:
    """Have these paths backed up. With a blocker nothing is changed."""
    found = host.get_fact(BorgHostFact)
    reasons = tuple(decide.blockers(declared, found))
    if reasons:
        blockers(name="Blockers", concern=CONCERN, reasons=reasons)
        return
    repository, encrypted = declared.repository or "", decide.is_encrypted(found)
    for text in decide.warnings(declared, found):
        warning(host, CONCERN, text)
    for text in decide.notices(declared, found, _state()):
        notice(host, CONCERN, text)
    passphrase_asked(name="Passphrase, on this machine", declared=declared)
    owned_program(name=PROGRAM, concern=CONCERN, program=CONCERN)
    owned_file(
        name=SETTINGS,
        concern=CONCERN,
        path=SETTINGS,
        content=decide.settings(host.name, declared),
        mode=0o600,
    )
    if decide.is_remote(repository):
        public_key = host.get_fact(BorgHostFact).public_key
        owned_key(
            name="Key for ssh",
            concern=CONCERN,
            path=KEY,
            public_key=public_key,
            touches=frozenset({BorgHostFact}),
        )
    passphrase(name="Passphrase", declared=declared, encrypted=encrypted)
    for unit, schedule in ((UNIT, declared.schedule or decide.SCHEDULE), (DRILL_UNIT, "")):
        _have_timer(
            unit,
            schedule=schedule,
            program=PROGRAM,
            state=STATE,
            credential=credential(is_encrypted=encrypted),
        )
    initialized(name="Repository", declared=declared)
    exported(name="Key of the repository", declared=declared, vault=vault)
    if decide.is_remote(repository) and not decide.is_initialized(declared, _state()):
        public_key = host.get_fact(BorgHostFact).public_key
        next_step(host, CONCERN, decide.access_step(host.name, repository, public_key))
    undo_undeclared(name="Undo undeclared settings", concern=CONCERN, effects=_ABSENCES)
    if any(change.concern == CONCERN for change in plan_of(host).changes):
        headline(host, CONCERN, f"backups of {', '.join(declared.paths)} to {repository}")


def watch(declared: Borg) -> None:
    """Have doctor look after the backups of another tool, which stays as it is."""
    owned_file(
        name=WATCHED,
        concern=CONCERN,
        path=WATCHED,
        content=decide.watched(declared),
        mode=0o600,
    )
    undo_undeclared(name="Undo undeclared settings", concern=CONCERN, effects=_ABSENCES)


def borg_undeclared(*, declared: bool) -> None:
    """`declared`: as nothing, which needs no further consent."""
    if SETTINGS in Ownership.from_state(host.get_fact(RigopsState)).paths_of(CONCERN):
        state = _state()
        notice(host, CONCERN, decide.undone_notice(state.repository.location if state else ""))
    undo_undeclared(
        name="Undo undeclared settings", concern=CONCERN, declared=declared, effects=_ABSENCES
    )


@operation()
def passphrase_asked(*, declared: Borg) -> Generator[StringCommand, None, None]:
    """Ask for the passphrase where the host has none: without it nothing is to be installed."""
    if decide.has_passphrase(host.get_fact(BorgHostFact)):
        host.noop("the passphrase is there")
        return
    housekeeping(host, CONCERN, "the passphrase")
    yield AskPassphraseCommand(declared.passphrase_command or "")


@operation()
def passphrase(*, declared: Borg, encrypted: bool) -> Generator[StringCommand, None, None]:
    """Have the passphrase where the units load it from. No plan and no record knows of it.

    + encrypted: with the host's own key
    """
    if decide.has_passphrase(host.get_fact(BorgHostFact)):
        host.noop("the passphrase is there")
        return
    path = CREDENTIAL if encrypted else PASSPHRASE
    announce(host, Change(CONCERN, "file", path, None, _NOT_SHOWN))
    tried = PROGRAM if decide.is_initialized(declared, _state()) else ""
    yield StorePassphraseCommand(encrypted=encrypted, program=tried)


@operation()
def initialized(*, declared: Borg) -> Generator[StringCommand, None, None]:
    """Have a repository. One that is there is used as it is.

    Where a server does not let the host in yet, this waits for a person, and fails nothing.
    """
    state = _state()
    is_there = decide.is_initialized(declared, state)
    repository = declared.repository or ""
    is_remote = decide.is_remote(repository)
    if is_there or (is_remote and decide.was_tried(declared, state)):
        host.noop(f"{repository} was initialized, or waits for access")
        return
    change = Change(
        CONCERN, "setting", f"repository {repository}", "not opened yet", "opened or initialized"
    )
    announce(host, change)
    command = _ProgramCommand("init", may_fail=is_remote)
    yield command
    if command.failure and not decide.was_tried(declared, _state()):
        note = record.waiting(repository, command.failure, _now()).encode()
        work = FileWork(
            before=Ownership.from_state(host.get_fact(RigopsState)), notes={record.PATH: note}
        )
        yield FileWorkCommand(work, touches=frozenset({RigopsState}))


@operation()
def exported(*, declared: Borg, vault: str | None) -> Generator[StringCommand, None, None]:
    """Have the key of the repository in the vault of this machine: without it a backup is lost.

    + vault: as the inventory declares it
    """
    state, store = _state(), Store.from_declared(vault)
    has_waited = decide.is_remote(declared.repository or "") and decide.was_tried(declared, state)
    known = state.repository.id if state and decide.is_initialized(declared, state) else ""
    if known and has_key(store, host.name, known) and _is_noted(known):
        host.noop("its key is in the vault")
        return
    if not known and has_waited:
        host.noop("there is no repository yet")
        return
    subject = f"key of {declared.repository}"
    announce(host, Change(CONCERN, "setting", subject, "not in the vault", "in the vault"))
    export = _ExportCommand(store)
    yield export
    if export.exported is not None:
        note = export.exported.to_json().encode()
        work = FileWork(
            before=Ownership.from_state(host.get_fact(RigopsState)), notes={record.KEY_PATH: note}
        )
        yield FileWorkCommand(work, touches=frozenset({RigopsState}))


class _ProgramCommand(StringCommand):
    """The host's program with the passphrase. `failure`: why it failed, where it may.

    A passphrase that does not open the repository is not what waiting helps against.
    """

    def __init__(self, *words: str, may_fail: bool = False) -> None:
        script = f"cd / || exit\n{with_passphrase(shlex.join((PROGRAM, *words)))}"
        super().__init__("sh", "-c", QuoteString(script), _timeout=_REPOSITORY_S)
        self._may_fail = may_fail
        self.failure = ""

    def execute(
        self, state: State, host: Host, connector_arguments: ConnectorArguments
    ) -> tuple[bool, CommandOutput]:
        done, output = super().execute(state, host, connector_arguments)
        reason = _reason(output)
        if not done and self._may_fail and DOES_NOT_OPEN not in reason:
            self.failure = reason
            return True, output
        return done, output


class _ExportCommand(_ProgramCommand):
    """Its output is the key, which goes to the vault and nowhere else."""

    def __init__(self, store: Store) -> None:
        super().__init__("export-key")
        self._store = store
        self.exported: ExportedKey | None = None

    def execute(
        self,
        state: State,  # noqa: ARG002 - pyinfra's signature
        host: Host,
        connector_arguments: ConnectorArguments,
    ) -> tuple[bool, CommandOutput]:
        known = json_fields.readable(
            record.parse, host.get_fact(RigopsState).records.get(record.PATH)
        )
        if known is None or not known.repository.id:
            return True, CommandOutput([])  # it waits for access to the server
        arguments = {**connector_arguments, **self.connector_arguments}
        done, output = host.run_shell_command(self, print_output=False, **arguments)
        if not done:
            return False, CommandOutput([OutputLine("stderr", _reason(output))])
        try:
            put_key(self._store, host.name, "\n".join(output.stdout_lines))
        except RigopsError as error:
            return False, CommandOutput([OutputLine("stderr", str(error))])
        self.exported = record.ExportedKey(repository=known.repository.id, exported_at=_now())
        return True, CommandOutput([])


def _reason(output: CommandOutput) -> str:
    """Never the whole output, which may have a part of the key."""
    found = [one for one in (*output.stderr_lines, *output.stdout_lines) if "Error" in one]
    return found[0].removeprefix("Error: ") if found else "it failed without a reason"


def _now() -> str:
    return datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def _is_noted(repository: str) -> bool:
    text = host.get_fact(RigopsState).records.get(record.KEY_PATH)
    noted = json_fields.readable(record.parse_key, text)
    return noted is not None and noted.repository == repository


def _state() -> BorgState | None:
    return json_fields.readable(record.parse, host.get_fact(RigopsState).records.get(record.PATH))


def _have_timer(unit: str, **values: str) -> None:
    """A service, and the timer that starts it."""
    path = f"{SYSTEM_UNITS}{unit}.service"
    content = render(f"{unit}.service.j2", **values)
    owned_file(name=path, concern=CONCERN, path=path, content=content)
    timer = f"{unit}.timer"
    content = render(f"{timer}.j2", **values)
    owned_unit(name=timer, concern=CONCERN, unit=timer, content=content)
