"""From a declaration to a restore and to its end: apply, backup, snapshots, restore and doctor."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pytest

from tests.lab import hosts
from tests.lab.laptop import Laptop
from tests.lab.tended import Tended
from tests.shards import LAB_SNAPSHOTS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

pytestmark = pytest.mark.shard(LAB_SNAPSHOTS)

NAME: Final = "snapshots-cli"
DATA: Final = "/data/models"
HERE: Final = "/data/.rigops/snapshots/data%2Fmodels"
KEY: Final = "/etc/rigops/snapshots_key"
UNITS: Final = ("rigops-snapshots", "rigops-scrub")
FILES: Final = (
    "/usr/local/libexec/rigops/snapshots",
    "/etc/rigops/snapshots.json",
    *(f"/etc/systemd/system/{unit}.{kind}" for unit in UNITS for kind in ("service", "timer")),
)
CHECKS: Final = ("snap.age", "snap.target", "snap.nested")


class Rig(Tended):
    def asks(self, *words: str, code: int = 0) -> Mapping[str, Any]:
        """The only host of a command's document."""
        said = self.laptop.rigops(*words, "--json")
        assert said.code == code, said.out + said.err
        (host,) = said.json()["hosts"]
        found: Mapping[str, Any] = host
        return found

    def places(self) -> dict[str, list[str]]:
        """Of each snapshot that is whole, by its name."""
        (found,) = self.asks("snapshots", NAME)["subvolumes"]
        return {
            one["name"]: [place["place"] for place in one["places"] if place["is_complete"]]
            for one in found["snapshots"]
        }


@pytest.fixture(scope="module")
def rig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    with hosts.running([f"epyc-8x4090={NAME}"]) as (host,):
        rig = Rig(Laptop(tmp_path_factory.mktemp("laptop")), host)
        rig.does(
            f"mkdir -p /data && mount /dev/sda /data && btrfs -q subvolume create {DATA} && "
            f"mkdir {DATA}/thesis && head -c 20000000 /dev/urandom >{DATA}/weights && "
            f"echo first >{DATA}/thesis/text"
        )
        yield rig


@pytest.fixture(scope="module")
def declared(rig: Rig) -> dict[str, Any]:
    disk = rig.does("blkid -o value -s UUID /dev/sdb")
    return {"snapshots": {"subvolumes": [DATA], "keep": "24h 7d", "send_to": disk}}


def test_apply_installs_it_and_the_timers_service_takes_and_sends_the_first(
    rig: Rig, declared: dict[str, Any]
) -> None:
    assert rig.apply(**declared)["outcome"] == "changed"

    for unit in UNITS:
        assert rig.does(f"systemctl is-active {unit}.timer") == "active"
        rig.does(f"systemctl start {unit}.service || journalctl -u {unit} -o cat | grep -v ^$")
        assert rig.does(f"systemctl show -p Result --value {unit}.service") == "success"
    (found,) = rig.places().values()
    assert found == ["local", declared["snapshots"]["send_to"]]
    assert rig.apply(**declared)["outcome"] == "converged"


def test_a_backup_by_hand_builds_upon_the_timers(rig: Rig) -> None:
    first = list(rig.places())
    rig.does(f"echo second >{DATA}/thesis/text")

    dry = rig.asks("backup", NAME, "--dry-run")
    done = rig.asks("backup", NAME)

    assert [one["parent"] for one in dry["backup"]["sent"]] == first
    (sent,) = done["backup"]["sent"]
    assert ([sent["parent"]], done["status"]) == (first, "ok")
    assert sent["bytes"] < 20_000_000 * 0.05
    assert set(map(len, rig.places().values())) == {2}
    assert rig.places().keys() == {*first, sent["name"]}


def test_what_is_lost_comes_back_from_any_of_them(rig: Rig) -> None:
    first, second = rig.places()
    rig.does(f"rm -r {DATA}/thesis")

    rig.asks("restore", NAME, f"{DATA}/thesis", "--in-place", "--yes")
    older = rig.asks("restore", NAME, f"{DATA}/thesis/text", "--at", first)["restored"]

    assert rig.does(f"cat {DATA}/thesis/text") == "second"
    assert rig.does(f"cat '{older['restored_to']}'") == "first"
    whole = rig.asks("restore", NAME, DATA, "--in-place", "--yes")["restored"]
    assert (whole["snapshot"], whole["to_do"]) == (second, None)
    (sent,) = rig.asks("backup", NAME)["backup"]["sent"]
    assert sent["parent"] == second


def test_doctor_finds_nothing_wrong_and_a_stopped_timer(rig: Rig, declared: dict[str, Any]) -> None:
    rig.declare(**declared)
    seen = rig.laptop.doctor().seen(NAME)

    assert {(one, seen.one(one)["status"]) for one in CHECKS} == {(one, "ok") for one in CHECKS}
    assert not {one for one in seen.ids("fail", "warn") if one.startswith(("snap.", "btrfs."))}
    rig.does("systemctl stop rigops-snapshots.timer")
    assert rig.laptop.doctor().seen(NAME).one("snap.age")["status"] == "fail"
    rig.does("systemctl start rigops-snapshots.timer")


def test_without_the_declaration_all_of_it_goes_but_the_snapshots(
    rig: Rig, declared: dict[str, Any]
) -> None:
    before = rig.does(f"ls {HERE}")
    server: dict[str, Any] = {
        "snapshots": {**declared["snapshots"], "send_to": "root@nas:/srv/backup"}
    }
    rig.apply(**server)
    rig.does(f"test -s {KEY}")

    rig.apply(0, "--prune")

    assert rig.host.run(f"ls -d {' '.join(FILES)} {KEY} /etc/rigops").stdout == ""
    units = " ".join(f"{unit}.timer" for unit in UNITS)
    assert "enabled" not in rig.host.run(f"systemctl is-enabled {units}").stdout
    assert rig.does(f"ls {HERE}") == before
    there = f"/there/rigops/{NAME}/data%2Fmodels"
    rig.does(
        f"mkdir -p /there; mount -o ro /dev/sdb /there; test -d {there}/*-timer; umount /there"
    )
    rig.does(f"rm {DATA}/thesis/text")
    rig.asks("restore", NAME, f"{DATA}/thesis/text", "--in-place", "--yes")
    assert rig.does(f"cat {DATA}/thesis/text") == "second"
