"""The key of the repository, its passphrase and the host's ssh keys outlive the disk."""

from __future__ import annotations

from typing import Final

from rigops.capture.document import Requirement
from rigops.capture.requirements.outcomes import failed, ok
from rigops.capture.subject import Subject, state_line
from rigops.doctor.finding import Evidence

_NO_BORG: Final = "borg is not declared, or not managed by rigops"


def judge_key(subject: Subject) -> Requirement:
    """Its copy in the vault is of this repository, and is the one that the repository has now."""
    declared, state = subject.managed_borg, subject.borg_state
    if declared is None:
        return Requirement(id="borg.key", status="skipped", summary=_NO_BORG)
    own, proof = subject.controller, subject.controller.passphrase
    if state is None or not state.repository.id:
        return failed(
            "borg.key",
            f"{declared.repository} was never opened, so its key was never exported",
            fix="rigops apply",
        )
    evidence = state_line(f"repository {state.repository.id}")
    if own.key is None:
        return failed(
            "borg.key",
            f"the key of {declared.repository} is not exported to {own.vault}",
            evidence,
            fix="rigops apply, which exports it",
        )
    if proof.key and proof.key != own.key_digest:
        return failed(
            "borg.key",
            f"{own.key} is another key than the repository has now",
            evidence,
            fix=f"move {own.key} away, then rigops apply, which exports it again",
        )
    return ok("borg.key", f"exported to {own.key}", evidence)


def judge_passphrase(subject: Subject) -> Requirement:
    """As this machine has it: what the host has is encrypted with a key that dies with its root."""
    declared, proof = subject.managed_borg, subject.controller.passphrase
    if declared is None:
        return Requirement(id="borg.passphrase", status="skipped", summary=_NO_BORG)
    if proof.state == "opened":
        return ok(
            "borg.passphrase",
            f"passphrase_command opens {declared.repository}",
            (Evidence("controller", "borg list, with the passphrase of this machine"),),
        )
    return Requirement(
        id="borg.passphrase",
        status="unknown" if proof.state == "untried" else "fail",
        summary=proof.why or "the passphrase was not tried",
        evidence=(Evidence("controller", proof.why),) if proof.why else (),
        fix=proof.fix,
    )


def judge_host_keys(subject: Subject) -> Requirement:
    """Without them the host gets new ones, which everybody who logs in has to accept."""
    declared, state, run = subject.managed_borg, subject.borg_state, subject.last_apply
    if declared is not None and declared.host_keys:
        newest = state.newest_at if state else None
        is_older = newest is None or (run is not None and newest < run.at)
        return Requirement(
            id="host_keys",
            status="warn" if is_older else "ok",
            summary="no backup since the last apply: it may lack the host's ssh keys"
            if is_older
            else f"the host's ssh keys are in {declared.repository}",
            evidence=state_line(newest or "no backup"),
            fix=f"rigops backup {subject.host}" if is_older else "",
        )
    return Requirement(
        id="host_keys",
        status="info",
        summary="the host's ssh keys are in no backup: it gets new ones, and everybody who logs "
        "in has to accept them",
        fix='declare "host_keys": True in borg, then rigops apply and rigops backup',
    )
