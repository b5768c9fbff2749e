"""Requirements before the disk of a host may be wiped: pure functions of a Subject."""

from __future__ import annotations

from typing import Final

from rigops.capture.document import Requirement
from rigops.capture.requirements.backups import judge_backups
from rigops.capture.requirements.places import judge_coverage, judge_disks
from rigops.capture.requirements.proven_state import (
    judge_apply,
    judge_driver,
    judge_gpus,
    judge_lock,
    judge_proof,
    judge_vault,
)
from rigops.capture.requirements.secrets import judge_host_keys, judge_key, judge_passphrase
from rigops.capture.subject import Subject

_GRAVEST: Final = ("fail", "unknown", "warn", "ok", "info", "skipped")


def judge(subject: Subject) -> tuple[Requirement, ...]:
    """Every requirement, the gravest first."""
    every = [
        judge_apply(subject),
        judge_proof(subject),
        *judge_gpus(subject),
        *judge_driver(subject),
        judge_lock(subject),
        judge_vault(subject),
        judge_key(subject),
        judge_passphrase(subject),
        *judge_backups(subject),
        *judge_disks(subject),
        judge_host_keys(subject),
        *judge_coverage(subject),
    ]
    return tuple(sorted(every, key=lambda one: _GRAVEST.index(one.status)))
