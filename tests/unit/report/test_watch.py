"""What is watched, as lines, as JSON, and on the live screen."""

from __future__ import annotations

import io
import json

import pytest

from rigops.catalog import load_once
from rigops.doctor.watch.seen import HostSeen
from rigops.doctor.watch.stream import Stream
from rigops.errors import HostError
from rigops.report import watch_screen
from rigops.report.watch import (
    head_line,
    sample_document,
    sample_lines,
    summary_document,
    summary_lines,
)
from rigops.report.watch_screen import Screen
from tests.unit.doctor.watched import BOOT, HEAD, XID, errors, row

AT = "2026-11-28T05:14:03Z"


@pytest.fixture
def rig() -> HostSeen:
    stream, seen = Stream(1), HostSeen("rig", None, load_once(None))
    after = (XID, *errors(12), "t 101", row(1, 96, hot=True), row(2, 60))
    for line in (*BOOT, HEAD, row(1, 67), row(2, 60), *after):
        if sample := stream.take(line):
            seen.take(sample, AT)
    return seen


def test_a_line_for_each_card_in_the_columns_of_the_head(rig: HostSeen) -> None:
    assert [head_line(5), *sample_lines(rig, AT, 5)] == [
        (
            "UTC       host   card            °C  mem°C   W/limit    MHz  memMHz   load   VRAM GiB"
            "  clocks limited by  new"
        ),
        (
            "05:14:03  rig    0000:01:00.0    96      -   301/350   1695    9751   100%   2.0/24.0"
            "  too hot            aer+12"
        ),
        (
            "05:14:03  rig    0000:02:00.0    60      -   301/350   1695    9751   100%   2.0/24.0"
            "  power limit        xid79"
        ),
    ]


def test_a_lost_host_is_one_line_until_it_is_back(rig: HostSeen) -> None:
    rig.lose(HostError("lost", "rig: the connection was lost\x1b[2J"))

    assert list(sample_lines(rig, AT, 5)) == [
        "05:14:03  rig    the connection was lost\\x1b[2J; trying again"
    ]


def test_documents_have_a_schema_hosts_and_plain_values(rig: HostSeen) -> None:
    document = json.loads(json.dumps(sample_document(rig, AT)))
    (host,) = document["hosts"]

    assert (document["schema"], document["at"], host["status"]) == ("rigops.watch/1", AT, "fail")
    first, second = host["cards"]
    assert (first["celsius"], first["watts"], first["watts_limit"]) == (96, 301.2, 350)
    assert first["limited_by"] == ["hw_thermal_slowdown", "sw_power_cap"]
    assert (first["new_corrected"], second["new_xids"]) == (12, {"79": 1})
    assert {one["id"] for one in host["findings"]} >= {"xid", "tmp.core", "pci.aer.corr"}
    total = json.loads(json.dumps(summary_document([rig], AT, 60.04, "fail")))
    assert (total["status"], total["seconds"]) == ("fail", 60.0)
    assert total["hosts"][0]["cards"][0]["max_celsius"] == 96

    rig.lose(HostError("lost", "gone"))
    (host,) = json.loads(json.dumps(sample_document(rig, AT)))["hosts"]
    assert (host["status"], host["error"]["kind"], host["cards"]) == ("unknown", "lost", [])


def test_the_summary_has_the_extremes_of_each_card_and_the_worst_first(rig: HostSeen) -> None:
    lines = list(summary_lines([rig], 62, 100))

    assert lines[0] == "Watched 1 host for 1:02."
    about = next(line for line in lines if "0000:01:00.0  GeForce" in line)
    assert "up to 96 °C, 301 W of 350 W, too hot 50%, power limit 100%" in about
    statuses = [line.split()[0] for line in lines if line.startswith(("  fail", "  warn"))]
    assert statuses == sorted(statuses)
    assert any("Xid 79" in line and "05:14:03 UTC" in line for line in lines)
    assert any(line.startswith("    fix: ") for line in lines)


def test_the_screen_shows_hosts_that_answer_and_those_that_do_not(
    rig: HostSeen, monkeypatch: pytest.MonkeyPatch
) -> None:
    terminal = io.StringIO()
    monkeypatch.setattr(watch_screen, "terminal_stream", lambda: terminal)
    monkeypatch.setenv("COLUMNS", "100")
    lost = HostSeen("tower", None, load_once(None))
    lost.lose(HostError("timeout", "no answer\x1b]0;title\x07"))

    with Screen([rig, lost], 1) as screen:
        screen.draw(62, {"rig": 20.0}.get)

    drawn = terminal.getvalue()
    assert "driver 535.183.01  fail  nothing for 0:20" in drawn
    assert "0000:01:00.0" in drawn
    assert "too hot" in drawn
    assert "no answer\\x1b]0;title\\x07; trying again" in drawn
    assert max(map(len, drawn.splitlines())) <= 100
