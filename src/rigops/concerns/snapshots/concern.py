"""snapshots: read-only snapshots of btrfs subvolumes, pruned, and sent to another disk."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from rigops.concerns.concern import Concern, HostRecord, of_schema
from rigops.concerns.snapshots import NAME, record
from rigops.hostside.packing import installed_at
from rigops.inventory.spec import RigSpec
from rigops.inventory.spec.scalars import Key
from rigops.inventory.spec.storage import snapshots

if TYPE_CHECKING:
    from rigops.facts.sections import SectionFact


def _is_declared(spec: RigSpec) -> bool:
    return spec.snapshots is not None and bool(spec.snapshots.subvolumes)


def _facts(spec: RigSpec) -> Sequence[type[SectionFact[Any]]]:
    from rigops.concerns.snapshots.facts import SnapshotsHostFact

    return (SnapshotsHostFact,) if _is_declared(spec) else ()


def _deploy(spec: RigSpec) -> None:
    from rigops.concerns.snapshots.operations import snapshots_undeclared, take_snapshots

    if spec.snapshots is not None and _is_declared(spec):
        take_snapshots(spec.snapshots)
    else:
        snapshots_undeclared(declared=spec.snapshots is not None)


SNAPSHOTS: Final = Concern(
    name=NAME,
    keys=(Key("snapshots", "a dict of subvolumes, keep and send_to", snapshots),),
    deploy=_deploy,
    facts=_facts,
    keys_made=("*/rigops/snapshots_key",),
    records=(
        HostRecord(
            record.PATH,
            "how old the newest snapshots are is unknown until the next run",
            of_schema(record.SCHEMA),
            "remove it; the next run of rigops-snapshots writes a new one",
        ),
    ),
    self_check=lambda spec: (installed_at(NAME), "check") if _is_declared(spec) else (),
)
