"""The planned and the final state of each host: rigops.plan/1 and rigops.apply/1."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, field
from typing import TYPE_CHECKING, Literal

from rigops.dataclass import dataclass
from rigops.errors import HostError
from rigops.plan.change import Plan

if TYPE_CHECKING:
    from rigops.backup.root_change import RootChange
    from rigops.converge.gpu_containers import GpuContainer
    from rigops.preflight.found import HostFound
    from rigops.record.lockfile import LockedHost
    from rigops.vault.store import VaultResult

Outcome = Literal[
    "converged",
    "changed",
    "reboot_owed",
    "refused",
    "failed",
    "unreachable",
    "interrupted",
    "not_run",
]

_EXIT_CODES: dict[Outcome, int] = {
    "converged": 0,
    "changed": 0,
    "reboot_owed": 0,
    "refused": 1,
    "failed": 1,
    "unreachable": 3,
    "interrupted": 130,
    "not_run": 1,
}
_GRAVEST_FIRST = (130, 1, 3, 4, 0)


@dataclass(frozen=True)
class Blocker:
    """Declared, and nothing in this run can act on it."""

    concern: str
    keys: tuple[str, ...]
    reason: str


@dataclass(frozen=True)
class Withheld:
    """No longer declared, and not undone, since that was not confirmed."""

    concern: str
    subjects: tuple[str, ...]


@dataclass(frozen=True)
class Override:
    """Another user's declaration, recorded on the host, that this run replaces or undoes."""

    key: str
    value: object
    by: str  # user@machine
    at: str


@dataclass(frozen=True)
class Stage:
    stage: str
    seconds: float


@dataclass
class HostResult:
    """`notices` are what a person should know before agreeing, `story` what happened on the way."""

    host: str
    outcome: Outcome = "not_run"
    plan: Plan = field(default_factory=Plan)  # without what is blocked
    reboot_reasons: tuple[str, ...] = ()
    fails_until_reboot: tuple[str, ...] = ()  # such as CUDA, from the change on
    reboot_waits: str = ""  # for what, although there are reasons
    waits_for: str = ""  # the host whose trouble kept this one from its reboot
    preflight_reason: str = ""  # why apply would end with copies between GPUs
    unfixed: tuple[str, ...] = ()  # checks of doctor whose fixes are not declared
    reboot_hits: tuple[str, ...] = ()  # who and what a reboot would end
    other_debts: tuple[str, ...] = ()  # reboot reasons of concerns outside the selection
    root_snapshot: str = ""  # what is taken before a change, for the plan
    snapshot: str = ""  # the name of the one that was taken, or whose root runs now
    root_change: RootChange | None = None  # of a rollback of the root
    blocked: tuple[Blocker, ...] = ()
    notices: tuple[str, ...] = ()
    undeclared: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    withheld: tuple[Withheld, ...] = ()
    overrides: tuple[Override, ...] = ()
    gpu_containers: tuple[GpuContainer, ...] = ()  # while something may have systemd reload
    kept_holds: tuple[str, ...] = ()  # of a released host: packages that rigops held
    stages: list[Stage] = field(default_factory=list)
    story: list[str] = field(default_factory=list)
    made: list[str] = field(default_factory=list)  # concerns whose changes were all carried out
    making: str = ""  # the one whose changes were being carried out last
    later: Plan = field(default_factory=Plan)  # what was changed after the reboot
    broken_off: str = ""  # the stage that it failed or was interrupted in
    preflight: HostFound | None = None
    has_stopgap: bool = False  # for what failed there, declared
    vault: VaultResult | None = None  # None: there was nothing to do
    lock: LockedHost | None = None  # what it was proven with
    error: HostError | None = None

    @property
    def pending(self) -> bool:
        """Whether apply would change anything, or reboot the host."""
        return self.plan.pending or bool(self.reboot_reasons)

    @property
    def has_failed_proof(self) -> bool:
        return self.preflight is not None and self.preflight.status == "fail"

    @property
    def undone(self) -> frozenset[str]:
        """Concerns that are no longer declared, once that is confirmed."""
        return frozenset(self.undeclared) - {one.concern for one in self.withheld}

    @property
    def status(self) -> str:
        """Of a plan: what an apply would meet."""
        if self.error is not None:
            return "unknown" if self.outcome == "unreachable" else "failed"
        if self.blocked:
            return "refused"
        return "pending" if self.pending else "converged"

    @property
    def plan_code(self) -> int:
        codes = {"unknown": 3, "failed": 1, "refused": 1, "pending": 4}
        return codes.get(self.status, 0)

    @property
    def exit_code(self) -> int:
        code = _EXIT_CODES[self.outcome]
        if self.has_failed_proof:
            return 1
        if code == 0 and self.preflight is not None and self.preflight.status == "unknown":
            return 3
        return 1 if code == 0 and (self.blocked or self.withheld) else code

    def plan_json(self) -> dict[str, object]:
        return {"host": self.host, "status": self.status, **self._planned(), **self._error()}

    def as_json(self) -> dict[str, object]:
        return {
            "host": self.host,
            "outcome": self.outcome,
            "waits_for": self.waits_for or None,
            **self._planned(),
            "withheld": [asdict(one) for one in self.withheld],
            "kept_holds": list(self.kept_holds),
            "stages": [
                {"stage": one.stage, "seconds": round(one.seconds, 3)} for one in self.stages
            ],
            "story": list(self.story),
            "snapshot": self.snapshot,
            "preflight": self.preflight.as_json() if self.preflight else None,
            "vault": asdict(self.vault) if self.vault else None,
            **self._error(),
        }

    def _planned(self) -> dict[str, object]:
        return {
            "changes": [asdict(change) for change in self.plan.changes],
            "packages": asdict(self.plan.packages),
            "repairs": [asdict(one) for one in self.plan.repairs],
            "reboot": bool(self.reboot_reasons),
            "reboot_reasons": list(self.reboot_reasons),
            "fails_until_reboot": list(self.fails_until_reboot),
            "trial": {
                "arguments": list(self.plan.trial_arguments),
                "not_possible": self.plan.no_trial,
            },
            "unfixed": list(self.unfixed),
            "reboot_hits": list(self.reboot_hits),
            "other_debts": list(self.other_debts),
            "snapshot_first": self.root_snapshot,
            "root_change": self.root_change and self.root_change.as_json(),
            "blocked": [asdict(one) for one in self.blocked],
            "overrides": [asdict(one) for one in self.overrides],
            "gpu_containers": [asdict(one) for one in self.gpu_containers],
            "notices": [*self.notices, *map(str, self.plan.shown_later)],
            "undeclared": [
                {"concern": concern, "subjects": list(paths)}
                for concern, paths in self.undeclared.items()
            ],
        }

    def _error(self) -> dict[str, object]:
        return {"error": self.error.as_json()} if self.error is not None else {}


def exit_code(results: Iterable[HostResult]) -> int:
    return gravest(result.exit_code for result in results)


def gravest(codes: Iterable[int]) -> int:
    found = set(codes)
    return next((code for code in _GRAVEST_FIRST if code in found), 0)
