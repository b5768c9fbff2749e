"""How many lanes a card has, could have, and is given by the port above it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rigops.doctor.finding import Evidence
from rigops.doctor.views import pcie
from rigops.probe.sections.lspci import SECTION as LSPCI
from rigops.probe.sections.pci import SECTION as PCI

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rigops.doctor.views.cards import Card
    from rigops.probe.sections.pci import Link
    from rigops.probe.snapshot import HostSnapshot

# A function that is gone reads as 63 or 255 lanes.
_WIDTHS = frozenset({1, 2, 4, 8, 12, 16, 32})


@dataclass(frozen=True)
class Lanes:
    """None is what no source tells."""

    now: int | None
    own: int | None  # of the card
    port: int | None  # of what it is plugged into
    evidence: tuple[Evidence, ...]

    @property
    def expected(self) -> int | None:
        if self.own is None or self.port is None:
            return None
        return min(self.own, self.port)


def of(snapshot: HostSnapshot, card: Card) -> Lanes:
    function, listed, smi = card.function, card.lspci, card.smi
    status = listed.link_status if listed else None
    capability = listed.link_capability if listed else None
    now = _least(
        _width(function.link if function and pcie.is_complete(function) else None),
        status.width if status else None,
        smi.width if smi else None,
    )
    own = _most(
        _width(function.fastest_link if function and pcie.is_complete(function) else None),
        capability.width if capability else None,
    )
    said = [
        Evidence(PCI.name, function.line) if function else None,
        Evidence(LSPCI.name, status.line) if status else None,
    ]
    port, about_port = _of_port(snapshot, card)
    by_model = card.model.pcie_width if card.model else None
    return Lanes(now, own or by_model, port, tuple(one for one in (*said, about_port) if one))


def _of_port(snapshot: HostSnapshot, card: Card) -> tuple[int | None, Evidence | None]:
    address = pcie.port_above(snapshot, card.address)
    functions = snapshot[PCI].or_empty.functions
    function = next((one for one in functions if one.address == address), None)
    listed = pcie.by_address(snapshot).get(address or "")
    capability = listed.link_capability if listed else None
    width = _most(
        _width(function.fastest_link if function and pcie.is_complete(function) else None),
        capability.width if capability else None,
    )
    if function:
        return width, Evidence(PCI.name, function.line)
    return width, Evidence(LSPCI.name, capability.line) if capability else None


def _width(link: Link | None) -> int | None:
    return link.width if link else None


def _least(*widths: int | None) -> int | None:
    return min(_known(widths), default=None)


def _most(*widths: int | None) -> int | None:
    return max(_known(widths), default=None)


def _known(widths: Iterable[int | None]) -> list[int]:
    return [width for width in widths if width in _WIDTHS]
