"""Doctor's page."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from rigops.dataclass import dataclass
from rigops.doctor.examined import Examined
from rigops.doctor.host_report import MORE, HostReport
from rigops.doctor.views import bus, peers
from rigops.doctor.views.host_power import find_measured, find_power
from rigops.doctor.views.proof import last_proof
from rigops.power import Neighbors
from rigops.power.report import PowerReport
from rigops.probe.sections.p2p_bandwidth_test import SECTION as P2P_TEST
from rigops.report.doctor import row_of
from rigops.report.doctor_details import about_host, not_checked
from rigops.report.html import matrix
from rigops.report.html.budget import budget
from rigops.report.html.elements import Html, element
from rigops.report.html.findings import findings
from rigops.report.html.page import HostBlock, page
from rigops.report.html.stories import stories
from rigops.report.html.topology import feeds_of, topology

_DUTY: Final = 50


@dataclass(frozen=True)
class ExaminedHost:
    """`examined`: None where it was not reached."""

    report: HostReport
    examined: Examined | None


def doctor_page(hosts: Sequence[ExaminedHost]) -> str:
    return page("rigops doctor", [_block(one) for one in hosts])


def _block(host: ExaminedHost) -> HostBlock:
    report = host.report
    when = f"collected at {report.collected_at}" if report.collected_at else ""
    about = not_checked(report) or about_host(report)
    return HostBlock(
        row=row_of(report, is_shown=False, has_plan=False),
        about=", ".join(filter(None, (about, when))),
        notes=tuple(_notes(report)),
        parts=tuple(_parts(report, host.examined)),
    )


def _notes(report: HostReport) -> Iterator[str]:
    yield from report.notes
    if report.error and report.error.fix:
        yield f"fix: {report.error.fix}"
    if report.unparsed:
        pieces = ", ".join(f"{count} of {name}" for name, count in report.unparsed.items())
        yield f"unparsed lines, not checked: {pieces}"
    if report.decided_by:
        yield f"{MORE}: {report.decided_by}"


def _parts(report: HostReport, examined: Examined | None) -> Iterator[tuple[str, Html]]:
    if report.stories:
        yield "What happened", stories(report)
    if report.findings:
        yield "Findings", findings(report)
    if examined is None:
        return
    power = power_of(examined, report)
    feeds = feeds_of(power.budget)
    yield "Topology", topology(bus.find_bus(examined), feeds, report.host)
    if len(examined.cards) > 1:
        yield "Peer to peer", _copies(examined)
    if power.power.loads or power.power.feeds.are_declared:
        yield "Power", budget(power)


def power_of(examined: Examined, report: HostReport) -> PowerReport:
    return PowerReport(
        power=find_power(examined, report.host),
        source="local" if report.source == "local" else "ssh",
        duty_percent=_DUTY,
        price=examined.spec.electricity_price,
        others=Neighbors(examined.neighbors).shares(examined.catalog),
        measured=find_measured(examined.snapshot),
    )


def _copies(examined: Examined) -> Html:
    """The best that is known: what preflight proved, what a program measured, what is granted."""
    addresses = [card.address for card in examined.cards]
    last = last_proof(examined)
    if last and last.failed and last.failed.pairs:
        caption = f"Preflight failed at {last.failed.at}"
        return matrix.matrix(addresses, matrix.of_records(last.failed.pairs), caption)
    if last and last.proven and last.proven.pairs:
        caption = f"Preflight of {last.proven.at}, {last.proven.reach}: GB/s"
        if last.changed:
            caption += f". It no longer holds: {', '.join(last.changed)} changed"
        return matrix.matrix(addresses, matrix.of_records(last.proven.pairs), caption)
    for run in examined.snapshot[P2P_TEST].or_empty.runs:
        for one in run.matrices:
            if one.quantity == "unidirectional" and one.is_enabled:
                names = [run.addresses.get(at, str(at)) for at in sorted({*one.rows})]
                cells = matrix.of_rates(one.cells, run.addresses)
                return matrix.matrix(names, cells, f"Pasted: {one.title}, GB/s")
    pairs = peers.pairs(examined)
    if any(pair.there or pair.back or pair.link for pair in pairs):
        caption = "By the driver: peer access and link. No proof: `rigops preflight` tries it"
        return matrix.matrix(addresses, matrix.of_grants(pairs), caption)
    text = "Not collected: nvidia-smi topo -p2p r, nvidia-smi topo -m, a run of rigops preflight."
    return element("p", text, class_="missing")
