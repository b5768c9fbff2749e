"""`rigops power` on booted rigs: limits, a UPS that measures, a circuit of several hosts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pytest

from tests.lab.laptop import Laptop
from tests.shards import LAB_DOCTOR

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.lab.conftest import Lab
    from tests.lab.hosts import Host

pytestmark = pytest.mark.shard(LAB_DOCTOR)

PASSWORD: Final = "do-not-show-this"
# Root alone may read which UPS feeds the host.
UPSC: Final = f"""
cat >/usr/local/bin/upsc <<'END'
#!/bin/sh
echo "$*" >>/run/upsc-asked
echo 'Init SSL without certificate database' >&2
[ "$1" = main@localhost ] || {{ echo 'Error: Unknown UPS' >&2; exit 1; }}
printf '%s\\n' 'device.serial: AS1234567890' 'ups.realpower: 312' 'ups.status: OL'
END
chmod 755 /usr/local/bin/upsc
mkdir -p /etc/nut
echo 'MONITOR main@localhost 1 upsmon {PASSWORD} primary' >/etc/nut/upsmon.conf
chmod 600 /etc/nut/upsmon.conf
"""
SHARED: Final = {"circuits": {"A": "120V/20A"}}


class Rigs:
    def __init__(self, laptop: Laptop, threadripper: Host, t180: Host) -> None:
        self.laptop = laptop
        self.threadripper = threadripper
        self.t180 = t180

    def declare(self, **more: Mapping[str, object]) -> None:
        three = {**SHARED, "gpus": {"3090": 3}, "psus": [750, 750], **more.get("three", {})}
        four = {**SHARED, "gpus": {"V100": 4}, "other_watts": 400, **more.get("four", {})}
        away = {"away": more["away"]} if "away" in more else {}
        self.laptop.declare({self.threadripper.name: three, self.t180.name: four, **away})

    def power(self, code: int, *words: str) -> dict[str, Any]:
        said = self.laptop.rigops("power", "--json", "-i", "inventory.py", *words)
        assert said.code == code, said.out + said.err
        assert PASSWORD not in said.out + said.err
        document: dict[str, Any] = said.json()
        return document


@pytest.fixture(scope="module")
def rigs(module_lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Rigs:
    threadripper, t180 = module_lab.up("threadripper-3x3090", "t180-4xv100")
    done = threadripper.run(UPSC)
    assert done.returncode == 0, done.stderr
    return Rigs(Laptop(tmp_path_factory.mktemp("laptop")), threadripper, t180)


def test_limits_a_ups_and_a_circuit_of_two_hosts(rigs: Rigs) -> None:
    rigs.declare(three={"gpu_power_limit": 285})

    document = rigs.power(1)

    three, four = document["hosts"]
    assert (three["source"], four["source"]) == ("ssh", "ssh")
    assert {(one["watts"], one["watts_in_force"]) for one in three["gpus"]} == {(285, 350)}
    # 3 x 285 + 250 of 2 x 750 x 0.9, and 3 x 285 x 1.71 + 250 of 2 x 750 in peaks
    (psu,) = three["psus"]
    assert (psu["steady_watts"], psu["steady_allowed"]) == (1105, 1350)
    assert (psu["peak_watts"], psu["peak_allowed"]) == (1712, 1500)
    # (1105 / 0.9) + (4 x 300 + 400) / 0.9 of 120 x 20 x 0.8
    (circuit,) = document["circuits"]
    assert (circuit["watts"], circuit["allowed_watts"]) == (3005.6, 1920)
    assert three["wall"]["measured_watts"] == 312
    assert three["wall"]["measured"] == [
        {"ups": "main@localhost", "watts": 312, "lines": ["ups.realpower: 312"]}
    ]
    assert four["wall"]["measured"] == []


def test_doctor_and_plan_have_the_same_numbers(rigs: Rigs) -> None:
    rigs.declare(three={"gpu_power_limit": 285})

    three = rigs.power(1, rigs.threadripper.name)["hosts"][0]
    found = (
        rigs.laptop.doctor("-i", "inventory.py", "--only", "pwr.budget", rigs.threadripper.name)
        .seen()
        .one("pwr.budget")
    )

    assert found["status"] == "warn"
    assert [(one["where"], one["watts"]) for one in found["data"]["excesses"]] == [
        (one["where"], round(one["watts"])) for one in three["excesses"]
    ]
    assert found["evidence"] == [{"section": "ups", "line": "ups.realpower: 312"}]
    planned = rigs.laptop.rigops("plan", "--json", "-i", "inventory.py", "--only", "gpu_tuning")
    notices = [
        text
        for host in planned.json()["hosts"]
        if host["host"] == rigs.threadripper.name
        for text in host["notices"]
        if "cannot be fed" in text
    ]
    (notice,) = notices
    assert "PSU 1 and PSU 2: 1712 W in peaks of milliseconds, above the safe 1500 W" in notice
    assert f"circuit A (with {rigs.t180.name}): 3006 W from the wall" in notice


def test_a_host_that_is_away_counts_by_the_inventory(rigs: Rigs) -> None:
    away = {"ssh_hostname": "127.0.0.1", "ssh_port": 1, "circuits": {"B": "120V/15A"}}
    rigs.declare(three={"gpu_power_limit": 200}, away={**away, "gpus": {"3090": 2}})

    document = rigs.power(3, "away")

    (host,) = document["hosts"]
    assert host["status"] == "unknown"
    assert (host["source"], host["error"]["kind"]) == ("inventory", "refused")
    # (2 x 350 + 250) / 0.9
    assert host["circuits"][0]["watts"] == 1055.6
    rigs.declare(away={**away, "gpus": 2})
    assert rigs.power(3, "away")["hosts"][0]["gpus"] == []


def test_a_probe_asks_the_ups_once(rigs: Rigs) -> None:
    rigs.threadripper.run("rm -f /run/upsc-asked")
    rigs.declare()

    rigs.power(1, rigs.threadripper.name)

    assert rigs.threadripper.run("cat /run/upsc-asked").stdout == "main@localhost\n"
