"""The storage engine of hosts: reaches them, shows progress, and ends what runs there on Ctrl-C."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from rigops.backup.borg import BorgEngine
from rigops.backup.btrfs import BtrfsEngine
from rigops.backup.engine import BackupError, StorageEngine
from rigops.backup.engines import Engines
from rigops.backup.host_program import HostProgram
from rigops.concerns.borg.decide import WATCHED
from rigops.dataclass import dataclass
from rigops.errors import HostError, UsageError
from rigops.hosts.parallel import Console, HostProgress, for_each
from rigops.hosts.probing import internal_error
from rigops.hosts.run_records import Beginning, record, record_there
from rigops.transport import TransportError

if TYPE_CHECKING:
    from rigops.hosts.access import Chosen, HostAccess

SCHEMA: Final = "rigops.snapshots/1"

_END_S: Final = 20.0
_LOOK_S: Final = 30.0
# A host that rigops installed nothing on may have snapshots all the same.
_INSTALLED: Final = (
    "for one in snapshots borg; do [ ! -e /etc/rigops/$one.json ] || echo $one; done; "
    f"[ ! -r {WATCHED} ] || sed -n 's/^unit //p' {WATCHED}"
)
_EXIT_CODES: Final = {"fail": 1, "unknown": 3}


@dataclass(frozen=True, kw_only=True)
class HostAnswer:
    """`done`: the part of the document that is the command's own. `value`: its source."""

    host: str
    status: str = "unknown"
    done: Mapping[str, object] | None = None
    value: Any = None
    error: HostError | None = None

    def as_json(self) -> dict[str, object]:
        return {
            "host": self.host,
            "status": self.status,
            **(self.done or {}),
            "error": self.error.as_json() if self.error else None,
        }


@dataclass(frozen=True, kw_only=True)
class EngineOptions:
    """`verbose`: what the host reports besides the result is printed.

    `engine`: the only one to ask; empty: all that the host has. `command`: the journals have the
    run under this name; empty: it is not recorded.
    """

    access: HostAccess
    verbose: bool = False
    engine: str = ""
    consents: frozenset[str] = frozenset()  # of a backup with borg
    command: str = ""


def ask_engines(
    chosen: Sequence[Chosen],
    options: EngineOptions,
    doing: str,
    work: Callable[[Chosen, Engines], HostAnswer],
    console: Console,
    *,
    is_change: bool = False,
) -> list[HostAnswer]:
    """`is_change`: a host that is lost meanwhile has failed."""
    stop = threading.Event()
    with console.progress(doing) as progress:
        asking = replace(options, access=options.access.asking(progress.silent))

        def ask(host: Chosen) -> HostAnswer:
            progress.begin(host.name)
            answer = _ask(host, asking, work, console, progress=progress, stop=stop)
            if is_change and answer.error and answer.error.kind == "lost":
                answer = replace(answer, status="fail")
            progress.end(host.name, "not reached" if answer.status == "unknown" else answer.status)
            return answer

        try:
            return for_each(chosen, ask)
        except KeyboardInterrupt:
            stop.set()
            names = ", ".join(progress.unfinished)
            console.tell("", f"Interrupted: ending the work on {names}.")
            deadline = time.monotonic() + _END_S
            while progress.unfinished and time.monotonic() < deadline:
                time.sleep(0.1)
            raise


def exit_code(answers: Sequence[HostAnswer]) -> int:
    codes = {_EXIT_CODES.get(one.status, 0) for one in answers}
    return next((code for code in (1, 3) if code in codes), 0)


def document(answers: Sequence[HostAnswer]) -> dict[str, object]:
    return {"schema": SCHEMA, "hosts": [one.as_json() for one in answers]}


def _ask(
    host: Chosen,
    options: EngineOptions,
    work: Callable[[Chosen, Engines], HostAnswer],
    console: Console,
    *,
    progress: HostProgress,
    stop: threading.Event,
) -> HostAnswer:
    def notice(text: str) -> None:
        if options.verbose:
            with progress.silent():
                console.tell(f"{host.name}: {text}")

    begun = Beginning(host, options.command)
    troubles: list[str] = []
    try:
        with options.access.open(host.target) as (connection, privilege):
            program = HostProgram(
                host.name,
                connection,
                privilege,
                on_progress=lambda found: progress.say_copied(host.name, found),
                on_notice=notice,
                stop=stop,
            )
            answer = _answered(host, program, options, work)
            if options.command:
                run = begun.answered(answer.status, answer.value, answer.error)
                troubles += [*record(run), *record_there(run, connection, privilege)]
            return answer
    except TransportError as error:
        answer = HostAnswer(host=host.name, error=HostError(error.kind, str(error), error.fix))
        if options.command and error.kind == "lost":
            troubles += record(begun.answered(answer.status, None, answer.error))
        return answer
    except UsageError:
        raise
    except Exception as error:  # noqa: BLE001 - logged and reported
        return HostAnswer(host=host.name, error=internal_error(host.name, error))
    finally:
        if troubles:
            with progress.silent():
                console.tell(*(f"Warning: {text}" for text in troubles))


def _answered(
    host: Chosen,
    program: HostProgram,
    options: EngineOptions,
    work: Callable[[Chosen, Engines], HostAnswer],
) -> HostAnswer:
    try:
        return work(host, _engines(program, options))
    except BackupError as error:
        failed = HostError("failed", error.message, error.fix)
        return HostAnswer(host=host.name, status="fail", error=failed)


def _engines(program: HostProgram, options: EngineOptions) -> Engines:
    known: dict[str, StorageEngine] = {
        "btrfs": BtrfsEngine(program, options.consents),
        "borg": BorgEngine(program, options.consents),
    }
    if options.engine == "btrfs":
        return Engines((known["btrfs"],), program.host)
    done = program.connection.run(
        ["sh", "-c", _INSTALLED], privilege=program.privilege, deadline_s=_LOOK_S
    )
    found = done.stdout.decode(errors="replace").split()
    watched = next((one for one in found if one not in known and one != "snapshots"), "")
    if watched and (options.engine or "snapshots" not in found):
        raise _watched_only(program.host, watched)
    if options.engine:
        return Engines((known[options.engine],), program.host)
    if "borg" not in found:
        return Engines((known["btrfs"],), program.host)
    every = (known["btrfs"], known["borg"]) if "snapshots" in found else (known["borg"],)
    return Engines(every, program.host)


def _watched_only(host: str, unit: str) -> BackupError:
    return BackupError(
        host,
        f"backups are made by {unit}; rigops only watches their age",
        f"use the tool that {unit} starts; `systemctl start {unit.rpartition('.')[0]}.service` on "
        "the host backs up now",
    )
