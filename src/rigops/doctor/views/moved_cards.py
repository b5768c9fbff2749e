"""Whether a trouble went with its card to another slot, or stayed in one with another card."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final, Literal

from rigops.dataclass import dataclass
from rigops.doctor.examined import once
from rigops.probe.address import normal
from rigops.probe.sections.kernel_log import KERNEL_LOG_PREVIOUS, XID_HISTORY
from rigops.probe.sections.kernel_log import SECTION as KERNEL_LOG

if TYPE_CHECKING:
    from rigops.doctor.examined import Examined
    from rigops.doctor.views.incidents import Incident

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


def find_earlier(
    examined: Examined, incident: Incident, others: Iterable[Incident]
) -> Earlier | None:
    """None where the logs do not name the cards, or say both."""
    if incident.number in _OF_ANY_CARD or not (uuid := _uuid(examined, incident)):
        return None
    found = []
    for other in others:
        if other.number != incident.number or _boots(other) & _boots(incident):
            continue
        its_uuid = _uuid(examined, other)
        is_card, is_slot = its_uuid == uuid, other.address == incident.address
        if its_uuid and is_card is not is_slot:
            found.append(Earlier("card" if is_card else "slot", other))
    return found[0] if len({one.follows for one in found}) == 1 else None


def _boots(incident: Incident) -> set[_Boot]:
    return {(one.section, one.xid.entry.boot) for one in incident.reports}


def _uuid(examined: Examined, incident: Incident) -> str | None:
    """This boot's by nvidia-smi too: a card stays where it is while the machine runs."""
    named = _named(examined)
    known = (named.get((boot, incident.address or "")) for boot in _boots(incident))
    if uuid := next(filter(None, known), None):
        return uuid
    cards = examined.cards if incident.boot == "current" else ()
    here = (one.smi.uuid for one in cards if one.smi and one.address == incident.address)
    return next((uuid.lower() for uuid in here if uuid), None)


@once
def _named(examined: Examined) -> dict[tuple[_Boot, str], str]:
    found = {}
    for section in (XID_HISTORY, KERNEL_LOG_PREVIOUS, KERNEL_LOG):
        for line in examined.snapshot[section].or_empty.lines:
            if shape := _NAMED.match(line.message):
                address = f"{normal(shape['address'])}"
                found[(section.name, line.boot), address] = shape["uuid"].lower()
    return found
