"""acs_redirect: what the ports between the GPUs do with peer traffic."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from rigops.concerns.concern import Concern, HostRecord, of_schema
from rigops.inventory.spec.scalars import word_key
from rigops.probe.sections.rigops_state import STATE

if TYPE_CHECKING:
    from rigops.facts.sections import SectionFact
    from rigops.inventory.spec import RigSpec
    from rigops.plan.change import Change

NAME: Final = "acs"


def _facts(spec: RigSpec) -> Sequence[type[SectionFact[Any]]]:
    from rigops.concerns.acs.facts import Acs

    return (Acs,) if spec.acs_redirect == "off" else ()


def _deploy(spec: RigSpec) -> None:
    from rigops.concerns.acs.operations import acs, consequences
    from rigops.concerns.preconditions.guards import notices

    acs(redirect=spec.acs_redirect)
    if spec.acs_redirect == "off":
        notices(name="Notices", concern=NAME, texts=consequences)


def _records() -> tuple[HostRecord, ...]:
    return (
        HostRecord(
            f"{STATE}/acs.json",
            "ACS redirection that was cleared comes back with the next reboot only",
            of_schema("rigops.acs/1"),
            "reboot the host",
        ),
    )


def _is_another_path(change: Change) -> bool:
    """Ports between the cards are no part of the state that a proof is recorded for."""
    return change.kind == "setting"


ACS: Final = Concern(
    name=NAME,
    keys=(word_key("acs_redirect", "keep", "off"),),
    deploy=_deploy,
    facts=_facts,
    records=_records,
    asks_for_proof=_is_another_path,
)
