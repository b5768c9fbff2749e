"""borg: encrypted backups that are checked and tried, or the watch over those of another tool."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from rigops.concerns.borg import NAME, record
from rigops.concerns.concern import Concern, HostRecord, of_schema
from rigops.hostside.packing import installed_at
from rigops.inventory.spec import RigSpec
from rigops.inventory.spec.scalars import Key
from rigops.inventory.spec.storage import borg

if TYPE_CHECKING:
    from rigops.facts.sections import SectionFact


def _is_managed(spec: RigSpec) -> bool:
    return spec.borg is not None and spec.borg.managed and bool(spec.borg.repository)


def _facts(spec: RigSpec) -> Sequence[type[SectionFact[Any]]]:
    from rigops.concerns.borg.facts import BorgHostFact

    return (BorgHostFact,) if _is_managed(spec) else ()


def _deploy(spec: RigSpec) -> None:
    from rigops.concerns.borg.operations import back_up, borg_undeclared, watch

    if spec.borg is not None and _is_managed(spec):
        back_up(spec.borg, vault=spec.rigops_vault)
    elif spec.borg is not None and not spec.borg.managed:
        watch(spec.borg)
    else:
        borg_undeclared(declared=spec.borg is not None)


def _self_check(spec: RigSpec) -> Sequence[str]:
    from rigops.concerns.borg.decide import watch_check

    if spec.borg is not None and not spec.borg.managed:
        return watch_check()
    return (installed_at(NAME), "check") if _is_managed(spec) else ()


BORG: Final = Concern(
    name=NAME,
    keys=(
        Key(
            "borg",
            "a dict of repository, paths, exclude, checkpoints, keep, schedule, check_every, "
            "host_keys and passphrase_command, or of managed, unit and newest",
            borg,
            stays_here=True,
            # No host may say which command this machine runs: the passphrase's is none of them.
            recorded_parts=(
                *("repository", "paths", "exclude", "checkpoints", "keep", "schedule"),
                *("check_every", "host_keys", "managed", "unit", "newest"),
            ),
        ),
    ),
    deploy=_deploy,
    facts=_facts,
    keys_made=("*/rigops/borg_key",),
    records=(
        HostRecord(
            record.PATH,
            "how old the newest backup is, and whether it was checked, is unknown until the next "
            "run",
            of_schema(record.SCHEMA),
            "remove it; the next run of rigops-borg writes a new one",
        ),
        HostRecord(
            record.KEY_PATH,
            "whether the key of the repository was exported is unknown",
            of_schema(record.KEY_SCHEMA),
            "remove it; the next apply exports the key again",
        ),
    ),
    self_check=_self_check,
)
