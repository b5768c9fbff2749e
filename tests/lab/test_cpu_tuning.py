"""The cpu_tuning concern on a booted host: what its policies have, when, and what is undone."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any, Final

import pytest

from tests.lab import hosts
from tests.lab.applying import INVENTORY
from tests.lab.laptop import Laptop
from tests.lab.tended import Tended, settings
from tests.shards import LAB_CONCERNS
from tests.unit.cpu_policies import FOLDER, TREES

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

pytestmark = pytest.mark.shard(LAB_CONCERNS)

NAME = "cpu-tuning"
UNIT = "rigops-cpu-tuning.service"
PROGRAM = "/usr/local/libexec/rigops/cpu_tuning"
RECORD = "/var/lib/rigops/cpu_tuning.json"
POLICIES = f"/{FOLDER}"
DECLARED: Final[Mapping[str, Any]] = {"cpu_max_freq": "3GHz", "cpu_governor": "performance"}
AS_IT_WAS = {("schedutil", "4000000")}
TUNED = {("performance", "2800000")}


class Rig(Tended):
    def policies(self) -> set[tuple[str, ...]]:
        """Governor and limit, of all policies that differ."""
        each = (
            f"cd {POLICIES} && for one in policy*; do "
            "echo $(cat $one/scaling_governor $one/scaling_max_freq); done"
        )
        return {tuple(line.split()) for line in self.does(each).splitlines()}

    def put(self, name: str, value: str, policy: str = "policy5") -> None:
        self.does(f"echo {shlex.quote(value)} >{POLICIES}/{policy}/{name}")


@pytest.fixture(scope="module")
def rig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    with hosts.running([f"threadripper-3x3090={NAME}"]) as (host,):
        yield Rig(Laptop(tmp_path_factory.mktemp("laptop")), host)


def test_the_plan_shows_the_step_that_will_hold_and_touches_nothing(rig: Rig) -> None:
    host = rig.plan(**DECLARED)

    assert settings(host) == {
        "CPU policies 0-23 governor": ("schedutil", "performance"),
        "CPU policies 0-23 highest frequency": ("4 GHz", "2.8 GHz"),
    }
    assert {PROGRAM, f"/etc/systemd/system/{UNIT}"} < {one["subject"] for one in host["changes"]}
    notices = " ".join(host["notices"])
    assert "2.8 GHz will hold, since acpi-cpufreq has 2.2 GHz, 2.8 GHz, 4 GHz" in notices
    assert "boost ends" in notices
    assert rig.policies() == AS_IT_WAS


def test_it_holds_at_once_and_a_second_apply_changes_nothing(rig: Rig) -> None:
    assert rig.apply(**DECLARED)["outcome"] == "changed"

    assert rig.policies() == TUNED
    assert rig.does(f"systemctl is-enabled {UNIT}") == "enabled"
    assert rig.does(f"systemctl show -P Result {UNIT}") == "success"
    host = rig.apply(**DECLARED)
    assert (host["outcome"], host["changes"]) == ("converged", [])


def test_what_somebody_else_sets_is_shown_by_plan_and_repaired_by_apply(rig: Rig) -> None:
    rig.put("scaling_max_freq", "4000000")
    rig.put("scaling_governor", "schedutil", "policy7")

    found = rig.finding("cpu.gov", **DECLARED)
    assert (found["status"], found["remedy"]["concern"]) == ("warn", "cpu_tuning")
    assert settings(rig.plan(**DECLARED)) == {
        "CPU policy 5 highest frequency": ("4 GHz", "2.8 GHz"),
        "CPU policy 7 governor": ("schedutil", "performance"),
    }
    assert rig.apply(**DECLARED)["outcome"] == "changed"
    assert rig.policies() == TUNED
    assert rig.finding("cpu.gov", **DECLARED)["status"] == "ok"


def test_it_holds_after_a_reboot(rig: Rig) -> None:
    rig.reboot()

    assert rig.policies() == TUNED
    assert rig.apply(**DECLARED)["outcome"] == "converged"


def test_it_holds_after_a_suspend(rig: Rig) -> None:
    """Of systemd's own target, whose service here only makes a policy forget."""
    drop_in = "/run/systemd/system/systemd-suspend.service.d/lab.conf"
    forgets = f"/bin/sh -c 'echo 4000000 >{POLICIES}/policy3/scaling_max_freq && touch /run/forgot'"
    rig.does(
        f"mkdir -p {drop_in.rpartition('/')[0]} && "
        f"printf '[Service]\\nExecStart=\\nExecStart=%s\\n' \"{forgets}\" >{drop_in} && "
        "systemctl daemon-reload && systemctl start suspend.target"
    )

    until = f"until grep -q 2800000 {POLICIES}/policy3/scaling_max_freq; do sleep 0.2; done"
    rig.does(f"test -e /run/forgot && timeout 60 sh -c '{until}'")
    assert rig.policies() == TUNED


def test_no_target_of_the_boot_waits_for_it(rig: Rig) -> None:
    before = rig.does(f"systemctl show -P Before {UNIT}").split()

    assert "multi-user.target" not in before
    assert "multi-user.target" in rig.does(f"systemctl show -P After {UNIT}").split()


def test_what_does_not_take_it_fails_with_policy_and_value(rig: Rig) -> None:
    file = f"{POLICIES}/policy5/scaling_max_freq"
    rig.put("scaling_max_freq", "4000000")
    rig.does(f"mount --bind {file} {file} && mount -o remount,bind,ro {file}")

    host = rig.apply(1, **DECLARED)
    assert host["outcome"] == "failed"
    expected = "policy5: scaling_max_freq is 4000000 instead of 2800000"
    assert expected in host["error"]["message"]
    rig.does(f"umount {file}")
    assert rig.apply(**DECLARED)["outcome"] == "changed"
    assert rig.policies() == TUNED


def test_what_would_undo_it_is_named(rig: Rig) -> None:
    unit = "/etc/systemd/system/tuned.service"
    rig.does(f"printf '[Service]\\nExecStart=sleep 600\\n' >{unit} && systemctl start tuned")

    notices = " ".join(rig.plan(**DECLARED)["notices"])
    rig.does(f"systemctl stop tuned; rm {unit}; systemctl daemon-reload")
    assert "tuned.service runs and sets governor and limits with its profile" in notices


@pytest.mark.parametrize("cap", ["2GHz", "4.5GHz"])
def test_a_limit_outside_the_range_blocks_and_touches_nothing(rig: Rig, cap: str) -> None:
    host = rig.plan(1, cpu_max_freq=cap)

    (reason,) = (one["reason"] for one in host["blocked"])
    assert "acpi-cpufreq" in reason
    assert "2.2 GHz to 4 GHz" in reason
    assert rig.policies() == TUNED


def test_the_governor_alone_undeclared_goes_back_and_the_limit_stays(rig: Rig) -> None:
    host = rig.apply(cpu_max_freq="3GHz")

    assert settings(host) == {"CPU policies 0-23 governor": ("performance", "schedutil")}
    assert rig.policies() == {("schedutil", "2800000")}
    assert rig.apply(cpu_max_freq="3GHz")["outcome"] == "converged"


def test_undeclared_it_is_undone_exactly_and_nothing_is_left(rig: Rig) -> None:
    rig.apply(**DECLARED)
    host = rig.apply(1)
    assert [one["concern"] for one in host["withheld"]] == ["cpu_tuning"]
    assert rig.policies() == TUNED

    rig.apply(0, "--prune")

    assert rig.policies() == AS_IT_WAS
    left = f"ls -d {PROGRAM} {RECORD}; find /etc/systemd -name '*cpu-tuning*'"
    assert rig.host.run(left).stdout == ""
    assert rig.apply()["outcome"] == "converged"


def test_the_same_deploy_runs_under_plain_pyinfra(rig: Rig) -> None:
    rig.declare(**DECLARED)
    rig.pyinfra_twice("cpu_tuning.py")

    assert rig.policies() == TUNED
    assert rig.apply(**DECLARED)["outcome"] == "converged"


def test_a_release_undoes_it_after_a_reboot_too(rig: Rig) -> None:
    rig.reboot()
    assert rig.policies() == TUNED
    said = rig.laptop.rigops("release", NAME, "--yes", "--json", *INVENTORY)

    assert said.code == 0, said.out + said.err
    assert rig.policies() == AS_IT_WAS
    assert rig.host.run(f"ls -d {PROGRAM} /var/lib/rigops").stdout == ""


@pytest.mark.parametrize("name", TREES)
def test_each_driver_and_mode_is_planned_set_and_undone(rig: Rig, name: str) -> None:
    tree = TREES[name]
    files = {f"/{path}": text.strip() for path, text in tree.files.items()}
    lines = [f"mkdir -p {path.rpartition('/')[0]}; echo {shlex.quote(text)} >{path}"
             for path, text in files.items()]  # fmt: skip
    rig.does("\n".join((f"rm -r {POLICIES}/*", *lines)))
    declared: dict[str, Any] = {"cpu_max_freq": f"{tree.khz} kHz", "cpu_governor": tree.governor}

    assert len(settings(rig.plan(**declared))) == 2
    assert rig.apply(**declared)["outcome"] == "changed"
    assert rig.policies() == {(tree.governor, str(tree.held_khz))}
    assert rig.apply(**declared)["outcome"] == "converged"
    rig.apply(0, "--prune")

    assert rig.policies() == {(tree.was_governor, str(tree.most_khz))}
    is_as_it_was = "; ".join(f"cat {path}" for path in files)
    assert rig.does(is_as_it_was).splitlines() == list(files.values())


def test_a_governor_that_the_mode_has_not_is_refused(rig: Rig) -> None:
    tree = TREES["intel_pstate active"]
    for policy in ("policy0", "policy1"):
        rig.put("scaling_driver", tree.driver, policy)
        rig.put("scaling_available_governors", tree.governors, policy)

    (reason,) = (one["reason"] for one in rig.plan(1, cpu_governor="schedutil")["blocked"])
    assert "(intel_pstate): it is not among performance, powersave" in reason


def test_where_nothing_is_scaled_it_is_skipped_with_the_reason(rig: Rig) -> None:
    rig.does(f"rm -r {POLICIES}/policy*")

    host = rig.apply(**DECLARED)

    assert (host["outcome"], host["changes"]) == ("converged", [])
    (text,) = host["notices"]
    assert "cpu_max_freq and cpu_governor: skipped" in text
