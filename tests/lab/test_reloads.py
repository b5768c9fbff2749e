"""How often an apply has systemd reload, which may take the GPUs away from running containers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import pytest

from tests.lab import hosts
from tests.lab.applying import INVENTORY
from tests.lab.borg_host import own_disk
from tests.lab.laptop import Laptop
from tests.lab.tended import Tended
from tests.shards import LAB_APPLY

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.shard(LAB_APPLY)

NAME: Final = "reloads"
LIVE: Final = "/data/home"
TEXTFILES: Final = "/srv/textfiles"
NOTE: Final = "/run/rigops/reload"
TIMERS: Final = (
    "rigops-borg.timer", "rigops-borg-drill.timer", "rigops-snapshots.timer", "rigops-scrub.timer",
    "rigops-self-check.timer", "rigops-metrics.timer",
)  # fmt: skip
SERVICES: Final = ("rigops-gpu-tuning", "rigops-thermal-guard", "rigops-shm")
FILES: Final = "find /etc/systemd -name '*rigops*'"


@dataclass(frozen=True)
class Rig(Tended):
    def declared(self, **more: object) -> dict[str, Any]:
        """All that has units."""
        return {
            "borg": self.borg(),
            "snapshots": {"subvolumes": [LIVE], "keep": "24h"},
            "gpu_power_limit": 300,
            "thermal_limit": 83,
            "cpu_governor": "performance",
            "acs_redirect": "off",
            "limits": {"shm": "1G", "nofile": 8192, "removeipc": False},
            "notify": "cat >>/run/told",
            "metrics": TEXTFILES,
            **more,
        }

    def borg(self, **more: object) -> dict[str, Any]:
        passphrase = f"cat {self.laptop.folder}/passphrase"
        borg = {"repository": "/srv/backup/rig", "paths": ["/etc"], "keep": "7d"}
        return {**borg, "passphrase_command": passphrase, **more}

    @property
    def reloads(self) -> int:
        """Since the boot, by what systemd itself writes down; whoever asked for them."""
        journal = self.does("journalctl --sync; journalctl -b -o cat --no-pager _PID=1")
        return sum(line in {"Reloading.", "Reloading..."} for line in journal.splitlines())

    def show(self, unit: str, *properties: str) -> list[str]:
        return self.does(f"systemctl show -P {' -P '.join(properties)} {unit}").split("\n")


@pytest.fixture(scope="module", params=["bookworm", "trixie"])
def rig(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    # Of Debian 13 the lab has a driver on hosts with engines of containers alone.
    more = ["containers=on"] if request.param == "trixie" else []
    with hosts.running([f"epyc-8x4090={NAME}", f"suite={request.param}", *more]) as (host,):
        rig = Rig(Laptop(tmp_path_factory.mktemp("laptop")), host)
        (rig.laptop.folder / "passphrase").write_text("secret-of-the-lab\n")
        rig.does(
            f"{own_disk('/srv/backup')} && mkdir -p /data {TEXTFILES} && mount /dev/sda /data && "
            f"btrfs -q subvolume create {LIVE}"
        )
        yield rig


def test_a_fresh_apply_of_everything_reloads_nothing_and_all_of_it_runs(rig: Rig) -> None:
    before = rig.reloads
    assert rig.apply(**rig.declared())["outcome"] == "changed"

    assert rig.reloads == before
    for unit in (*TIMERS, *SERVICES):
        assert rig.does(f"systemctl is-active {unit}; systemctl is-enabled {unit}").split() == [
            "active", "enabled",
        ], unit  # fmt: skip
    for unit in ("rigops-cpu-tuning", "rigops-gpu-tuning-resume"):
        assert rig.does(f"systemctl is-enabled {unit}") == "enabled"


def test_a_unit_that_fails_is_reported_without_a_reload(rig: Rig) -> None:
    rig.does("mv /srv/textfiles /srv/elsewhere")
    assert rig.host.run("systemctl start rigops-metrics").returncode != 0
    rig.does("mv /srv/elsewhere /srv/textfiles; systemctl reset-failed rigops-metrics")

    rig.does("timeout 60 sh -c 'until grep -q rigops-metrics /run/told; do sleep 0.5; done'")


def test_an_apply_of_what_is_there_reloads_nothing(rig: Rig) -> None:
    before = rig.reloads

    host = rig.apply(**rig.declared())

    assert (host["outcome"], host["changes"]) == ("converged", [])
    assert any("nofile counts for services that start after" in one for one in host["notices"])
    assert rig.reloads == before


def test_a_changed_timer_is_one_reload_and_has_its_new_schedule(rig: Rig) -> None:
    before = rig.reloads

    host = rig.apply(**rig.declared(borg=rig.borg(schedule="*-*-* 04:44:00")))

    assert host["outcome"] == "changed"
    assert rig.reloads == before + 1
    assert "04:44:00" in "".join(rig.show("rigops-borg.timer", "TimersCalendar"))
    assert rig.show("rigops-borg.timer", "ActiveState", "NeedDaemonReload") == ["active", "no"]


def test_many_changed_units_are_one_reload_and_what_waited_for_any_counts_then(rig: Rig) -> None:
    before = rig.reloads
    rig.does("mkdir /srv/other")

    host = rig.apply(
        **rig.declared(
            limits={"shm": "2G", "nofile": 4096},
            cpu_governor="powersave",
            metrics="/srv/other",
        )
    )

    assert host["outcome"] == "changed"
    assert rig.reloads == before + 1
    assert rig.does("findmnt -n -o SIZE /dev/shm") == "2G"
    assert "/srv/other" in rig.show("rigops-metrics.service", "ReadWritePaths")[0]
    assert rig.does("systemctl show -P DefaultLimitNOFILE") == "4096"
    assert rig.host.run(f"ls {NOTE}").stdout == ""


def test_what_an_interrupted_run_left_waiting_is_in_the_plan_and_the_next_run_does_it(
    rig: Rig,
) -> None:
    declared = rig.declared(
        limits={"shm": "2G", "nofile": 4096}, cpu_governor="powersave", metrics="/srv/other"
    )
    rig.does(f"echo 'rigops-borg.timer restart' >{NOTE}")
    before = rig.reloads

    rig.declare(**declared)
    shown = rig.laptop.rigops("plan", *INVENTORY)
    assert "update its copy of rigops-borg.timer" in shown.out, shown.out
    assert rig.apply(**declared)["outcome"] == "changed"

    assert rig.reloads == before + 1
    assert rig.show("rigops-borg.timer", "ActiveState") == ["active"]
    assert rig.apply(**declared)["outcome"] == "converged"
    assert rig.reloads == before + 1


def test_undone_without_a_reload_nothing_is_left_that_runs_or_could_start_again(rig: Rig) -> None:
    before = rig.reloads

    rig.apply(0, "--prune")

    assert rig.reloads == before
    assert rig.host.run(FILES).stdout == ""
    assert rig.does("systemctl list-units --plain --no-legend 'rigops-*'") == ""
    size = rig.does("findmnt -n -o SIZE /dev/shm")
    rig.does("systemd-run --wait true; systemctl start multi-user.target")
    assert rig.does("systemctl list-units --state=failed --plain --no-legend 'rigops-*'") == ""
    assert rig.does("findmnt -n -o SIZE /dev/shm") == size != "2G"
    assert rig.apply()["outcome"] == "converged"


def test_what_comes_back_after_that_runs_as_declared(rig: Rig) -> None:
    before = rig.reloads

    assert rig.apply(**rig.declared())["outcome"] == "changed"

    assert rig.reloads <= before + 1
    for unit in (*TIMERS, *SERVICES):
        assert rig.does(f"systemctl is-active {unit}") == "active", unit
    assert rig.show("rigops-borg.timer", "NeedDaemonReload") == ["no"]


def test_a_release_reloads_nothing_and_leaves_nothing(rig: Rig) -> None:
    before = rig.reloads

    done = rig.laptop.rigops("release", NAME, "--yes", "--json", *INVENTORY)

    assert done.code == 0, done.out + done.err
    assert rig.reloads == before
    assert rig.host.run(f"{FILES}; ls -d /var/lib/rigops /run/rigops").stdout == ""
    assert rig.does("systemctl list-units --plain --no-legend 'rigops-*'") == ""


def test_a_changed_unit_counts_under_plain_pyinfra_too(rig: Rig) -> None:
    rig.does("mkdir -p /srv/other")
    for metrics in (TEXTFILES, "/srv/other"):
        rig.declare(metrics=metrics)
        rig.pyinfra_twice("monitoring.py")

    assert "/srv/other" in rig.show("rigops-metrics.service", "ReadWritePaths")[0]
    assert rig.show("rigops-metrics.timer", "ActiveState", "NeedDaemonReload") == ["active", "no"]
