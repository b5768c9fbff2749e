"""A machine that cannot shut down by itself, and one that does not know what year it is."""

from __future__ import annotations

import re
from datetime import datetime, timezone
from typing import TYPE_CHECKING

import pytest

from tests.shards import VM_FALLBACK
from tests.vm.trying import Tended

if TYPE_CHECKING:
    from tests.lab.laptop import Laptop
    from tests.vm.conftest import Machines

pytestmark = pytest.mark.shard(VM_FALLBACK)

# Of the host's battery. systemd lets no clock be before its own making.
CLOCKS = {"2031": "ahead", "2021": "behind"}
FROZEN = "/run/rigsim/frozen"
# What nvidia-smi writes to there never ends, and neither does nvidia-smi; this boot's simulation is
# gone with it.
WEDGE = f"""
truncate -s 4M /var/tmp/frozen.img
mkfs.ext4 -q -O ^has_journal /var/tmp/frozen.img
mkdir {FROZEN}
mount -o loop /var/tmp/frozen.img {FROZEN}
fsfreeze --freeze {FROZEN}
sed -i '1a "smi": "unkillable",' /etc/rigsim/rig.json
setsid nvidia-smi -L </dev/null >/dev/null 2>&1 &
until grep -qs '(nvidia-smi) D' /proc/[0-9]*/stat; do sleep 0.2; done
pkill -KILL nvidia-smi
sleep 2
grep -qs '(nvidia-smi) D' /proc/[0-9]*/stat
dmesg --console-level 8
"""


def test_a_shutdown_that_something_unkillable_blocks_ends_by_force(
    vm: Machines, laptop: Laptop
) -> None:
    """Without the force the ordered reboot is still under way when it strikes, a minute later."""
    rig = Tended(vm.up(), laptop)
    rig.declare("lab.wedged=1")
    rig.machine.ssh(f"set -e\n{WEDGE}")
    before = rig.machine.boot_id()

    code, refused = rig.apply("--reboot", "auto")
    assert code == 1
    assert any("--force-reboot-wedged" in one["reason"] for one in refused["blocked"]), refused
    assert rig.machine.boot_id() == before

    code, host = rig.apply("--reboot", "auto", "--force-reboot-wedged")

    assert (code, host["outcome"]) == (0, "changed"), host
    assert rig.machine.boot_id() != before
    assert "lab.wedged=1" in rig.arguments
    assert rig.traces() == ""
    said = rig.machine.console()
    assert "rigops: a forced reboot follows in 60 s" in said
    assert "rigops: the ordered reboot has not come to its end" in said


@pytest.mark.parametrize("year", CLOCKS)
def test_a_clock_that_is_years_off_is_told_and_in_nobodys_way(
    vm: Machines, laptop: Laptop, year: str
) -> None:
    rig = Tended(vm.up(rtc=f"{year}-01-01T00:00:00"), laptop)
    rig.declare("lab.later=1")
    time = r"\d\d:\d\d:\d\d UTC"
    day = r"20\d\d-\d\d-\d\d"
    line = re.compile(
        rf"the host's clock shows {day} {time}, and here it is {day} {time}: "
        rf"[\d.]+ (?:years|days) {CLOCKS[year]}"
    )

    planned = rig.rigops("plan")
    assert planned.code == 0
    assert line.search(" ".join(planned.out.split())), planned.out

    code, host = rig.apply("--reboot", "auto")
    assert (code, host["outcome"]) == (0, "changed"), host
    assert any(line.search(text) for text in host["notices"]), host["notices"]
    assert "lab.later=1" in rig.arguments
    assert rig.traces() == ""
    assert rig.machine.ssh("date +%F") != f"{datetime.now(timezone.utc):%F}"
