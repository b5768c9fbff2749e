"""States of rigs that only a booted host can be in."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.lab.frozen import UNTIL_IT_HOLDS
from tests.lab.sshd import until
from tests.shards import LAB_ITSELF

if TYPE_CHECKING:
    from tests.lab.conftest import Lab
    from tests.lab.hosts import Host

pytestmark = pytest.mark.shard(LAB_ITSELF)

START = f"setsid nvidia-smi -L </dev/null >/dev/null 2>&1 & {UNTIL_IT_HOLDS}"
REMAPPED = "nvidia-smi --query-gpu=remapped_rows.pending,remapped_rows.uncorrectable"


def _says(host: Host, command: str) -> str:
    done = host.run(command)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.strip()


def _states(host: Host) -> list[str]:
    """Of whoever runs nvidia-smi, which is a script."""
    found = host.run(
        r"ps -eo stat=,args= | grep '^[A-Z]\S* */usr/bin/python3 .*nvidia-smi -L$'"
    ).stdout
    return [line[0] for line in found.splitlines()]


def test_an_unkillable_process_outlives_kill_and_ends_with_the_thaw_and_with_its_host(
    lab: Lab,
) -> None:
    host = lab.one("nvlink-2x3090")
    host.set("smi=unkillable")
    host.run(START)
    assert _states(host) == ["D"]
    host.run("pkill -KILL -f '^/usr/bin/python3.*nvidia-smi'; sleep 0.3")
    assert _states(host) == ["D"]

    host.set("smi=ok")
    until(lambda: _states(host) == [], "its end")
    assert _says(host, "nvidia-smi -L | wc -l") == "2"
    host.set("smi=unkillable")
    host.run(START)
    assert _states(host) == ["D"]
    folder = host.record.folder
    host.down()
    assert not folder.exists()
    assert str(folder) not in Path("/proc/self/mountinfo").read_text()


def test_a_bad_row_waits_for_a_reboot_and_is_replaced_by_it(lab: Lab) -> None:
    host = lab.one("epyc-8x4090")
    host.set("remap=0000:41:00.0")
    query = f"{REMAPPED} --format=csv,noheader -i 2"
    before = _says(host, "cat /proc/sys/kernel/random/boot_id")
    assert _says(host, query) == "1, 1"
    assert "Row Remapper" in _says(host, "journalctl -k -b -g 'Xid.*: 63,' --no-pager")

    host.run("systemctl reboot")
    boot_id = "timeout 5 cat /proc/sys/kernel/random/boot_id"
    until(lambda: host.run(boot_id).stdout.strip() not in {"", before}, "another boot")

    assert _says(host, query) == "0, 1"


def test_a_rig_looks_like_a_machine_of_metal(lab: Lab) -> None:
    host = lab.one("threadripper-3x3090")

    assert host.run("systemd-detect-virt").stdout == "none\n"
    assert _says(host, "grep -c nvidia /proc/devices") == "3"
    assert _says(host, "cat /proc/sys/kernel/tainted") == "12289"
    assert _says(host, "stat -c %s /sys/bus/pci/devices/0000:0a:00.0/resource1") == str(256 << 20)
    _says(host, "modprobe -r nvidia")
    assert host.run("grep nvidia /proc/devices").stdout == ""
    _says(host, "modprobe nvidia && grep -q nvidia /proc/devices")
