"""The gpu_tuning concern on booted hosts: what the cards have, when, and what is undone."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

import pytest

from tests.lab import hosts
from tests.lab.applying import INVENTORY
from tests.lab.laptop import Laptop
from tests.lab.tended import Tended, settings
from tests.shards import LAB_CONCERNS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

pytestmark = pytest.mark.shard(LAB_CONCERNS)

NAME = "gpu-tuning"
UNIT = "rigops-gpu-tuning.service"
FILES = (
    "/usr/local/libexec/rigops/gpu_tuning",
    "/etc/rigops/gpu_tuning",
    f"/etc/systemd/system/{UNIT}",
    "/etc/systemd/system/rigops-gpu-tuning-resume.service",
    "/etc/udev/rules.d/90-rigops-gpu-tuning.rules",
)
RECORD = "/var/lib/rigops/gpu_tuning.json"
CLOCKS = "application=877,1005"
DECLARED: Final[Mapping[str, Any]] = {"gpu_power_limit": 200, "gpu_clocks": CLOCKS}
TUNED = ("Enabled, 200.00, 877, 1005",) * 4
AS_IT_WAS = ("Enabled, 300.00, 877, 1312",) * 4
QUERY = (
    "nvidia-smi --query-gpu=persistence_mode,power.limit,clocks.applications.mem,"
    "clocks.applications.gr --format=csv,noheader,nounits"
)


class Rig(Tended):
    def cards(self) -> tuple[str, ...]:
        return tuple(self.does(QUERY).splitlines())

    def uuids(self) -> list[str]:
        return self.does("nvidia-smi --query-gpu=uuid --format=csv,noheader").splitlines()


@pytest.fixture(scope="module")
def rig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    with hosts.running([f"t180-4xv100={NAME}"]) as (host,):
        yield Rig(Laptop(tmp_path_factory.mktemp("laptop")), host)


def test_the_plan_shows_each_value_that_is_and_gets_and_touches_nothing(rig: Rig) -> None:
    before = rig.cards()
    host = rig.plan(**DECLARED)

    assert len(settings(host)) == 8
    assert settings(host)["GPU 0000:04:00.0 power limit"] == ("300 W", "200 W")
    assert set(FILES) <= {one["subject"] for one in host["changes"]}
    assert rig.cards() == before


@pytest.mark.story
def test_it_holds_at_once_and_doctor_finds_it(rig: Rig) -> None:
    assert rig.apply(**DECLARED)["outcome"] == "changed"

    assert rig.cards() == TUNED
    assert rig.does(f"systemctl is-enabled {UNIT}; systemctl is-active {UNIT}") == "enabled\nactive"
    assert rig.finding("pwr.limit", **DECLARED)["status"] == "ok"
    assert rig.finding("clk.app", **DECLARED)["status"] == "ok"


@pytest.mark.story
def test_a_second_apply_changes_nothing(rig: Rig) -> None:
    host = rig.apply(**DECLARED)

    assert (host["outcome"], host["changes"]) == ("converged", [])


def test_a_limit_that_somebody_else_sets_is_found_and_repaired(rig: Rig) -> None:
    rig.does("nvidia-smi -i 0000:84:00.0 -pl 250")

    found = rig.finding("pwr.limit", **DECLARED)
    assert (found["status"], found["remedy"]["kind"]) == ("warn", "apply")
    assert found["remedy"]["concern"] == "gpu_tuning"
    assert settings(rig.plan(**DECLARED)) == {"GPU 0000:84:00.0 power limit": ("250 W", "200 W")}
    assert rig.apply(**DECLARED)["outcome"] == "changed"
    assert rig.cards() == TUNED


def test_it_holds_after_a_reboot(rig: Rig) -> None:
    rig.reboot()

    assert rig.cards() == TUNED
    assert rig.apply(**DECLARED)["outcome"] == "converged"


def test_it_holds_after_the_driver_is_loaded_again(rig: Rig) -> None:
    rig.host.set("driver=535.183.01")
    rig.does(f"systemctl is-active {UNIT} | grep activ && systemctl start {UNIT}")

    assert rig.cards() == TUNED


def test_the_rule_of_udev_sets_the_cards_when_the_driver_comes(rig: Rig) -> None:
    rule = rig.does(f"cat {FILES[-1]}")
    command = re.search(r'SUBSYSTEM=="drivers".*RUN\+="([^"]*)"', rule)
    assert command
    rig.does("nvidia-smi -pl 300")

    rig.does(f"{command[1]} && systemctl start {UNIT}")
    assert rig.cards() == TUNED


def test_it_holds_after_a_suspend(rig: Rig) -> None:
    """Of systemd's own target, whose service here only makes the cards forget."""
    drop_in = "/run/systemd/system/systemd-suspend.service.d/lab.conf"
    forgets = "/bin/sh -c 'nvidia-smi -pl 300 >/run/forgot'"
    rig.does(
        f"mkdir -p {drop_in.rpartition('/')[0]} && "
        f"printf '[Service]\\nExecStart=\\nExecStart=%s\\n' \"{forgets}\" >{drop_in} && "
        "systemctl daemon-reload && systemctl start suspend.target"
    )

    until = f"until {QUERY} | grep -q 200.00; do sleep 0.2; done"
    rig.does(f"test -s /run/forgot && timeout 60 sh -c '{until}' && systemctl start {UNIT}")
    assert rig.cards() == TUNED


def test_it_holds_after_a_reset_of_the_cards(rig: Rig) -> None:
    """For which the persistence daemon has to be stopped, and is started again afterwards."""
    each = "for at in 0 1 2 3; do nvidia-smi -i $at -pl 300 >/dev/null; done"
    rig.does(f"systemctl stop nvidia-persistenced; {each}; systemctl start nvidia-persistenced")

    rig.does(f"timeout 60 sh -c 'until {QUERY} | grep -q 200.00; do sleep 0.2; done'")
    rig.does(f"systemctl start {UNIT}")
    assert rig.cards() == TUNED


def test_a_card_keeps_its_settings_when_its_number_changes(rig: Rig) -> None:
    """The driver numbers cards by address, and another slot has another."""
    last = rig.uuids()[-1]
    rig.apply(gpu_power_limit={last: 190, "default": 200})
    rig.does(
        "sed -i 's/0000:86:00.0/0000:03:00.0/; s/0000:80:03.0/0000:00:01.0/' /etc/rigsim/rig.json"
    )
    rig.reboot()

    query = "nvidia-smi --query-gpu=uuid,power.limit --format=csv,noheader,nounits"
    first, *others = rig.does(query).splitlines()
    assert first == f"{last}, 190.00"
    assert all(one.endswith(", 200.00") for one in others)
    rig.does(
        "sed -i 's/0000:03:00.0/0000:86:00.0/; s/0000:00:01.0/0000:80:03.0/' /etc/rigsim/rig.json"
    )
    rig.reboot()
    rig.apply(**DECLARED)


def test_what_the_cards_do_not_accept_blocks_with_card_and_range(rig: Rig) -> None:
    host = rig.plan(1, gpu_power_limit=310, gpu_clocks="application=877,1004")

    (first, *_) = host["blocked"]
    assert "gpu_power_limit = 310: each of GPUs 0000:04:00.0, " in first["reason"]
    assert "accepts 150 to 300 W" in first["reason"]


def test_the_power_step_that_throws_off_a_card_is_survived_with_the_clock_cap(rig: Rig) -> None:
    rig.host.set("load=step")
    assert len(rig.cards()) == len(TUNED)

    rig.host.set("load=idle")
    rig.apply(gpu_power_limit=200)  # which does not hold what the cards draw for milliseconds
    rig.host.set("load=step")
    assert "GPU is lost" in (said := rig.host.run("nvidia-smi")).stdout + said.stderr
    rig.host.set("load=idle")
    rig.reboot()
    rig.apply(**DECLARED)


def test_clocks_alone_undeclared_go_back_and_the_limit_stays(rig: Rig) -> None:
    host = rig.apply(gpu_power_limit=200)

    assert settings(host)["GPU 0000:04:00.0 application clocks"] == ("877,1005 MHz", "877,1312 MHz")
    assert rig.cards() == ("Enabled, 200.00, 877, 1312",) * 4


def test_undeclared_it_is_undone_exactly_and_nothing_is_left(rig: Rig) -> None:
    rig.apply(**DECLARED)
    host = rig.apply(1)
    assert [one["concern"] for one in host["withheld"]] == ["gpu_tuning"]
    assert rig.cards() == TUNED

    rig.apply(0, "--prune")

    assert rig.cards() == AS_IT_WAS
    assert rig.host.run(f"ls -d {' '.join(FILES)} {RECORD} /etc/rigops").stdout == ""
    wants = f"find /etc/systemd -name '*gpu-tuning*'; systemctl is-active {UNIT}"
    assert rig.host.run(wants).stdout == "inactive\n"


def test_a_card_that_is_lost_at_boot_is_named_and_the_others_are_set(rig: Rig) -> None:
    rig.apply(**DECLARED)
    (lost, *_) = rig.uuids()
    rig.host.set("lost=0000:04:00.0")
    rig.does("for at in 06 84 86; do nvidia-smi -i 0000:$at:00.0 -pl 300; done")

    assert rig.host.run(f"systemctl restart {UNIT}").returncode != 0
    assert f"{lost}: Unable to determine the device handle" in rig.does(
        f"journalctl -u {UNIT} -o cat --no-pager -n 20"
    )
    query = "nvidia-smi -i 0000:06:00.0 --query-gpu=power.limit --format=csv,noheader,nounits"
    assert rig.does(query) == "200.00"
    rig.host.set("lost=")


def test_the_same_deploy_runs_under_plain_pyinfra(rig: Rig) -> None:
    rig.does("systemctl reset-failed")
    rig.reboot()
    rig.declare(**DECLARED)
    rig.pyinfra_twice("gpu_tuning.py")

    assert rig.cards() == TUNED


def test_a_driver_that_hangs_does_not_hold_up_the_boot(rig: Rig) -> None:
    program = "/usr/local/sbin/nvidia-smi"
    rig.does(f"printf '#!/bin/sh\\nexec sleep 600\\n' >{program}; chmod +x {program}")
    rig.reboot()

    active = "systemctl show -P ActiveEnterTimestampMonotonic multi-user.target basic.target"
    after, before = (int(one) for one in rig.does(active).split())
    assert after - before < 30_000_000
    assert rig.host.run(f"systemctl is-failed {UNIT}").stdout == "failed\n"
    rig.does(f"rm {program}")


def test_a_release_undoes_it(rig: Rig) -> None:
    rig.reboot()
    assert rig.cards() == TUNED
    said = rig.laptop.rigops("release", NAME, "--yes", "--json", *INVENTORY)

    assert said.code == 0, said.out + said.err
    assert rig.cards() == AS_IT_WAS


# ---- a card that takes no limit below 400 W, and a program that undoes limits


@pytest.fixture(scope="module")
def blackwell(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    with hosts.running(["desktop-5090=gpu-tuning-5090"]) as (host,):
        yield Rig(Laptop(tmp_path_factory.mktemp("laptop")), host)


def test_an_rtx_5090_below_400_w_is_refused_before_and_fails_visibly_on_the_host(
    blackwell: Rig,
) -> None:
    (reason,) = (one["reason"] for one in blackwell.plan(1, gpu_power_limit=350)["blocked"])
    assert "accepts 400 to 600 W" in reason
    assert blackwell.apply(gpu_power_limit=450)["outcome"] == "changed"

    blackwell.does(f"sed -i 's/power 450/power 350/' {FILES[1]}")
    assert blackwell.host.run(f"systemctl restart {UNIT}").returncode != 0
    said = blackwell.does(f"journalctl -u {UNIT} -o cat --no-pager -n 9")
    assert "power limit 350: Provided power limit 350.00 W is not a valid power limit" in said
    assert blackwell.apply(gpu_power_limit=450)["outcome"] == "changed"


def test_what_would_undo_it_is_named_by_plan_and_doctor(blackwell: Rig) -> None:
    blackwell.does(
        "printf '[Service]\\nExecStart=sleep 600\\n' >/etc/systemd/system/lactd.service && "
        "printf '@reboot root nvidia-smi -pl 500\\n' >/etc/cron.d/gpu && systemctl start lactd"
    )

    notices = " ".join(blackwell.plan(gpu_power_limit=450)["notices"])
    assert "lactd.service runs and sets the default power limit" in notices
    assert "/etc/cron.d/gpu sets the cards too" in notices
    found = blackwell.finding("pwr.units", gpu_power_limit=450)
    assert (found["status"], "lactd.service may undo" in found["summary"]) == ("warn", True)
    blackwell.does("systemctl stop lactd; rm /etc/systemd/system/lactd.service /etc/cron.d/gpu")


# ---- together with the driver


@pytest.mark.parametrize(
    ("name", "more"),
    [("threadripper-3x3090", {}), ("fresh-install", {"driver_source": "distribution"})],
)
def test_settings_follow_the_driver_that_the_same_apply_brings(
    tmp_path_factory: pytest.TempPathFactory, name: str, more: Mapping[str, Any]
) -> None:
    declared: Mapping[str, Any] = {"driver": "535", "gpu_power_limit": {"3090": 285}, **more}
    with hosts.running([f"{name}=gt-{name}"]) as (host,):
        rig = Rig(Laptop(tmp_path_factory.mktemp("laptop")), host)
        done = rig.apply(0, "--reboot", "auto", **declared)

        assert done["outcome"] == "changed"
        query = "nvidia-smi --query-gpu=power.limit,persistence_mode --format=csv,noheader,nounits"
        assert set(rig.does(query).splitlines()) == {"285.00, Enabled"}
        assert rig.apply(**declared)["outcome"] == "converged"
