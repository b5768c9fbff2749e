"""Preflight's page."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rigops.doctor.views.bus import GENERATIONS, Bus, Device, Link
from rigops.hostside.p2p.verdict import FAIL
from rigops.preflight.changes import in_words
from rigops.preflight.found import HostFound
from rigops.preflight.headline import in_a_word, paragraph, stopgap
from rigops.probe.lost_cards import ADVICE
from rigops.report.html import matrix
from rigops.report.html.elements import Html, badge, element, folded, joined, prose
from rigops.report.html.page import HostBlock, page
from rigops.report.html.topology import topology
from rigops.report.preflight import (
    collectives_text,
    pairs_to_explain,
    preflight_rows,
    proven_text,
)


def preflight_page(hosts: Sequence[HostFound]) -> str:
    rows = preflight_rows(hosts)
    blocks = [
        HostBlock(row=row, about=_about(host), parts=tuple(_parts(host)))
        for row, host in zip(rows, hosts, strict=True)
    ]
    return page("rigops preflight", blocks)


def _about(host: HostFound) -> str:
    machine = host.machine
    parts = (
        machine.board,
        f"kernel {machine.kernel}" if machine.kernel else "",
        f"driver {machine.driver}" if machine.driver else "",
        f"tried at {host.at}" if host.at else "",
    )
    return ", ".join(filter(None, parts))


def _parts(host: HostFound) -> Iterator[tuple[str, Html]]:
    yield "Result", joined(*(element("p", prose(text)) for text in _result(host)))
    if len(host.gpus) > 1:
        yield "Peer to peer", joined(*_copies(host))
    bus = _bus(host)
    if host.links or bus.nvlinks:
        yield "Links", topology(bus, {}, host.host)
    if host.changes:
        changes = (element("li", in_words(one)) for one in host.changes)
        yield "Changes during the copies", element("ul", *changes)
    yield "To paste into an issue", element("pre", paragraph(host))


def _result(host: HostFound) -> Iterator[str]:
    yield _begun(in_a_word(host))
    if host.error:
        yield f"{host.error.kind}: {host.error.message}"
    yield proven_text(host)
    yield from host.reasons
    if host.predicted_nccl_transport:
        yield f"NCCL will use {host.predicted_nccl_transport}."
    if host.needs_reboot:
        yield "A process is stuck in the driver; fix: reboot the host"
    if host.lost:
        yield f"fix: {ADVICE}"
    elif host.status == FAIL:
        until = stopgap(host)
        yield f"fix: resolve what `rigops doctor {host.host}` finds" + (
            f"; until preflight passes, declare `{until}` and run `rigops apply`" if until else ""
        )


def _begun(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}"


def _copies(host: HostFound) -> Iterator[Html]:
    addresses = [gpu.address for gpu in host.gpus]
    caption = "GB/s from each card to each; of what failed, the verdict"
    yield matrix.matrix(addresses, matrix.of_preflight(host.pairs), caption)
    if host.together and len(host.gpus) > 2:  # noqa: PLR2004 - a pair has its rate both ways
        caption = f"GB/s of a pair while all cards copy; {host.together}"
        cells = matrix.of_pairs_at_once(host.pairs, host.together.collapsed)
        yield matrix.matrix(addresses, cells, caption)
    for status, text, evidence in pairs_to_explain(host):
        head = joined(badge(status), " ", text.replace("  ", ": "))
        lines = (joined(line, Html("\n")) for line in evidence)
        yield folded(head, element("pre", *lines), is_open=status == FAIL, class_="finding")
    yield element("p", _begun(collectives_text(host)))
    if host.collectives.evidence:
        yield element("pre", *(joined(line, Html("\n")) for line in host.collectives.evidence))


def _bus(host: HostFound) -> Bus:
    """Links as they were while bytes moved; preflight asks for no ports."""
    seen = {one.gpu: one for one in host.links}
    devices = []
    for gpu in host.gpus:
        one = seen.get(gpu.address)
        lanes = int(one.lanes) if one and one.lanes else None
        generation = GENERATIONS.get(one.gt_per_s) if one and one.gt_per_s else None
        name = gpu.name.removeprefix("NVIDIA ").removeprefix("GeForce ")
        link = Link(lanes, None, generation)
        devices.append(Device(address=gpu.address, kind="GPU", name=name, ports=None, link=link))
    nvlinks = tuple(
        (pair.source, pair.target, pair.link)
        for pair in host.pairs
        if pair.link.startswith("NV") and pair.source < pair.target
    )
    gaps = ("the ports above the cards", "IOMMU groups", "the power path")
    return Bus(devices=tuple(devices), nvlinks=nvlinks, gaps=gaps)
