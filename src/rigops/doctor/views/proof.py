"""The last recorded preflight of a host, and whether it still holds."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from rigops.dataclass import dataclass
from rigops.doctor.finding import Finding
from rigops.hostside.p2p.verdict import ALONE, REFUSED
from rigops.json_fields import readable
from rigops.probe.sections.nvidia_version import SECTION as DRIVER
from rigops.probe.sections.own_modules import SECTION as OWN_MODULES
from rigops.probe.sections.proc_cmdline import SECTION as COMMAND_LINE
from rigops.probe.sections.rigops_state import SECTION as RIGOPS_STATE
from rigops.probe.sections.uname import SECTION as UNAME
from rigops.record import Proven
from rigops.record.proven import FailedProof, modules_of
from rigops.record.shell import FAILED_PROOF, PROVEN
from rigops.record.trial_boot import without_marks

if TYPE_CHECKING:
    from rigops.doctor.examined import Examined

NEEDS: Final = (RIGOPS_STATE, DRIVER, UNAME, COMMAND_LINE, OWN_MODULES)


@dataclass(frozen=True)
class LastProof:
    """`changed`: what a proof depends on and is no longer as it was then."""

    proven: Proven | None = None
    failed: FailedProof | None = None
    has_failed: bool = False  # also where the record of it is damaged
    changed: tuple[str, ...] = ()

    @property
    def holds(self) -> bool:
        return self.proven is not None and not self.has_failed and not self.changed


def last_proof(examined: Examined) -> LastProof | None:
    """None: its records were not collected whole."""
    answer = examined.snapshot[RIGOPS_STATE]
    if answer.value is None or not answer.is_complete:
        return None
    records = answer.value.records
    failed = readable(FailedProof.from_json, records.get(FAILED_PROOF))
    proven = readable(Proven.from_json, records.get(PROVEN))
    changed = tuple(_changed(examined, proven)) if proven else ()
    return LastProof(proven, failed, FAILED_PROOF in records, changed)


def outranked(examined: Examined, suspicion: Finding, *, costs: str) -> Finding:
    """A state that preflight passed for is not a fault, whatever else looks suspicious.

    `costs`: what may be worse all the same. Copies alone do not outrank it.
    """
    last = last_proof(examined)
    proven = last.proven if last and last.holds else None
    if proven is None or proven.level < ALONE or suspicion.status not in {"fail", "warn"}:
        return suspicion
    verdicts = {one.verdict for one in proven.pairs}
    if "ok" not in verdicts or not verdicts <= {"ok", *REFUSED}:
        return suspicion
    passed = f"preflight passed all the same ({proven.at[:10]}, level {proven.level})"
    return replace(
        suspicion, status="info", summary=f"{suspicion.summary}; {passed}", why=costs, fix=None
    )


def _changed(examined: Examined, proven: Proven) -> Iterator[str]:
    """Facts that were not collected count as unchanged."""
    snapshot = examined.snapshot
    driver, kernel = snapshot[DRIVER].value, snapshot[UNAME].value
    line = snapshot[COMMAND_LINE].value
    if driver and driver.version and driver.version != proven.driver.version:
        yield f"the driver ({proven.driver.version} then)"
    if kernel and kernel.release and kernel.release != proven.kernel:
        yield f"the kernel ({proven.kernel} then)"
    if line and without_marks(line.arguments) != proven.command_line:
        yield "the kernel arguments"
    own = snapshot[OWN_MODULES].value
    if own is not None and modules_of(own) != (proven.modules, proven.build_id):
        yield f"the kernel modules ({proven.modules[:16]} then)"
    there = {card.address for card in examined.cards}
    if there and there != {gpu.address for gpu in proven.gpus}:
        yield "the cards"
