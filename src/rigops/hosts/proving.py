"""Preflight of many hosts. Its results are recorded here, and on hosts with records of rigops."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final

from rigops.catalog import Catalog
from rigops.dataclass import dataclass
from rigops.errors import HostError, RigopsError
from rigops.hosts.access import Chosen, HostAccess
from rigops.hosts.parallel import Console, HostProgress, for_each
from rigops.hostside.p2p.verdict import SKIPPED, UNKNOWN
from rigops.preflight.found import HostFound, PairFound
from rigops.preflight.inside import prove_inside
from rigops.preflight.results import begun, failure, only_over, pairs_of, passed
from rigops.preflight.run import prove
from rigops.preflight.siblings import LastRates, last_rates
from rigops.probe.sections.rigops_state import STATE
from rigops.record import journal
from rigops.record.journal import Preflight, Run
from rigops.record.proven import FailedProof
from rigops.record.shell import recording
from rigops.transport import Connection, TransportError, connect
from rigops.transport.errors import clean
from rigops.transport.privilege import WITHOUT_PASSWORD

if TYPE_CHECKING:
    from rigops.inventory.spec import RigSpec

_RECORD_S: Final = 60.0
_WHERE_MANAGED: Final = f'test -d {STATE} || exit 0; exec "$@"'


@dataclass(frozen=True, kw_only=True)
class ProofOptions:
    """`pairs`: empty for all of a host. `container`: the one to run in; empty: none."""

    access: HostAccess
    catalog: Callable[[RigSpec | None], Catalog]
    level: str
    pairs: tuple[tuple[str, str], ...] = ()
    container: str = ""


def prove_hosts(
    chosen: Sequence[Chosen], options: ProofOptions, console: Console
) -> list[HostFound]:
    with console.progress("connecting") as progress:
        asking = replace(options, access=options.access.asking(progress.silent))

        def warn(troubles: Sequence[str]) -> None:
            if troubles:
                with progress.silent():
                    console.tell(*(f"Warning: {text}" for text in troubles))

        return for_each(chosen, lambda host: _prove(host, asking, progress, warn))


def _prove(
    chosen: Chosen,
    options: ProofOptions,
    progress: HostProgress,
    warn: Callable[[Sequence[str]], None],
) -> HostFound:
    started, began = journal.now(), time.monotonic()
    recorded: list[FailedProof] = []
    progress.begin(chosen.name)

    def reach() -> Connection:
        return connect(chosen.target, host_keys=options.access.host_keys)

    def begin(at_stake: Sequence[PairFound]) -> None:
        recorded.append(begun(at_stake, started, {}))
        warn(_record_there(chosen.name, connection, recording(failed=recorded[0])))

    try:
        with reach() as connection:
            if options.container:  # it proves nothing of the host, so nothing is recorded
                inside = prove_inside(
                    chosen.name,
                    connection,
                    chosen.spec,
                    options.container,
                    level=options.level,
                    pairs=options.pairs,
                    catalog=options.catalog(chosen.spec),
                    reconnect=reach,
                    progress=partial(progress.say, chosen.name),
                )
                return replace(inside, at=started)
            found = prove(
                chosen.name,
                connection,
                chosen.spec,
                level=options.level,
                pairs=options.pairs,
                last=_last_rates(chosen.name),
                catalog=options.catalog(chosen.spec),
                reconnect=reach,
                progress=partial(progress.say, chosen.name),
                before_copies=begin,
            )
            found = replace(found, at=started)
            if options.level != "quick" and found.status != SKIPPED:
                seconds = round(time.monotonic() - began, 3)
                run = _run_of(found, started, seconds)
                begun_now = recorded[0] if recorded else None
                warn(_record(run, found, begun_now, connection, reach))
                if passed(found):
                    warn(_take_baseline(chosen, options, connection))
            return found
    except TransportError as error:
        why = HostError(error.kind, str(error))
        return HostFound(host=chosen.name, status=UNKNOWN, at=started, error=why)
    finally:
        progress.say(chosen.name, "")


def _take_baseline(chosen: Chosen, options: ProofOptions, connection: Connection) -> Sequence[str]:
    """Gives why none was stored."""
    from rigops.hosts.baselines import take_after_proof  # noqa: PLC0415 - brings every check

    catalog = options.catalog(chosen.spec)
    taken = take_after_proof(
        connection, None, chosen.spec, catalog, host=chosen.name, by="preflight"
    )
    return [] if taken.is_stored else [taken.text]


def _last_rates(host: str) -> LastRates | None:
    """Of this machine's records."""
    with suppress(RigopsError):
        return last_rates(journal.read(host=host).runs)
    return None


def _run_of(found: HostFound, at: str, seconds: float) -> Run:
    return Run(
        host=found.host,
        at=at,
        inventory_digest="",
        outcome="proven" if passed(found) else "not_proven",
        seconds=seconds,
        versions={},
        preflight=Preflight(found.status, found.level or "", pairs_of(found)),
        command="preflight",
        run=str(uuid.uuid4()),
        who=journal.who(),
        reason="; ".join(found.reasons),
    )


def _record(
    run: Run,
    found: HostFound,
    begun_now: FailedProof | None,
    connection: Connection,
    reach: Callable[[], Connection],
) -> Sequence[str]:
    """Here, and on a host that rigops keeps records on. Gives what could not be recorded."""
    command = recording(
        json.dumps(run.as_json()),
        failed=failure(found, run.at, run.versions),
        only_over=only_over(found, begun_now),
        has_passed=passed(found),
    )
    try:
        journal.append(run)
        if found.error is None:
            return _record_there(run.host, connection, command)
        with reach() as again:
            return _record_there(run.host, again, command)
    except RigopsError as error:
        return [f"{run.host}: the result is not recorded everywhere: {error}"]


def _record_there(host: str, connection: Connection, command: Sequence[str]) -> Sequence[str]:
    words = ("sh", "-c", _WHERE_MANAGED, "rigops", *WITHOUT_PASSWORD.argv, *command)
    done = connection.run(words, deadline_s=_RECORD_S)
    if done.exit_code == 0:
        return []
    said = clean(done.stderr) or f"exit status {done.exit_code}"
    text = f"{host}: not recorded on the host ({said}), so doctor and apply do not use it"
    return [f"{text}: log in as root, or allow sudo without a password"]
