"""The snapshots concern on a booted host with two btrfs disks: its files, and their end."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

import pytest

from tests.lab import hosts
from tests.lab.applying import INVENTORY
from tests.lab.laptop import Laptop
from tests.lab.tended import Tended
from tests.shards import LAB_CONCERNS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

pytestmark = pytest.mark.shard(LAB_CONCERNS)

NAME = "snapshots-concern"
PROGRAM = "/usr/local/libexec/rigops/snapshots"
SETTINGS = "/etc/rigops/snapshots.json"
KEY = "/etc/rigops/snapshots_key"
UNITS = "/etc/systemd/system"
TIMERS = ("rigops-snapshots.timer", "rigops-scrub.timer")
FILES = (
    PROGRAM,
    SETTINGS,
    *(f"{UNITS}/{one}" for one in TIMERS),
    *(f"{UNITS}/{one.replace('timer', 'service')}" for one in TIMERS),
)
DATA = "/data/models"
_DATA: Final[Mapping[str, Any]] = {"subvolumes": [DATA], "keep": "24h 7d"}


class Rig(Tended):
    def uuid(self, disk: str) -> str:
        return self.does(f"blkid -o value -s UUID {disk}")

    def blocked(self, **snapshots: object) -> str:
        return " ".join(one["reason"] for one in self.plan(1, snapshots=snapshots)["blocked"])


@pytest.fixture(scope="module")
def rig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    with hosts.running([f"epyc-8x4090={NAME}"]) as (host,):
        rig = Rig(Laptop(tmp_path_factory.mktemp("laptop")), host)
        rig.does(
            "mkdir -p /data && mount /dev/sda /data && "
            f"btrfs -q subvolume create {DATA} && mkdir {DATA}/folder && "
            f"btrfs -q subvolume create {DATA}/inside"
        )
        yield rig


@pytest.fixture(scope="module")
def declared(rig: Rig) -> dict[str, Any]:
    return {"snapshots": {**_DATA, "send_to": rig.uuid("/dev/sdb")}}


def test_the_plan_shows_all_of_it_and_what_no_snapshot_will_have(
    rig: Rig, declared: dict[str, Any]
) -> None:
    host = rig.plan(**declared)

    assert {one["subject"] for one in host["changes"]} == set(FILES)
    assert "no content of the subvolumes inside: inside" in " ".join(host["notices"])
    assert rig.host.run(f"ls {' '.join(FILES)}").stdout == ""


def test_what_cannot_be_taken_blocks_with_the_fix(rig: Rig) -> None:
    assert "is no subvolume, in the subvolume models" in rig.blocked(subvolumes=[f"{DATA}/folder"])
    kind = rig.does("findmnt -n -o FSTYPE /")
    refused = rig.blocked(subvolumes=["/"])
    assert f"/ is on {kind}, and only btrfs has snapshots. fix: remove it" in refused
    assert "mount the btrfs that has it, or" in rig.blocked(subvolumes=["/srv"])
    listed = rig.laptop.rigops("snapshots", NAME, *INVENTORY)
    assert "/srv: declared, and not set up on the host" in listed.out
    same = rig.blocked(**_DATA, send_to=rig.uuid("/dev/sda"))
    assert f"send_to is the file system of {DATA} itself" in same
    assert "fix: declare it once" in rig.blocked(subvolumes=[DATA, f"{DATA}/"])


def test_it_is_installed_and_a_second_apply_changes_nothing(
    rig: Rig, declared: dict[str, Any]
) -> None:
    assert rig.apply(**declared)["outcome"] == "changed"

    assert json.loads(rig.does(f"cat {SETTINGS}")) == {
        "host": NAME,
        "subvolumes": [DATA],
        "keep": "24h 7d",
        "send_to": declared["snapshots"]["send_to"],
    }
    for timer in TIMERS:
        assert rig.does(f"systemctl is-active {timer}") == "active"
        service = timer.replace("timer", "service")
        assert rig.host.run(f"systemd-analyze verify {UNITS}/{service}").stderr == ""
    host = rig.apply(**declared)
    assert (host["outcome"], host["changes"]) == ("converged", [])


def test_what_is_damaged_is_repaired(rig: Rig, declared: dict[str, Any]) -> None:
    rig.does(f"echo nonsense >{SETTINGS}; systemctl stop {TIMERS[0]}")

    subjects = {one["subject"] for one in rig.plan(**declared)["changes"]}
    assert subjects == {SETTINGS, f"{UNITS}/{TIMERS[0]}"}
    assert rig.apply(**declared)["outcome"] == "changed"
    assert rig.does(f"systemctl is-active {TIMERS[0]}") == "active"


def test_for_a_server_the_host_makes_a_key_and_says_what_lets_it_in(rig: Rig) -> None:
    declared: dict[str, Any] = {"snapshots": {**_DATA, "send_to": "root@nas:/srv/backup"}}
    host = rig.apply(**declared)

    assert rig.does(f"stat -c '%a %U' {KEY}") == "600 root"
    public = rig.does(f"cat {KEY}.pub")
    assert public.startswith("ssh-ed25519 ")
    line = f'restrict,command="/usr/local/libexec/rigops-snapshots serve /srv/backup" {public}'
    (step,) = [one for one in host["story"] if one.startswith("send_to: ")]
    assert step.endswith(line)
    owned = json.loads(rig.does("cat /var/lib/rigops/owned.json"))["files"]
    assert KEY in {one["path"] for one in owned}
    assert f"`rigops snapshots {NAME} --target-setup | ssh root@nas sh`" in step
    assert rig.apply(**declared)["outcome"] == "converged"
    assert rig.does(f"cat {KEY}.pub") == public


def test_without_a_server_the_key_goes(rig: Rig, declared: dict[str, Any]) -> None:
    host = rig.apply(**declared)

    assert KEY in {one["subject"] for one in host["changes"]}
    assert rig.host.run(f"ls {KEY}*").stdout == ""


def test_where_somebody_else_scrubs_rigops_does_not(rig: Rig, declared: dict[str, Any]) -> None:
    other = f"{UNITS}/timers.target.wants/btrfs-scrub@data.timer"
    rig.does(f"ln -s /usr/lib/systemd/system/btrfs-scrub@.timer {other}")
    host = rig.apply(**declared)

    assert "rigops schedules no scrub" in " ".join(host["notices"])
    assert rig.host.run(f"ls {UNITS}/{TIMERS[1]}").stdout == ""
    rig.does(f"rm {other}")
    assert rig.apply(**declared)["outcome"] == "changed"


def test_undeclared_its_files_go_and_snapshots_stay(rig: Rig) -> None:
    host = rig.apply(1)
    assert [one["concern"] for one in host["withheld"]] == ["snapshots"]

    host = rig.apply(0, "--prune")

    assert ".rigops/snapshots at the top level" in " ".join(host["notices"])
    assert rig.host.run(f"ls -d {' '.join(FILES)} /etc/rigops").stdout == ""
    assert rig.host.run("ls /var/lib/systemd/timers | grep rigops").stdout == ""
    assert rig.apply()["outcome"] == "converged"


def test_the_same_deploy_runs_under_plain_pyinfra_and_a_release_undoes_it(rig: Rig) -> None:
    rig.declare(snapshots={**_DATA, "send_to": "root@nas:/srv/backup"})
    rig.pyinfra_twice("snapshots.py")
    assert rig.does(f"systemctl is-active {TIMERS[0]}") == "active"

    said = rig.laptop.rigops("release", NAME, "--yes", "--json", *INVENTORY)

    assert said.code == 0, said.out + said.err
    assert rig.host.run(f"ls -d {' '.join(FILES)} {KEY} /etc/rigops").stdout == ""
