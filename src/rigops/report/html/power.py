"""The page of power: the budget of each host, and circuits that several share."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from rigops.doctor.views.bus import Bus, Device, Link
from rigops.power import Load
from rigops.report.closing import Row
from rigops.report.html.budget import budget, circuit
from rigops.report.html.elements import Html, element
from rigops.report.html.page import HostBlock, page
from rigops.report.html.topology import feeds_of, topology
from rigops.report.power import worst_text
from rigops.report.power_words import WORDS

if TYPE_CHECKING:
    from rigops.power.report import PowerReport, SharedCircuit


def power_page(reports: Sequence[PowerReport], circuits: Sequence[SharedCircuit]) -> str:
    shared = [circuit(one) for one in circuits if len(one.shares) > 1]
    heading = element("h2", "Circuits of several hosts")
    return page(
        "rigops power",
        [_block(one) for one in reports],
        element("section", heading, *shared) if shared else None,
    )


def _block(report: PowerReport) -> HostBlock:
    away = f"not reached: {report.error.message}" if report.error else ""
    return HostBlock(
        row=Row(report.host, report.status, WORDS[report.status], worst_text(report)),
        about=away,
        parts=tuple(_parts(report)),
    )


def _parts(report: PowerReport) -> Iterator[tuple[str, Html]]:
    yield "Budget", budget(report)
    if report.power.loads:
        devices = (
            Device(address=one.address, kind="GPU", name=_name(one), ports=None, link=Link())
            for one in report.power.loads
        )
        yield (
            "Power path",
            topology(Bus(devices=tuple(devices)), feeds_of(report.budget), report.host),
        )


def _name(load: Load) -> str:
    name = load.name.removeprefix("GeForce ")
    return name if load.watts is None else f"{name}, {load.watts:g} W"
