"""The guard's present step on a host, by its own record there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from rigops import json_dataclass, json_fields
from rigops.dataclass import dataclass
from rigops.json_dataclass import Time

PATH: Final = "/run/rigops/thermal_guard.json"
_SCHEMA: Final = "rigops.thermal_guard/1"


@dataclass(frozen=True)
class GuardedCard:
    """`watts`: what the guard has lowered its power limit to. None: it has not."""

    uuid: str
    address: str
    step: str
    why: str
    watts: float | None
    watts_before: float | None


@dataclass(frozen=True, kw_only=True)
class GuardState:
    """`uptime_s`: of the host, when it was written."""

    step: str
    since: Time
    why: str
    suspended: str
    uptime_s: float
    cards: tuple[GuardedCard, ...]


def parse(text: str) -> GuardState:
    return json_dataclass.parse(GuardState, text, schema=_SCHEMA, place=PATH)


def lowered(records: Mapping[str, str]) -> dict[str, GuardedCard]:
    """By UUID and by address, the cards whose power limit the guard holds lower just now."""
    state = json_fields.readable(parse, records.get(PATH))
    cards = [one for one in state.cards if one.watts is not None] if state else []
    return {key: one for one in cards for key in (one.uuid, one.address)}
