"""Rates of all cards at once, on booted rigs with and without a switch that collapses."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.lab.test_preflight_on_rigs import preflight
from tests.shards import LAB_PREFLIGHT

if TYPE_CHECKING:
    from pathlib import Path

    from tests.lab.conftest import Lab
    from tests.lab.hosts import Host

pytestmark = pytest.mark.shard(LAB_PREFLIGHT)

SWITCH = "0000:41:00.0"


@pytest.fixture(scope="module")
def switched(module_lab: Lab) -> Host:
    """Four A6000, two of them behind one switch."""
    return module_lab.one("epyc-4xa6000")


def test_cards_behind_a_switch_have_their_share_of_its_link(switched: Host, tmp_path: Path) -> None:
    code, found = preflight(switched, tmp_path)

    assert (code, found["status"], found["level"]) == (0, "ok", "L5"), found["reasons"]
    together = found["together"]
    assert together["collapsed"] == []
    assert together["gb_per_s"] == pytest.approx(together["expected_gb_per_s"], rel=0.1)
    assert together["gb_per_s"] < together["alone_gb_per_s"]
    assert all(pair["together_gb_per_s"] for pair in found["pairs"])


def test_a_switch_that_collapses_is_a_warning_and_named(switched: Host, tmp_path: Path) -> None:
    switched.set("p2p=crowd-slow")

    code, found = preflight(switched, tmp_path, "", "--pairs", "0:2,1:3")

    assert (code, found["status"]) == (0, "warn")
    assert {pair["verdict"] for pair in found["pairs"]} == {"ok", "skipped"}
    (reason,) = [text for text in found["reasons"] if "collapse" in text]
    assert f"GB/s at switch {SWITCH} (PEX 8764); " in reason
    behind, apart = {"0000:43:00.0", "0000:44:00.0"}, {"0000:01:00.0", "0000:81:00.0"}
    collapsed = found["together"]["collapsed"]
    assert {one["from"] for one in collapsed} == behind
    assert {one["to"] for one in collapsed} == apart
    assert {one["switch"] for one in collapsed} == {SWITCH}


def test_eight_cards_with_ports_of_their_own_collapse_nowhere(lab: Lab, tmp_path: Path) -> None:
    host = lab.one("epyc-8x4090", "p2p=granted")
    ring = ",".join(f"{card}:{(card + 1) % 8}" for card in range(8))

    code, found = preflight(host, tmp_path, "", "--pairs", ring)

    tried = [pair for pair in found["pairs"] if pair["verdict"] == "ok"]
    assert (code, found["status"], len(tried)) == (0, "ok", 16), found["reasons"]
    assert all(pair["together_gb_per_s"] for pair in tried)
    assert found["together"]["collapsed"] == []
