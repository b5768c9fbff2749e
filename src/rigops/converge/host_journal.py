"""A run's records on a host until its release: a line of the journal, and the proven state."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from rigops.concerns.host_records import damaged_records
from rigops.concerns.journal_values import values_of
from rigops.converge.connector import HostChannel
from rigops.converge.errors import DeployError
from rigops.converge.request import RunOptions
from rigops.converge.result import HostResult
from rigops.errors import RigopsError
from rigops.ownership.owned_lines import shown_path
from rigops.ownership.ownership import Ownership
from rigops.packages.records import HOLDS_RECORD, Holds
from rigops.preflight.found import HostFound
from rigops.preflight.headline import failure_text
from rigops.preflight.results import failure, only_over, pairs_of, passed
from rigops.probe.sections.rigops_state import ARGUMENTS, STATE, RigopsState
from rigops.record import Proven, journal
from rigops.record.declared import DeclaredKeys
from rigops.record.journal import BEGUN, MADE, PLANNED, UNSURE
from rigops.record.kernel_arguments import parse_arguments
from rigops.record.proven import FailedProof
from rigops.record.shell import JOURNAL, NOT_A_FILE, READ, adding, recording
from rigops.transport import Result

_DEADLINE_S: Final = 60.0
_TORN: Final = f"the last line of {JOURNAL} was torn; it is ended, so no other line is lost with it"
_JOURNAL_FOLLOWS: Final = "the journal follows"
# Things that no record names: units that systemd knows, holds whose record is lost, then the
# journal. Of a unit whose file is gone systemd may keep a copy, inactive, until its next reload.
_LOOK: Final = f"""
{READ}look() {{ # yes: which of these holds rigops made is not known
    if [ -d /run/systemd/system ]; then
        systemctl reset-failed 'rigops-*' 2>/dev/null
        {{
            systemctl list-units --plain --no-legend 'rigops-*'
            systemctl list-unit-files --no-legend 'rigops-*'
            find /etc/systemd/system -name 'rigops-*' | sed 's#.*/##'
        }} | awk '{{ print "the unit " $1 }}' | sort -u
    fi
    [ "$1" != yes ] || apt-mark showhold | while read -r package; do
        case $package in
            *nvidia* | *cuda* | libnv* | linux-* | proxmox-* | pve-*)
                echo "the hold of $package, whose record is lost"
                ;;
        esac
    done
    echo {_JOURNAL_FOLLOWS}
    lines {JOURNAL}
}}
look "$1"
"""
FORGOTTEN: Final = (STATE, "/usr/local/libexec/rigops", "/run/rigops")
_FORGET: Final = f"rm -rf {' '.join(FORGOTTEN)}"
_LEFT_FIX: Final = "remove by hand what rigops wrote there, then release the host again"


def entry(
    result: HostResult,
    options: RunOptions,
    seconds: float,
    versions: Mapping[str, str],
    *,
    inventory: str = "",
    touched: bool = True,
) -> journal.Run:
    found = result.preflight
    is_refused = result.outcome == "refused"
    return journal.Run(
        host=result.host,
        at=options.at,
        inventory_digest=options.inventory_digest,
        outcome=result.outcome,
        seconds=seconds,
        versions=versions,
        command=options.command,
        changes=() if is_refused else result.plan.meaning,
        snapshot=result.snapshot,
        preflight=journal.Preflight(found.status, found.level or "", pairs_of(found))
        if found
        else None,
        run=options.holder.run,
        who=options.holder.who,
        inventory=inventory,
        reason=_reason(result),
        values=() if is_refused else _values(result),
        touched=touched,
    )


def begun(entry: journal.Run) -> journal.Run:
    """Before its changes, so that the host knows of a run that was cut off."""
    values = tuple(replace(one, state=UNSURE) for one in entry.values)
    return replace(entry, outcome=BEGUN, values=values, touched=True)


def _values(result: HostResult) -> tuple[journal.Value, ...]:
    has_ended = result.outcome in {"changed", "reboot_owed", "converged"}

    def state(concern: str) -> str:
        if has_ended or concern in result.made:
            return MADE
        return UNSURE if concern == result.making else PLANNED

    # A setting that a reboot forgets is made again after it.
    return tuple(dict.fromkeys((*values_of(result.plan, state), *values_of(result.later, state))))


def _reason(result: HostResult) -> str:
    """Why it is not all well, as far as another field does not say so."""
    proof = result.preflight
    waits = result.reboot_reasons if result.outcome == "reboot_owed" else ()
    return "; ".join(
        (
            *([result.error.message] if result.error else []),
            *([f"in the stage {result.broken_off}"] if result.broken_off else []),
            *(f"{one.concern}: {one.reason}" for one in result.blocked),
            *(f"{one.concern}: no longer declared, not undone" for one in result.withheld),
            *(f"reboot pending: {one}" for one in waits),
            *([f"P2P: {failure_text(proof)}"] if proof and result.has_failed_proof else []),
        )
    )


def declare(channel: HostChannel, declared: DeclaredKeys) -> None:
    _run(channel, declared.writing())


def begin(channel: HostChannel, run: journal.Run) -> str:
    """What a person should know of the journal, if anything."""
    return _note(_run(channel, adding(json.dumps(begun(run).as_json()))))


def begin_proof(channel: HostChannel, failed: FailedProof) -> None:
    """Before copies that may be the last that the host does: until they pass, no proof counts."""
    _run(channel, recording(failed=failed))


def record(
    channel: HostChannel,
    run: journal.Run,
    found: HostFound | None,
    proven: Proven | None,
    begun_now: FailedProof | None = None,
) -> str:
    """Notes on the journal, if any.

    `begun_now`: what was recorded before the copies.
    """
    done = _run(
        channel,
        recording(
            json.dumps(run.as_json()),
            proven=proven,
            failed=failure(found, run.at, run.versions) if found else None,
            only_over=only_over(found, begun_now) if found else None,
            has_passed=found is not None and passed(found),
        ),
    )
    return _note(done)


def _note(done: Result) -> str:
    return _TORN if b"torn" in done.stdout.split() else ""


def _run(channel: HostChannel, command: Sequence[str]) -> Result:
    done = channel.run(command, b"", _DEADLINE_S)
    if done.exit_code != 0:
        output = " ".join(done.stderr.decode(errors="replace").split())
        fix = f"move {JOURNAL} away there" if NOT_A_FILE in output else ""
        raise DeployError(f"the run could not be recorded there: {output}", fix=fix)
    return done


def last_look(
    channel: HostChannel,
    state: RigopsState | None,
    *,
    has_lost_holds: bool,
    kept_holds: Collection[str] = (),
) -> tuple[bytes, ...]:
    """The lines of the host's journal, where nothing of rigops but its own records is left.

    `has_lost_holds`: it is not known which packages rigops holds. Raises DeployError with all that
    is left: without the records it would not be undone.
    """
    if state is None:
        raise DeployError("the ownership record there could not be read")
    holds = "yes" if has_lost_holds else ""
    done = channel.run(["sh", "-c", _LOOK, "rigops", holds], b"", _DEADLINE_S)
    found, follows, text = done.stdout.partition(f"{_JOURNAL_FOLLOWS}\n".encode())
    if done.exit_code != 0 or not follows:
        output = " ".join(done.stderr.decode(errors="replace").split())
        raise DeployError(f"remains of rigops there could not be read: {output}")
    left = [*leftovers(state, kept_holds), *found.decode(errors="replace").splitlines()]
    if left:
        named = f"still there, so the host is not forgotten: {', '.join(left)}"
        raise DeployError(named, fix=_LEFT_FIX)
    return tuple(line for line in text.split(b"\n") if line)


def forget(channel: HostChannel) -> None:
    """Remove all records of rigops there, and the packages in its vault."""
    done = channel.run(["sh", "-c", _FORGET], b"", _DEADLINE_S)
    if done.exit_code != 0:
        output = " ".join(done.stderr.decode(errors="replace").split())
        raise DeployError(f"{STATE} could not be removed: {output}")


def leftovers(state: RigopsState, kept_holds: Collection[str] = ()) -> Iterator[str]:
    """By its records and its files."""
    if not state.are_traces_known:
        yield "whatever the host's answer, which is incomplete, would have named"
    for record in damaged_records(state):
        if record.is_refused and record.path != JOURNAL:
            yield f"whatever {record.path} named, which cannot be read"
    owned = Ownership() if state.owned is None else Ownership.parse(state.owned)
    yield from (f"{shown_path(path)} (changed since)" for path in sorted(owned.files))
    yield from state.unrecorded
    yield from state.strays
    yield from (f"the hold of {name}" for name in holds_of(state) if name not in kept_holds)
    if arguments := _arguments(state.records.get(ARGUMENTS)):
        yield f"kernel arguments {' '.join(arguments)}"


def holds_of(state: RigopsState) -> tuple[str, ...]:
    try:
        return tuple(sorted(Holds.parse(state.records.get(HOLDS_RECORD)).holds))
    except RigopsError:
        return ()  # named as damaged


def _arguments(text: str | None) -> tuple[str, ...]:
    try:
        record = parse_arguments(text) if text is not None else None
    except RigopsError:
        return ()  # named as damaged
    return (*record.written, *record.trying) if record else ()
