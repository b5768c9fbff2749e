"""Whether a trouble went with its card to another slot, or stayed in one with another card."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Final, Literal

from rigops.dataclass import dataclass
from rigops.doctor.examined import Examined, once
from rigops.doctor.views.incidents import Incident
from rigops.probe.address import normal
from rigops.probe.sections.kernel_log import KERNEL_LOG_PREVIOUS, XID_HISTORY
from rigops.probe.sections.kernel_log import SECTION as KERNEL_LOG

# Before the first Xid of a card in a boot.
_NAMED: Final = re.compile(
    r"^NVRM: GPU at PCI:(?P<address>(?:[0-9a-f]{4,8}:)?[0-9a-f]{2}:[0-9a-f]{2}): "
    r"(?P<uuid>GPU-[0-9a-f-]{36})",
    re.IGNORECASE,
)
# Programs cause them on whatever card they run, or they clean up after others.
_OF_ANY_CARD: Final = frozenset({13, 31, 43, 45, 154})
_Boot = tuple[str, int]  # a section, and a boot in it


@dataclass(frozen=True)
class Earlier:
    """The same trouble in another boot, of the same card or in the same slot."""

    follows: Literal["card", "slot"]
    incident: Incident


def find_earlier(examined: Examined, found: Sequence[Incident]) -> list[Earlier | None]:
    """For each of them. None where the logs do not name the cards, or say both."""
    uuids = [None if one.number in _OF_ANY_CARD else _uuid(examined, one) for one in found]
    alike: dict[object, list[int]] = defaultdict(list)
    for at, (one, uuid) in enumerate(zip(found, uuids, strict=True)):
        if uuid:
            alike[one.number, uuid].append(at)
            alike[one.number, one.address].append(at)
    return [
        _earlier(found, uuids, at, {*alike[one.number, uuid], *alike[one.number, one.address]})
        if uuid
        else None
        for at, (one, uuid) in enumerate(zip(found, uuids, strict=True))
    ]


def _earlier(
    found: Sequence[Incident], uuids: Sequence[str | None], at: int, others: Iterable[int]
) -> Earlier | None:
    told = []
    for other in sorted(others):
        is_card, is_slot = uuids[other] == uuids[at], found[other].address == found[at].address
        if is_card is not is_slot and not _boots(found[other]) & _boots(found[at]):
            told.append(Earlier("card" if is_card else "slot", found[other]))
    return told[0] if len({one.follows for one in told}) == 1 else None


def _boots(incident: Incident) -> set[_Boot]:
    return {(one.section, one.xid.entry.boot) for one in incident.reports}


def _uuid(examined: Examined, incident: Incident) -> str | None:
    """This boot's by nvidia-smi too: a card stays where it is while the machine runs."""
    named = _named(examined)
    known = (named.get((boot, incident.address or "")) for boot in _boots(incident))
    if uuid := next(filter(None, known), None):
        return uuid
    return _here(examined).get(incident.address) if incident.boot == "current" else None


@once
def _here(examined: Examined) -> dict[str | None, str]:
    cards = ((one.address, one.smi.uuid) for one in examined.cards if one.smi)
    return {address: uuid.lower() for address, uuid in cards if uuid}


@once
def _named(examined: Examined) -> dict[tuple[_Boot, str], str]:
    found = {}
    for section in (XID_HISTORY, KERNEL_LOG_PREVIOUS, KERNEL_LOG):
        for line in examined.snapshot[section].or_empty.lines:
            if shape := _NAMED.match(line.message):
                address = f"{normal(shape['address'])}"
                found[(section.name, line.boot), address] = shape["uuid"].lower()
    return found
