"""The thermal_guard concern on booted hosts, whose cards get hot, are cooled, or report nothing."""

from __future__ import annotations

import json
import re
import time
from typing import TYPE_CHECKING, Any, Final

import pytest

from tests.lab import hosts
from tests.lab.applying import INVENTORY
from tests.lab.laptop import Laptop
from tests.lab.tended import Tended
from tests.shards import LAB_CONCERNS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

pytestmark = pytest.mark.shard(LAB_CONCERNS)

NAME = "thermal-guard"
UNIT = "rigops-thermal-guard.service"
PROGRAM = "/usr/local/libexec/rigops/thermal_guard"
FILES = (
    PROGRAM,
    "/etc/rigops/thermal_guard",
    "/usr/local/sbin/rigops-guard",
    f"/etc/systemd/system/{UNIT}",
)
STATE = "/run/rigops/thermal_guard.json"
HOT = "0000:04:00.0"
LIMITS = "nvidia-smi --query-gpu=power.limit --format=csv,noheader,nounits"
# Its own tests are in base; the message is kept by a command that everybody can read.
DECLARED: Final[Mapping[str, Any]] = {
    "thermal_limit": 83,
    "thermal_hold": 1,
    "gpu_power_limit": 290,
    "notify": "cat >>/run/told",
}
PATIENCE_S = 120


class Rig(Tended):
    def limits(self) -> list[float]:
        return [float(line) for line in self.does(LIMITS).splitlines()]

    def state(self) -> Mapping[str, Any]:
        state: Mapping[str, Any] = json.loads(self.does(f"cat {STATE}"))
        return state

    def waits_for(self, condition: Callable[[], object]) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not condition():
            assert time.monotonic() < deadline, self.journal()
            time.sleep(0.3)

    def comes_to(self, step: str) -> Mapping[str, Any]:
        self.waits_for(lambda: self.state()["step"] == step)
        return self.state()

    def journal(self) -> str:
        return self.does(f"journalctl --sync; journalctl -u {UNIT} -o cat --no-pager")

    def boot_id(self) -> str:
        return self.does("cat /proc/sys/kernel/random/boot_id")


@pytest.fixture(scope="module")
def rig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    with hosts.running([f"t180-4xv100={NAME}"]) as (host,):
        yield Rig(Laptop(tmp_path_factory.mktemp("laptop")), host)


def test_the_plan_shows_its_files_and_what_the_cards_cannot_meet_blocks(rig: Rig) -> None:
    host = rig.plan(thermal_limit=88)

    assert set(FILES) <= {one["subject"] for one in host["changes"]}
    notices = " ".join(host["notices"])
    assert "slows down by itself from 87 °C" in notices
    assert "notify is not declared" in notices
    (blocked,) = rig.plan(1, thermal_limit={"margin": 5})["blocked"]
    assert "0000:04:00.0, 0000:06:00.0" in blocked["reason"]
    assert "reports no T.Limit margin" in blocked["reason"]
    assert rig.host.run(f"ls {FILES[0]}").returncode != 0


@pytest.mark.story
def test_it_runs_at_once_and_doctor_finds_it(rig: Rig) -> None:
    assert rig.apply(**DECLARED)["outcome"] == "changed"

    assert rig.does(f"systemctl is-enabled {UNIT}; systemctl is-active {UNIT}") == "enabled\nactive"
    rig.waits_for(lambda: rig.state()["has_answered"])
    assert rig.finding("tmp.guard", **DECLARED)["status"] == "ok"
    assert rig.does(f"stat -c %a {STATE}") == "644"


@pytest.mark.story
def test_a_second_apply_changes_nothing(rig: Rig) -> None:
    host = rig.apply(**DECLARED)

    assert (host["outcome"], host["changes"]) == ("converged", [])


def test_a_card_that_merely_touches_the_limit_is_left_alone(rig: Rig) -> None:
    rig.host.set(f"heat={HOT}+85")  # at 300 W; 83 at 290
    assert rig.does("nvidia-smi -i 0 --query-gpu=temperature.gpu --format=csv,noheader") == "83"
    time.sleep(4)

    assert rig.state()["step"] == "none"
    assert rig.limits() == [290.0] * 4


@pytest.mark.story
def test_a_hot_card_gets_less_power_until_it_is_cooler_and_that_is_no_drift(rig: Rig) -> None:
    rig.host.set(f"heat={HOT}+95")
    rig.comes_to("lower-power")
    rig.waits_for(lambda: rig.limits() == [234.0, 290.0, 290.0, 290.0])

    found = rig.finding("tmp.guard", **DECLARED)
    assert (found["status"], "lower-power" in found["summary"]) == ("warn", True)
    assert f"GPU {HOT}: it is at 8" in found["summary"]
    limit = rig.finding("pwr.limit", **DECLARED)
    assert (limit["status"], limit["subject"]) == ("info", f"gpu {HOT}")
    assert "the thermal guard has lowered it to 234 W" in limit["summary"]
    host = rig.apply(**DECLARED)
    assert (host["outcome"], host["changes"]) == ("converged", [])
    assert rig.limits()[0] == 234.0
    assert "lower-power" in rig.does("cat /run/told")


def test_a_limit_that_its_unit_sets_anew_is_lowered_again(rig: Rig) -> None:
    rig.does("systemctl restart rigops-gpu-tuning")

    rig.waits_for(lambda: rig.limits()[0] == 234.0)
    assert rig.state()["cards"][0]["watts_before"] == 290.0


def test_a_guard_that_is_killed_goes_on_where_it_was(rig: Rig) -> None:
    before = rig.does(f"systemctl show -P MainPID {UNIT}")
    rig.does(f"systemctl kill -s KILL {UNIT}")

    rig.waits_for(lambda: rig.does(f"systemctl show -P MainPID {UNIT}") not in {before, "0"})
    time.sleep(2)
    assert rig.state()["cards"][0]["watts"] == rig.limits()[0] == 234.0


@pytest.mark.story
def test_once_it_is_cool_the_card_has_its_power_back(rig: Rig) -> None:
    rig.host.set("heat=")

    rig.comes_to("none")
    assert rig.limits() == [290.0] * 4
    assert "back to normal" in rig.journal()


def test_a_sensor_that_lies_leads_as_far_as_is_declared_for_lost_sensors(rig: Rig) -> None:
    rig.host.set(f"heat={HOT}+error")
    state = rig.comes_to("lower-power")
    assert "its temperature cannot be read ([Unknown Error])" in state["why"]
    rig.waits_for(lambda: rig.limits()[0] < 290.0 == min(rig.limits()[1:]))

    rig.host.set("heat=")
    rig.comes_to("none")
    assert rig.limits() == [290.0] * 4


def test_while_rigops_works_on_the_host_lost_sensors_lead_to_nothing(rig: Rig) -> None:
    rig.does(
        "setsid sleep 300 >/dev/null 2>&1 & "
        'echo "{\\"run\\": \\"x\\", \\"pid\\": $!}" >/var/lib/rigops/lock.json'
    )
    rig.host.set(f"heat={HOT}+na")
    time.sleep(4)
    state = rig.state()
    assert (state["step"], state["suspended"]) == ("none", "a run of rigops changes the host")

    rig.does("touch -d '50 minutes ago' /var/lib/rigops/lock.json")
    rig.comes_to("lower-power")
    rig.does("pkill -f '^sleep 300'; rm /var/lib/rigops/lock.json")
    rig.host.set("heat=")
    rig.comes_to("none")


def test_a_hung_nvidia_smi_is_a_lost_sensor_and_is_called_once(rig: Rig) -> None:
    """As with every other trouble of the driver the host stays on, though heat may power it off."""
    rig.apply(**{**DECLARED, "thermal_action": "poweroff"})
    boot = rig.boot_id()
    rig.host.set("smi=unkillable")
    state = rig.comes_to("lower-power")
    assert "nvidia-smi does not answer" in state["why"]
    time.sleep(3)
    calls = rig.host.run("pgrep -cf '^/usr/bin/python3.*nvidia-smi --query'").stdout
    assert int(calls) <= 1
    assert rig.state()["step"] == "lower-power"
    assert rig.does(f"systemctl is-active {UNIT}") == "active"

    rig.host.set("smi=ok")
    rig.comes_to("none")
    assert rig.limits() == [290.0] * 4
    assert rig.boot_id() == boot


def test_an_nvidia_smi_that_is_killed_a_mismatch_and_an_unload_never_power_the_host_off(
    rig: Rig,
) -> None:
    boot = rig.boot_id()
    killed = "/usr/local/sbin/nvidia-smi"
    rig.does(f"printf '#!/bin/sh\\nkill -9 $$\\n' >{killed}; chmod +x {killed}")
    assert "it ended with -9" in rig.comes_to("lower-power")["why"]
    rig.does(f"rm {killed}")
    rig.comes_to("none")

    mismatch = "Failed to initialize NVML: Driver/library version mismatch"
    rig.does(f"printf '#!/bin/sh\\necho {mismatch}\\nexit 18\\n' >{killed}; chmod +x {killed}")
    assert mismatch in rig.comes_to("lower-power")["why"]
    rig.does(f"rm {killed}")
    rig.comes_to("none")

    rig.does("modprobe -r nvidia")
    assert "the NVIDIA driver is not loaded" in rig.comes_to("lower-power")["why"]
    assert rig.host.run("pgrep -f 'nvidia-smi --query'").stdout == ""
    rig.host.set("driver=535.183.01")
    rig.comes_to("none")

    assert rig.boot_id() == boot
    assert not any(word in rig.journal() for word in ("powering off", "step stop-jobs"))
    rig.waits_for(lambda: rig.limits() == [290.0] * 4)


def test_a_program_on_the_host_may_ask_for_a_step_and_end_it(rig: Rig) -> None:
    rig.apply(**DECLARED)
    rig.does("rigops-guard --step lower-power --why \"$(printf 'on \\033[31mbattery')\"")
    rig.waits_for(lambda: rig.limits() == [150.0] * 4)
    assert rig.state()["why"] == "on [31mbattery"
    lines = rig.does(f"{PROGRAM} check").splitlines()
    assert lines[0] == (
        "finding\twarn\ttmp.guard\thost\tthe thermal guard: step lower-power: on [31mbattery"
    )
    assert lines[1].startswith(f"finding\twarn\ttmp.guard\tgpu {HOT}\tstep lower-power")
    assert lines[-1] == "metric\tguard_step\t2"
    shown = rig.does("runuser -u rig -- rigops-guard status").splitlines()
    assert shown[0] == "the thermal guard: step lower-power: on [31mbattery"
    assert f"GPU {HOT}: step lower-power, power limit 150.0 W instead of 290.0 W" in shown[2]

    rig.does("rigops-guard --step none")
    rig.waits_for(lambda: rig.limits() == [290.0] * 4)
    assert rig.does(f"{PROGRAM} check").splitlines() == [
        "finding\tok\ttmp.guard\thost\tthe thermal guard runs, and no card is too hot",
        "metric\tguard_step\t0",
    ]
    refused = rig.host.run("rigops-guard --step poweroff")
    assert refused.returncode == 2
    assert 'fix: declare "thermal_action": "poweroff"' in refused.stdout


def test_a_step_is_taken_without_the_service_too(rig: Rig) -> None:
    rig.does(f"systemctl stop {UNIT}")
    said = rig.does("rigops-guard --step lower-power --why battery")
    assert "does not run: the step is taken once, and not held" in said
    assert rig.limits() == [150.0] * 4
    assert "finding\tfail\ttmp.guard\thost\tthe thermal guard does not run" in rig.does(
        f"{PROGRAM} check"
    )
    assert rig.finding("tmp.guard", **DECLARED)["status"] == "fail"

    rig.does("rigops-guard --step none")
    assert rig.limits() == [290.0] * 4
    assert rig.apply(**DECLARED)["outcome"] == "changed"
    assert rig.does(f"systemctl is-active {UNIT}") == "active"


def test_jobs_of_the_hot_card_are_ended_and_killed_if_they_go_on(rig: Rig) -> None:
    rig.apply(**{**DECLARED, "thermal_action": "stop-jobs"})
    job = "setsid sh -c 'trap \"\" TERM; while :; do sleep 1; done' >/dev/null 2>&1 &"
    rig.does(f"mkdir -p /run/rigsim/jobs; {job} echo {HOT} >/run/rigsim/jobs/$!")
    rig.does("setsid sleep 500 >/dev/null 2>&1 & echo 0000:06:00.0 >/run/rigsim/jobs/$!")
    rig.host.set(f"heat={HOT}+140")  # 85 °C at the least power

    rig.comes_to("stop-jobs")
    alive = "for job in /run/rigsim/jobs/*; do kill -0 ${job##*/} 2>/dev/null && cat $job; done; :"
    rig.waits_for(lambda: rig.does(alive) == "0000:06:00.0")
    assert "KILL to sh" in rig.journal()
    assert rig.finding("tmp.guard", **DECLARED)["status"] == "fail"
    rig.host.set("heat=")
    rig.does("pkill -f '^sleep 500'")
    rig.comes_to("none")
    assert rig.limits() == [290.0] * 4


def test_no_boot_waits_for_it_and_it_waits_for_the_driver(rig: Rig) -> None:
    rig.apply(**DECLARED)
    program = "/usr/local/sbin/nvidia-smi"
    rig.does(f"printf '#!/bin/sh\\nexit 9\\n' >{program}; chmod +x {program}")
    rig.reboot()
    active = "systemctl show -P ActiveEnterTimestampMonotonic multi-user.target basic.target"
    after, before = (int(one) for one in rig.does(active).split())
    assert after - before < 30_000_000
    time.sleep(4)
    state = rig.state()
    assert (state["step"], state["has_answered"]) == ("none", False)

    rig.does(f"rm {program}")
    rig.waits_for(lambda: rig.state()["has_answered"])


def test_undeclared_the_power_comes_back_and_nothing_is_left(rig: Rig) -> None:
    rest = {"gpu_power_limit": 290}
    rig.does("systemctl start rigops-gpu-tuning")
    rig.host.set(f"heat={HOT}+95")
    rig.waits_for(lambda: rig.limits()[0] < 290)
    host = rig.apply(1, **rest)
    assert "thermal_guard" in [one["concern"] for one in host["withheld"]]

    rig.apply(0, "--prune", **rest)

    assert rig.limits() == [290.0] * 4
    left = "/run/rigops/thermal_guard* /var/lib/rigops/thermal_guard.json"
    assert rig.host.run(f"ls -d {' '.join(FILES)} {left}").stdout == ""
    wants = f"find /etc/systemd -name '*thermal-guard*'; systemctl is-active {UNIT}"
    assert rig.host.run(wants).stdout == "inactive\n"
    rig.host.set("heat=")


def test_the_same_deploy_runs_under_plain_pyinfra_and_a_release_undoes_it(rig: Rig) -> None:
    rig.declare(**DECLARED)
    rig.pyinfra_twice("thermal_guard.py")
    assert rig.does(f"systemctl is-active {UNIT}") == "active"
    rig.host.set(f"heat={HOT}+95")
    rig.waits_for(lambda: rig.limits()[0] < 290)

    said = rig.laptop.rigops("release", NAME, "--yes", "--json", *INVENTORY)
    assert said.code == 0, said.out + said.err
    assert rig.host.run(f"ls {' '.join(FILES)}").stdout == ""
    assert rig.limits()[0] >= 290.0
    assert rig.host.run(f"systemctl is-active {UNIT}").stdout == "inactive\n"


# ---- to the very end, and by the margin that newer cards report


def test_a_failed_fan_comes_to_the_declared_end_and_the_host_is_off(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    declared: dict[str, Any] = {
        "thermal_limit": {"margin": 10},
        "thermal_hold": 1,
        "thermal_action": "poweroff",
    }
    with hosts.running(["desktop-5090=thermal-guard-5090"]) as (host,):
        rig = Rig(Laptop(tmp_path_factory.mktemp("laptop")), host)
        assert rig.apply(**declared)["outcome"] == "changed"
        boot = rig.boot_id()
        host.set("heat=0000:01:00.0+fan")

        # A machine of the lab that is switched off is switched on again at once.
        rig.waits_for(
            lambda: boot not in (host.run("cat /proc/sys/kernel/random/boot_id").stdout or boot)
        )
        host.set("heat=")
        journal = rig.does("journalctl --no-pager -o cat -b -1")
        steps = ("notify", "lower-power", "stop-jobs", "poweroff")
        places = [journal.index(f"step {step}") for step in steps]
        assert places == sorted(places)
        assert "powering off: GPU 0000:01:00.0: -" in journal
        assert re.search("System is powering down|will power off now", journal)


def test_an_upgrade_of_the_driver_ends_nothing_and_leaves_the_host_on(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    with hosts.running(["t180-4xv100=thermal-guard-upgrade"]) as (host,):
        rig = Rig(Laptop(tmp_path_factory.mktemp("laptop")), host)
        assert rig.apply(thermal_limit=83, thermal_hold=1)["outcome"] == "changed"
        boot = rig.boot_id()

        host.set("driver=580.178.04")

        rig.waits_for(lambda: "580.178.04" in host.run("nvidia-smi").stdout)
        rig.waits_for(lambda: rig.state()["step"] == "none")
        assert rig.boot_id() == boot
        assert "stop-jobs" not in rig.journal()
