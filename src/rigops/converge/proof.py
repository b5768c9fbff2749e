"""Whether the last passed preflight still speaks for a host, and the record of a new one. Pure."""

from __future__ import annotations

from rigops import __version__
from rigops.converge.snapshot import RunSnapshot
from rigops.hostside.p2p.verdict import HIGHEST, REFUSED
from rigops.json_fields import readable
from rigops.probe.sections.rigops_state import RigopsState
from rigops.record import Driver, Proven
from rigops.record.proven import modules_of
from rigops.record.shell import FAILED_PROOF, PROVEN
from rigops.record.trial_boot import without_marks


def observed(host: str, seen: RunSnapshot, *, at: str, inventory_digest: str) -> Proven | None:
    """The state that a proof would be about; None where no driver drives a card."""
    silicon, loaded, kernel = seen.silicon, seen.driver, seen.uname
    if silicon is None or loaded is None or kernel is None or seen.command_line is None:
        return None
    if not silicon.gpus or not loaded.version:
        return None
    modules, build_id = modules_of(seen.modules)
    return Proven(
        host=host,
        at=at,
        rigops=__version__,
        inventory_digest=inventory_digest,
        driver=Driver(loaded.version, loaded.flavor or ""),
        packages={},
        kernel=kernel.release or "",
        command_line=without_marks(seen.command_line.arguments),
        bios=silicon.bios,
        gpus=silicon.gpus,
        level="",
        pairs=(),
        modules=modules,
        build_id=build_id,
    )


def recorded(state: RigopsState | None) -> Proven | None:
    """On the host. A record that cannot be read is no proof, nor is one beside a failed one."""
    if state is None or FAILED_PROOF in state.records:
        return None
    return readable(Proven.from_json, state.records.get(PROVEN))


def missing(state: RigopsState | None, now: Proven | None) -> str:
    """Why this state is to be proven; empty: the recorded proof is one of it."""
    record = recorded(state)
    if still_holds(record, now):
        return ""
    if record is not None and now is not None and record.key() == now.key():
        return f"the last proof ends at {record.level or 'no level'}, and {HIGHEST} can be tried"
    if record is not None:
        return "the last proof is of another driver, kernel, firmware or set of cards"
    has_failed = state is not None and FAILED_PROOF in state.records
    return "the last preflight failed" if has_failed else "no preflight passed yet"


def still_holds(record: Proven | None, now: Proven | None) -> bool:
    """Whether nothing that the proof depends on has changed, and no higher rung could be run."""
    if record is None or now is None or record.key() != now.key():
        return False
    nothing_to_copy = all(pair.verdict in REFUSED for pair in record.pairs)
    return record.level >= HIGHEST or nothing_to_copy
