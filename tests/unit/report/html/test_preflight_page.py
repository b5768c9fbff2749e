from __future__ import annotations

from dataclasses import replace

import pytest

from rigops.preflight.found import AtOnce, Collapsed, GpuSeen
from rigops.report.html.preflight import preflight_page
from tests import hostile
from tests.unit.report.html import proofs
from tests.unit.report.html.parsing import Page


def test_rates_are_a_heat_map() -> None:
    page = preflight_page([proofs.PROVEN])

    assert Page(page).text.count("26.4") == 2 * 12
    assert page.count('class="heat5"') == 2 * 12
    assert page.count('class="heat3"') == 32
    assert "11 GB/s through host memory" in page
    assert "Collectives by NCCL 2.21.5: proven" in page


def test_rates_at_once_stand_beside_those_alone() -> None:
    first, *rest = (replace(pair, together_gb_per_s=12.5) for pair in proofs.PROVEN.pairs)
    slow = Collapsed(
        turn=1,
        source=first.source,
        target=first.target,
        gb_per_s=3.1,
        expected_gb_per_s=13.2,
        switch="0000:11:00.0",
        model="PEX890xx",
    )
    together = AtOnce(gb_per_s=90.6, expected_gb_per_s=100, alone_gb_per_s=200, collapsed=(slow,))
    pairs = replace(first, together_gb_per_s=3.1), *rest

    page = preflight_page([replace(proofs.PROVEN, pairs=pairs, together=together)])

    text = Page(page).text
    assert (text.count("12.5"), text.count("26.4")) == (55, 2 * 12)
    assert "each to one other: 90.6 of 100.0 GB/s expected" in text
    assert 'class="warn" title="collapsed: 13.2 GB/s expected; 26.4 GB/s alone"' in page


def test_links_are_those_while_bytes_moved() -> None:
    page = preflight_page([proofs.PROVEN])

    assert "01:00.0 x16 gen 4" in page
    assert "Not collected, so not drawn: the ports above the cards" in page
    assert "<svg" not in preflight_page([proofs.HUNG])


def test_a_hang_has_its_evidence_and_a_fix() -> None:
    page = preflight_page([proofs.HUNG])

    text = Page(page).text
    assert 'class="fail" title="hang; level L1' in page
    assert "copy of 4 KiB: no end in 20 s" in text
    assert "Xid 31 of gpu 0000:01:00.0: MMU fault" in text
    assert 'declare "nccl": {"NCCL_P2P_DISABLE": "1"}' in text
    assert "A process is stuck in the driver" in text


def test_the_worst_host_is_first() -> None:
    page = Page(preflight_page(proofs.EVERY))

    assert page.text.index("3 hosts: 1 fail, 1 unknown, 1 ok") < page.text.index("no answer")
    assert page.targets == page.ids == ["host-0", "host-1", "host-2"]


@pytest.mark.parametrize("text", hostile.STRINGS.values(), ids=hostile.STRINGS)
def test_no_text_of_a_host_becomes_markup(text: str) -> None:
    evil = f'{text}<img src=x onerror=alert(1)>"&'
    pair = replace(proofs.HUNG.pairs[0], evidence=(evil,))
    found = replace(
        proofs.HUNG,
        host=evil,
        reasons=(evil,),
        gpus=tuple(GpuSeen(one.address, evil) for one in proofs.HUNG.gpus),
        pairs=(pair, *proofs.HUNG.pairs[1:]),
        machine=replace(proofs.MACHINE, board=evil),
    )

    page = preflight_page([found])

    Page(page)
    assert "<img" not in page
    assert not hostile.raw(page)
