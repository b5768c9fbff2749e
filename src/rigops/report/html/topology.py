"""The ways of a host: a drawing for a wide window, one for a phone, and the same as a table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from rigops.doctor.views.bus import Bus, Device
from rigops.power.budget import Budget
from rigops.report.html.drawing import NARROW, WIDE, Drawing, Feed
from rigops.report.html.elements import Html, element, folded, joined, table
from rigops.report.power_words import short


def topology(bus: Bus, feeds: Mapping[str, Feed], host: str) -> Html:
    if not bus.devices:
        return element("p", "No card is known, so nothing is drawn.", class_="missing")
    cards = sum(one.kind == "GPU" for one in bus.devices)
    label = f"{host}: {cards} GPU{'s' * (cards != 1)}, their links and what feeds them"
    return joined(
        *(Drawing(bus, feeds, form).svg(label) for form in (WIDE, NARROW)),
        *(element("p", note, class_="missing") for note in _notes(bus, feeds)),
        folded("The same as a table", _as_table(bus.devices, feeds, label)),
    )


def feeds_of(budget: Budget) -> dict[str, Feed]:
    """By the address of each card. One circuit without a name is all that there is."""
    only = "the circuit" if any(not wall.name for wall in budget.walls) else ""
    return {
        load.address: (supply.name, f"circuit {supply.circuit}" if supply.circuit else only)
        for supply in budget.supplies
        for load in supply.loads
    }


def _notes(bus: Bus, feeds: Mapping[str, Feed]) -> Iterator[str]:
    if bus.gaps:
        yield f"Not collected, so not drawn: {', '.join(bus.gaps)}."
    if not feeds and "the power path" not in bus.gaps:
        yield "The power path is not declared: psus and circuits in the inventory name it."
    if bus.apart:
        apart = ", ".join(f"{count} {kind}" for kind, count in bus.apart)
        yield f"Not drawn, on lanes of their own: {apart}."
    if bus.redirecting:
        ports = ", ".join(map(short, sorted(bus.redirecting)))
        yield f"ACS: the port sends what cards exchange through the CPU ({ports})."


def _as_table(devices: Sequence[Device], feeds: Mapping[str, Feed], label: str) -> Html:
    """Without columns of which nothing is known."""
    columns = {
        "Address": [short(one.address) for one in devices],
        "Device": [one.title for one in devices],
        "Link": [str(one.link) for one in devices],
        "Ports above": [" > ".join(map(short, one.ports or ())) for one in devices],
        "IOMMU group": [one.group for one in devices],
        "Fed by": [", ".join(filter(None, feeds.get(one.address, ()))) for one in devices],
    }
    known = {title: cells for title, cells in columns.items() if any(cells)}
    rows = zip(*([cell or "-" for cell in cells] for cells in known.values()), strict=True)
    return table(known, rows, label)
