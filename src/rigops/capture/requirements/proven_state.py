"""The last apply converged; what it made was proven, and its packages are on this machine."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from rigops.capture.document import Requirement
from rigops.capture.requirements.outcomes import failed, ok, unknown
from rigops.capture.subject import Subject, state_line
from rigops.doctor.card import Card
from rigops.doctor.finding import Evidence
from rigops.doctor.views.proof import last_proof
from rigops.probe.sections.nvidia_smi_xml import SECTION as SMI
from rigops.probe.sections.nvidia_version import SECTION as DRIVER
from rigops.probe.sections.pci import SECTION as PCI
from rigops.record import lockfile
from rigops.record.journal import BEGUN, PYINFRA
from rigops.vault.store import amount

_CONVERGED: Final = frozenset({"converged", "changed"})
_UNVERIFIED: Final = frozenset({"release", PYINFRA})
_APPLY: Final = "rigops apply"
_NOT_COLLECTED: Final = "the records of rigops were not collected whole"
_FIX_RECORDS: Final = "let rigops use sudo on the host, and capture it again"

_SHOWN: Final = 3
_FIX: Final = "rigops apply, which fetches them from the host"


def judge_apply(subject: Subject) -> Requirement:
    if subject.records is None:
        return unknown("apply", _NOT_COLLECTED, _FIX_RECORDS)
    run = subject.last_apply
    if run is None:
        return failed("apply", "no apply is on record", fix=_APPLY)
    evidence = state_line(f"{run.at} {run.command or 'apply'}: {run.outcome}")
    if run.command in _UNVERIFIED or run.outcome not in _CONVERGED:
        ended = "did not end" if run.outcome == BEGUN else f"ended as {run.outcome}"
        return failed(
            "apply",
            f"the last run, {run.command or 'apply'} at {run.at}, {ended}"
            f"{', and nothing verified it' if run.command == PYINFRA else ''}",
            evidence,
            fix=_APPLY,
        )
    if subject.digest and run.inventory_digest != subject.digest:
        return failed(
            "apply",
            f"the inventory was changed since the last {run.command or 'apply'}, at "
            f"{run.at}: what it declares now was never applied",
            evidence,
            fix=_APPLY,
        )
    return ok(
        "apply", f"the last {run.command or 'apply'}, at {run.at}, {_ended(run.outcome)}", evidence
    )


def _ended(outcome: str) -> str:
    return "converged" if outcome == "converged" else "changed the host and converged"


def judge_proof(subject: Subject) -> Requirement:
    """As doctor sees it; one card has nobody to copy to."""
    last = last_proof(subject.examined)
    if last is None:
        return unknown("proof", _NOT_COLLECTED, _FIX_RECORDS)
    cards = subject.examined.cards
    if last.has_failed:
        reasons = last.failed.reasons if last.failed else ()
        return failed(
            "proof",
            "the last preflight failed",
            state_line("; ".join(reasons) or "failed_proof.json"),
            fix="rigops preflight",
        )
    if last.proven is None:
        if len(cards) < 2 or subject.spec.p2p == "skip":  # noqa: PLR2004 - a pair
            return Requirement(id="proof", status="info", summary="no pairs of GPUs to prove")
        return failed("proof", "no preflight passed yet", fix=_APPLY)
    evidence = state_line(f"proven.json: {last.proven.at}, {last.proven.reach}")
    if last.changed:
        changed = ", ".join(last.changed)
        return failed("proof", f"changed since the last proof: {changed}", evidence, fix=_APPLY)
    return ok("proof", f"preflight passed at {last.proven.at} ({last.proven.reach})", evidence)


def judge_driver(subject: Subject) -> list[Requirement]:
    """A reinstall brings the driver that is declared, and no other."""
    locked = subject.locked.driver.version if subject.locked else None
    version = subject.snapshot[DRIVER].or_empty.version or locked
    if subject.spec.driver is not None or version is None:
        return []
    branch = version.partition(".")[0]
    accept = f"rigops capture {subject.host} --accept-no-driver"
    return [
        Requirement(
            id="driver",
            status="warn" if subject.accepts_no_driver else "fail",
            summary=f"driver {version} is not declared: will not be installed",
            evidence=(Evidence(DRIVER.name, version),),
            fix=""
            if subject.accepts_no_driver
            else f'"driver": "{branch}", then rigops apply; or {accept}',
        )
    ]


def judge_lock(subject: Subject) -> Requirement:
    """The lockfile has what was proven on the host last."""
    locked, last = subject.locked, last_proof(subject.examined)
    if locked is None:
        return failed(
            "lock", "the lockfile beside the inventory has no entry of this host", fix=_APPLY
        )
    line = f"{lockfile.SCHEMA}: {locked.at} driver {locked.driver.version}, kernel {locked.kernel}"
    evidence = (Evidence("lockfile", line),)
    proven = last.proven if last else None
    if proven is not None and (
        (proven.driver.version, proven.kernel, proven.command_line, proven.modules)
        != (locked.driver.version, locked.kernel, locked.kernel_args, locked.modules)
    ):
        return failed(
            "lock",
            f"the lockfile has driver {locked.driver.version} with kernel {locked.kernel}, "
            f"the host proved {proven.driver.version} with {proven.kernel}",
            evidence,
            fix=f"{_APPLY}, or fetch the newest lockfile from git",
        )
    return ok(
        "lock",
        f"driver {locked.driver.version}, kernel {locked.kernel}, {len(locked.gpus)} GPUs",
        evidence,
    )


def judge_gpus(subject: Subject) -> list[Requirement]:
    """Every card is in the last proof, and every card of it is there."""
    found = list(_gpu_faults(subject))
    if found:
        return found
    cards = subject.examined.cards
    if not cards and not _proven_cards(subject):
        return [Requirement(id="gpus", status="info", summary="no NVIDIA GPU, and none proven")]
    names = ", ".join(card.address for card in cards)
    return [ok("gpus", f"all {len(cards)} GPUs are in the last proof: {names}", _lines(cards))]


def _gpu_faults(subject: Subject) -> Iterator[Requirement]:
    proven, cards = _proven_cards(subject), subject.examined.cards
    by_uuid = {_uuid(card) for card in cards}
    for uuid, address in proven.items():
        if uuid not in by_uuid:
            yield _absent(subject, uuid, address)
    for card in cards:
        if proven and _uuid(card) and _uuid(card) not in proven:
            yield failed(
                "gpus",
                f"{card.name} is missing from the last proof",
                _lines((card,)),
                subject=card.subject,
                fix=f"{_APPLY}, which proves it too",
            )
    expected = subject.spec.gpus.count if subject.spec.gpus else 0
    if expected > len(cards):
        yield failed(
            "gpus",
            f"{len(cards)} GPUs are here, declared {expected}",
            _lines(cards),
            fix="bring them back, or declare how many there are",
        )


def _absent(subject: Subject, uuid: str, address: str) -> Requirement:
    """It failed where something says that it is gone; a driver that says nothing says neither."""
    smi, pci = subject.snapshot[SMI].or_empty, subject.snapshot[PCI]
    there = {one.address for one in pci.or_empty.nvidia_gpus}
    is_gone = bool(smi.gpus) or address in smi.lost or (pci.is_complete and address not in there)
    lines = [*smi.failure_lines[:1], f"proven: {uuid} {address}"]
    return Requirement(
        id="gpus",
        status="fail" if is_gone else "unknown",
        summary=f"{uuid} was in the last proof and {'is missing' if is_gone else 'is not named'}",
        subject=f"gpu {address}",
        evidence=tuple(Evidence(SMI.name, one) for one in lines),
        fix="bring it back, or apply and prove without it"
        if is_gone
        else "see `rigops doctor`, and capture it again",
    )


def _proven_cards(subject: Subject) -> dict[str, str]:
    """Their addresses by UUID; of the lockfile where the host has no proof of its own."""
    last = last_proof(subject.examined)
    if last is not None and last.proven is not None:
        return {one.uuid: one.address for one in last.proven.gpus}
    return {one.uuid: one.address for one in subject.locked.gpus} if subject.locked else {}


def _uuid(card: Card) -> str | None:
    return card.smi.uuid if card.smi else None


def _lines(cards: tuple[Card, ...]) -> tuple[Evidence, ...]:
    return tuple(Evidence(SMI.name, card.smi.line) for card in cards if card.smi)


def judge_vault(subject: Subject) -> Requirement:
    """Every package that the lockfile names, by its digest."""
    if subject.spec.driver is None:
        return Requirement(id="vault", status="skipped", summary="driver is not declared")
    locked, own = subject.locked, subject.controller
    pinned = locked.sets[0] if locked and locked.sets else None
    if pinned is None:
        return failed("vault", "the lockfile names no packages of the driver", fix=_FIX)
    evidence = (Evidence("lockfile", f"driver {pinned.version}: index {pinned.index}"),)
    if locked and pinned.version != locked.driver.version:
        return failed(
            "vault",
            f"the packages are of driver {pinned.version}, proven was {locked.driver.version}",
            evidence,
            fix=_FIX,
        )
    if own.missing or own.damaged or not own.has_index:
        return failed(
            "vault",
            f"{own.vault} is incomplete: {_what(own.missing, own.damaged)}",
            evidence,
            fix=_FIX,
        )
    return ok(
        "vault",
        f"all {len(pinned.packages)} packages of driver {pinned.version} are in "
        f"{own.vault} ({amount(pinned.size)}, digests checked)",
        evidence,
    )


def _what(missing: tuple[str, ...], damaged: tuple[str, ...]) -> str:
    parts = [
        f"{len(names)} {what} ({', '.join(names[:_SHOWN])}{', …' * (len(names) > _SHOWN)})"
        for what, names in (("missing", missing), ("damaged", damaged))
        if names
    ]
    return "; ".join(parts) or "its index is missing"
