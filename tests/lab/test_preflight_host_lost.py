"""At each step of preflight the host reboots, or the net is cut."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.lab.test_preflight_card_pulled import (
    ALL_AT_ONCE,
    OF_A_PAIR,
    REDUCING,
    STEPS,
    begin_until,
    verdicts,
)
from tests.lab.test_preflight_on_rigs import finish
from tests.shards import LAB_PREFLIGHT

if TYPE_CHECKING:
    from pathlib import Path

    from tests.lab.conftest import Lab
    from tests.lab.hosts import Host

pytestmark = pytest.mark.shard(LAB_PREFLIGHT)

CUT = "pkill -KILL -o -f '^sshd: root@'"
REBOOT = "systemctl reboot"


@pytest.fixture(scope="module")
def cards(module_lab: Lab) -> Host:
    """As where a card is pulled, with a journal that a reboot leaves."""
    host = module_lab.one(
        "threadripper-3x3090", "driver=535.261.03", "p2p=granted", "iommu=passthrough"
    )
    host.run("mkdir -p /var/log/journal/$(cat /etc/machine-id)")
    return host


@pytest.mark.parametrize("step", STEPS)
def test_the_net_is_cut(cards: Host, tmp_path: Path, step: str) -> None:
    process = begin_until(step, cards, tmp_path)
    cards.run(CUT)
    cards.set("waits=")

    code, found = finish(process)

    assert (code, found["status"]) == (3, "unknown")
    assert "the host is up; run preflight again" in found["error"]["message"]
    assert_lost(found, step, "unknown")
    assert not found["needs_reboot"]


@pytest.mark.parametrize("step", STEPS)
def test_the_host_reboots(cards: Host, tmp_path: Path, step: str) -> None:
    process = begin_until(step, cards, tmp_path)
    cards.run(REBOOT)

    code, found = finish(process)

    cards.set("waits=")
    assert (code, found["status"], found["changes"]) == (1, "fail", None)
    during = "all-reduce" if step in REDUCING else "copies"
    assert f"the host restarted during the {during}" in found["error"]["message"]
    assert_lost(found, step, "hang")


def assert_lost(found: dict[str, Any], step: str, verdict: str) -> None:
    """The step and the pair have names; what was over stays as it was."""
    assert "last heard: " in found["error"]["message"]
    first, *rest = verdicts(found).values()
    if step in REDUCING:
        assert {first, *rest} == {("ok", "L5")}
        assert found["collectives"] == ("failed" if verdict == "hang" else "not proven")
    elif step == ALL_AT_ONCE:
        assert {first, *rest} == {(verdict, "L4")}
    elif step == "ipc":
        assert (first, set(rest)) == ((verdict, "L5"), {("ok", "L4")})
    else:
        assert first == (verdict, OF_A_PAIR[step])
        assert {one for one, _ in rest} == {"unknown" if verdict == "unknown" else "skipped"}


@pytest.mark.parametrize("event", [CUT, REBOOT], ids=["the net is cut", "the host reboots"])
def test_nothing_is_blamed_before_anything_is_tried(
    cards: Host, tmp_path: Path, event: str
) -> None:
    process = begin_until("init", cards, tmp_path)
    cards.run(event)

    output, _ = process.communicate()

    assert process.returncode == 3
    assert '"pairs": []' in output
