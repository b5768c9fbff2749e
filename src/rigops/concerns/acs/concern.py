"""acs_redirect: what the ports between the GPUs do with peer traffic."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from rigops.concerns.acs.state import RECORD, SCHEMA
from rigops.concerns.concern import Concern, HostRecord, States, of_schema
from rigops.concerns.state import State
from rigops.inventory.spec import RigSpec
from rigops.inventory.spec.scalars import word_key
from rigops.probe.section import Section

if TYPE_CHECKING:
    from rigops.catalog import Catalog
    from rigops.facts.sections import SectionFact
    from rigops.plan.change import Change
    from rigops.probe.snapshot import HostSnapshot

NAME: Final = "acs"


def _facts(spec: RigSpec) -> Sequence[type[SectionFact[Any]]]:
    from rigops.concerns.acs.operations import Acs

    return (Acs,) if spec.acs_redirect == "off" else ()


def _deploy(spec: RigSpec) -> None:
    from rigops.concerns.acs.operations import acs, consequences
    from rigops.concerns.preconditions.guards import notices

    acs(redirect=spec.acs_redirect)
    if spec.acs_redirect == "off":
        notices(name="Notices", concern=NAME, texts=consequences)


def _needs() -> Sequence[Section[Any]]:
    from rigops.concerns.acs import decide

    return decide.NEEDS


def _states(spec: RigSpec, snapshot: HostSnapshot, _: Catalog) -> Sequence[State]:
    from rigops.concerns.acs import decide

    return decide.states(spec.acs_redirect, snapshot)


def _is_another_path(change: Change) -> bool:
    """Ports between the cards are no part of the state that a proof is recorded for."""
    return change.kind == "setting"


ACS: Final = Concern(
    name=NAME,
    keys=(word_key("acs_redirect", "keep", "off"),),
    deploy=_deploy,
    facts=_facts,
    records=(
        HostRecord(
            RECORD,
            "ACS redirection that was cleared comes back with the next reboot only",
            of_schema(SCHEMA),
            "reboot the host",
        ),
    ),
    states=States(needs=_needs, judge=_states),
    asks_for_proof=_is_another_path,
)
