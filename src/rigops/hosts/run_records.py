"""What a person ran besides apply, in the journal of this machine and that of the host."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import field
from typing import TYPE_CHECKING, Any, Final

from rigops.dataclass import dataclass
from rigops.errors import HostError, RigopsError
from rigops.record import journal
from rigops.record.shell import adding
from rigops.transport import Connection, Privilege, TransportError
from rigops.transport.errors import clean

if TYPE_CHECKING:
    from rigops.hosts.access import Chosen

_RECORD_S: Final = 60.0
_NAMED: Final = 4


@dataclass(frozen=True)
class Beginning:
    host: Chosen
    command: str
    at: str = field(default_factory=journal.now)
    _began: float = field(default_factory=time.monotonic)

    def ended(
        self,
        outcome: str,
        *,
        changes: tuple[str, ...] = (),
        reason: str = "",
        touched: bool = True,
    ) -> journal.Run:
        return journal.Run(
            host=self.host.name,
            at=self.at,
            inventory_digest=self.host.digest,
            outcome=outcome,
            seconds=round(time.monotonic() - self._began, 3),
            versions={},
            preflight=None,
            command=self.command,
            changes=changes,
            run=str(uuid.uuid4()),
            who=journal.who(),
            reason=reason,
            touched=touched,
        )

    def answered(self, status: str, value: object, error: HostError | None) -> journal.Run:
        """`value`: the document of a storage engine."""
        done = value if isinstance(value, Mapping) else {}
        return self.ended(
            "failed" if status == "fail" else status,
            changes=tuple(_changes(self.command, done)),
            reason=error.message if error else "; ".join(_reasons(done)),
        )


def record(run: journal.Run) -> list[str]:
    """On this machine. Gives what could not be recorded."""
    try:
        journal.append(run)
    except RigopsError as error:
        return [str(error)]
    return []


def record_there(run: journal.Run, connection: Connection, privilege: Privilege) -> list[str]:
    line = json.dumps(run.as_json())
    try:
        done = connection.run(adding(line), privilege=privilege, deadline_s=_RECORD_S)
    except TransportError as error:
        output = str(error)
    else:
        if done.exit_code == 0:
            return []
        output = clean(done.stderr) or f"exit status {done.exit_code}"
    return [f"{run.host}: its own journal lacks this {run.command}: {output}"]


def _changes(command: str, done: Mapping[str, Any]) -> Iterator[str]:
    if command == "restore" and done.get("restored_to"):
        source = " ".join(str(done[key]) for key in ("engine", "place", "name") if done.get(key))
        yield f"{done['restored_to']} from {source}, of {done.get('at')}"
        if done.get("aside"):
            yield f"the one before is at {done['aside']}"
    for key, verb in (("created", "taken"), ("pruned", "removed"), ("sent", "sent")):
        names = dict.fromkeys(str(one["name"]) for one in done.get(key, ()) if one.get("name"))
        if names:
            more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
            yield f"{', '.join(list(names)[:_NAMED])}{more} {verb}"
    if command == "drill" and done.get("files") is not None:
        yield f"{done['files']} files restored and compared"


def _reasons(done: Mapping[str, Any]) -> Iterator[str]:
    for error in done.get("errors", ()):
        yield str(error.get("message"))
    for key in ("error", "to_do"):
        if done.get(key):
            yield str(done[key])
