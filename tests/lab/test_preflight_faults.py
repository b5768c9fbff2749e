"""Preflight on booted hosts: hangs for good, cards that leave the bus, hosts that are lost."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from tests.lab.test_preflight_card_pulled import begin_until
from tests.lab.test_preflight_on_rigs import finish, preflight, verdicts
from tests.shards import LAB_PREFLIGHT

if TYPE_CHECKING:
    from pathlib import Path

    from tests.lab.conftest import Lab
    from tests.lab.hosts import Host

FALLING = "0000:43:00.0"

pytestmark = pytest.mark.shard(LAB_PREFLIGHT)


@pytest.fixture(scope="module")
def cards(module_lab: Lab) -> Host:
    """Three 3090 that reach each other, with a good driver and an IOMMU that passes through."""
    return module_lab.one(
        "threadripper-3x3090", "driver=535.261.03", "p2p=granted", "iommu=passthrough"
    )


def test_a_process_that_not_even_kill_ends_costs_a_reboot_and_no_more_time(
    cards: Host, tmp_path: Path
) -> None:
    cards.set("p2p=unkillable")
    begun = time.monotonic()

    code, found = preflight(cards, tmp_path)

    cards.set("p2p=granted")
    assert time.monotonic() - begun < 90  # 20 s for the pair, 4 s for TERM and KILL
    assert code == 1
    assert found["needs_reboot"]
    first, *rest = found["pairs"]
    assert first["verdict"] == "hang"
    assert any(line.startswith("KILL did not end process") for line in first["evidence"])
    assert any("is in state D" in line for line in first["evidence"])
    assert {pair["verdict"] for pair in rest} == {"skipped"}
    assert found["changes"] == []
    assert "throttling and BAR1 (nvidia-smi -q)" in found["not_compared"]
    assert cards.answers


def test_a_login_that_may_not_read_the_kernel_log_says_so(cards: Host, tmp_path: Path) -> None:
    code, found = preflight(cards, tmp_path, "'ssh_user': 'rig'")

    assert (code, found["status"], found["changes"]) == (0, "ok", [])
    (log,) = found["not_compared"]
    assert log.startswith("the kernel log (")
    # How fast the simulated cards are is another reason, now and then.
    (reason,) = (one for one in found["reasons"] if "slower" not in one)
    assert reason.startswith(f"driver errors during the copies were not looked for: {log}")
    assert "group systemd-journal" in reason

    cards.run("usermod --append --groups systemd-journal rig")
    code, found = preflight(cards, tmp_path, "'ssh_user': 'rig'")

    assert (code, found["changes"], found["not_compared"]) == (0, [], [])
    assert [one for one in found["reasons"] if "slower" not in one] == []


def test_a_card_that_leaves_the_bus_between_two_copies(cards: Host, tmp_path: Path) -> None:
    cards.set(f"falls={FALLING}+60")  # neither in its first pair nor in its last

    code, found = preflight(cards, tmp_path)

    assert code == 1
    fallen = [pair for pair in found["pairs"] if FALLING in (pair["from"], pair["to"])]
    assert {pair["verdict"] for pair in found["pairs"] if pair not in fallen} == {"ok"}
    assert verdicts(found) == {"ok", "error"}
    assert [pair["verdict"] for pair in fallen] == sorted(
        (pair["verdict"] for pair in fallen), reverse=True
    )
    assert (found["changes"], found["not_compared"]) == (
        [
            {"kind": "lost", "subject": FALLING, "before": 16, "after": None},
            {
                "kind": "xid",
                "subject": FALLING,
                "before": None,
                "after": 79,
                "detail": "GPU has fallen off the bus.",
            },
        ],
        [],
    )
    assert f"during the copies: {FALLING} has left the bus" in found["reasons"]


def test_a_host_that_restarts_during_a_copy(lab: Lab, tmp_path: Path) -> None:
    host = lab.one("threadripper-3x3090", "driver=535.261.03", "p2p=hang")
    host.run("mkdir -p /var/log/journal/$(cat /etc/machine-id)")
    process = begin_until("copy", host, tmp_path)
    host.set(f"lost={FALLING}")
    host.run("systemctl reboot")

    code, found = finish(process)

    assert (code, found["status"], found["changes"]) == (1, "fail", None)
    first, *rest = found["pairs"]
    assert first["verdict"] == "hang"
    assert first["evidence"][0].startswith("last heard: copy of 4 KiB")
    assert first["evidence"][1] == "the host restarted during the copies"
    assert first["evidence"][-1] == (
        f"the log of that boot: Xid 79 of {FALLING}: GPU has fallen off the bus."
    )
    assert {pair["verdict"] for pair in rest} == {"skipped"}


def test_a_net_that_fails_during_a_copy(cards: Host, tmp_path: Path) -> None:
    cards.set("p2p=hang", "falls=")
    process = begin_until("copy", cards, tmp_path)
    cards.run("pkill -KILL -o -f '^sshd: root@'")

    code, found = finish(process)

    assert (code, found["status"]) == (3, "unknown")
    first, *rest = found["pairs"]
    assert {pair["verdict"] for pair in (first, *rest)} == {"unknown"}
    assert first["evidence"][0].startswith("last heard: copy of 4 KiB")
    assert "the host is up; run preflight again" in found["error"]["message"]
    assert not found["needs_reboot"]
    cards.set("waits=")
