from __future__ import annotations

import re
from dataclasses import replace
from html import unescape
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from rigops.doctor.finding import Evidence, Finding, fix_by_hand
from rigops.doctor.host_report import HostReport
from rigops.errors import HostError
from rigops.probe.bundle import Bundle
from rigops.probe.bundles.reading import read_content
from rigops.record import Pair
from rigops.record.shell import PROVEN as PROVEN_PATH
from rigops.report.html.doctor import ExaminedHost, doctor_page
from tests import hostile
from tests.unit import recorded
from tests.unit.doctor.examining import spec
from tests.unit.record import examples
from tests.unit.report.html import rigs
from tests.unit.report.html.parsing import Page

if TYPE_CHECKING:
    from collections.abc import Iterator

FIXTURES = Path(__file__).parents[3] / "fixtures"


def pages() -> Iterator[tuple[str, ExaminedHost]]:
    for name in recorded.NAMES:
        yield name, rigs.examined_host(recorded.rig(name))
    yield "switched", rigs.examined_host(rigs.switched(), spec(**rigs.FEEDS))
    yield "empty", rigs.examined_host(rigs.bundle_of({}))


PAGES = dict(pages())


@pytest.mark.parametrize("host", PAGES.values(), ids=PAGES)
def test_it_fetches_and_runs_nothing(host: ExaminedHost) -> None:
    page = doctor_page([host])

    Page(page)


@pytest.mark.parametrize("host", PAGES.values(), ids=PAGES)
def test_every_finding_and_its_evidence_is_there(host: ExaminedHost) -> None:
    text = Page(doctor_page([host])).text

    for one in host.report.findings:
        assert one.id in text
        assert " ".join(one.summary.replace("`", "").split("\n")) in text
        assert all(line.line.replace("\n", "\\n") in text for line in one.evidence)
        if one.fix:
            assert one.fix.text.replace("`", "").replace("\n", " ") in text


def test_eight_cards_below_switches_are_small_and_drawn_whole() -> None:
    page = doctor_page([PAGES["switched"]])

    assert len(page.encode()) < 300_000
    drawn = page[page.index("<svg") : page.index("</svg>")]
    assert [drawn.count(f'class="{kind}') for kind in ("card", "device", "supply", "circuit")] == [
        *(8, 4, 2, 2)
    ]
    assert drawn.count(">switch<") == 4
    assert drawn.count("x4 of x16 gen 4") == 1
    assert drawn.count("IOMMU group") == 12
    assert len(re.findall('class="port', drawn)) == 1 + 4 + 4  # CPU, root ports, switches


def test_the_same_ways_are_a_table() -> None:
    text = Page(doctor_page([PAGES["switched"]])).text

    assert "00:01.1 > 01:00.0 > 02:02.0" in text
    assert "PSU 2, circuit wall" in text


def test_nvlinks_are_drawn() -> None:
    page = doctor_page([rigs.examined_host(Bundle.read(recorded.DEMO / "t180"))])

    assert "<title>04:00.0 to 06:00.0: NV2</title>" in page


def test_a_lost_card_is_marked_and_its_story_comes_before_the_findings() -> None:
    page = doctor_page([PAGES["t180-4xv100-lost"]])

    assert 'class="card lost"' in page
    assert 0 < page.index("What happened") < page.index("<h3>Findings</h3>")
    assert "What happened" not in doctor_page([PAGES["switched"]])


def test_a_proof_is_a_heat_map_with_rates() -> None:
    bundle = recorded.rig("threadripper-3x3090")
    one, other, _ = (card.address for card in rigs.examined_host(bundle).examined.cards)  # type: ignore[union-attr]  # it has one
    pairs = (Pair(one, other, "ok", 25.04), Pair(other, one, "slower_than_staged", 5.0))
    proof = replace(examples.PROVEN, at="2026-01-30T10:00:00Z", level="L4", pairs=pairs)
    records = rigs.with_record(bundle, PROVEN_PATH, proof.to_json())

    page = doctor_page([rigs.examined_host(records)])

    assert '<td class="heat5" title="ok">25.0</td>' in page
    assert '<td class="warn" title="slower than staged">slow</td>' in page
    assert "Preflight of 2026-01-30T10:00:00Z, level L4: GB/s" in page
    assert "It no longer holds: the driver" in unescape(page)


def test_what_a_paste_does_not_show_is_missing_by_name() -> None:
    paste = (FIXTURES / "smi/gtx-384.table.txt").read_bytes()
    (bundle,) = read_content(paste, place="post", host="paste", is_known=lambda _: True)

    text = Page(doctor_page([rigs.examined_host(bundle)])).text

    assert "Not collected, so not drawn: the ports above the cards" in text
    assert "The power path is not declared" in text


def test_a_machine_without_a_card_says_so() -> None:
    assert "No card is known, so nothing is drawn." in doctor_page([PAGES["empty"]])


@pytest.mark.parametrize("text", hostile.STRINGS.values(), ids=hostile.STRINGS)
def test_no_text_of_a_host_becomes_markup(text: str) -> None:
    evil = f'{text}<img src=x onerror=alert(1)>"&</style></script>'
    finding = Finding(
        "fail",
        evil,
        (Evidence(evil, evil),),
        id="xid",
        subject=evil,
        why=evil,
        fix=fix_by_hand(evil),
    )
    report = HostReport(
        host=evil,
        source="ssh",
        collected_at=evil,
        duration_ms=1,
        facts={"os": evil, "kernel": evil, "driver": evil, "gpus": [{"model": evil}]},
        findings=(finding,),
        notes=(evil,),
        unparsed={evil: 1},
        error=HostError("timeout", evil, evil),
    )

    page = doctor_page([ExaminedHost(report, None)] * 4)

    Page(page)
    assert "<img" not in page
    assert not hostile.raw(page)


def test_a_fleet_has_a_row_for_each_host_that_leads_to_it() -> None:
    page = Page(doctor_page([*PAGES.values(), unreached()]))

    assert len(page.ids) == len(set(page.ids)) == len(PAGES) + 1
    assert page.targets == page.ids
    assert "not reached: no route" in page.text


def unreached() -> ExaminedHost:
    report = HostReport(
        host="away",
        source="ssh",
        collected_at=None,
        duration_ms=1,
        error=HostError("timeout", "no route", "switch it on"),
    )
    return ExaminedHost(report, None)
