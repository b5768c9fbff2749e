"""A machine with a btrfs root: apply takes a snapshot before it changes anything, or refuses."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

import pytest

from tests.lab.laptop import Laptop
from tests.shards import VM_SNAPSHOTS
from tests.vm.trying import REBOOT_TIMEOUT_S, Tended

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.vm.conftest import Machines

pytestmark = pytest.mark.shard(VM_SNAPSHOTS)

TOP: Final = "/mnt"
STORE: Final = f"{TOP}/.rigops/snapshots/@"
MOST: Final = 5
SNAPPER: Final = r"""
mkdir -p /etc/snapper/configs
echo 'SUBVOLUME="/"' >/etc/snapper/configs/root
cat >/usr/local/bin/snapper <<'END'
#!/bin/sh
echo "$*" >>/run/snapper.log
[ ! -e /run/snapper.fails ] || { echo 'IO Error (open failed).' >&2; exit 1; }
echo 7
END
chmod 755 /usr/local/bin/snapper
"""


class Rig(Tended):
    def limits(self, memlock: str) -> None:
        """A change that takes neither a reboot nor much time."""
        declared = {"limits": {"memlock": memlock}, "reboot_timeout": REBOOT_TIMEOUT_S}
        self.laptop.declare({self.machine.name: {**self.machine.data, **declared}})

    def planned(self) -> Mapping[str, Any]:
        host: Mapping[str, Any] = self.rigops("plan", "--json").json()["hosts"][0]
        return host

    def snapshots(self) -> list[str]:
        mount = f"mount -o subvolid=5 $(findmnt -n -v -o SOURCE /) {TOP}"
        self.machine.ssh(f"mountpoint -q {TOP} || {mount}")
        return self.machine.ssh(f"ls {STORE} 2>/dev/null || true").split()


@pytest.fixture(scope="module")
def rig(module_vm: Machines, tmp_path_factory: pytest.TempPathFactory) -> Rig:
    return Rig(module_vm.up(layout="btrfs"), Laptop(tmp_path_factory.mktemp("laptop")))


def test_the_snapshot_has_the_root_as_it_was_before_the_change(rig: Rig) -> None:
    rig.limits("1G")
    planned = rig.planned()
    assert planned["snapshot_first"] == "a snapshot of / is taken first"
    assert not any("snapshot" in notice for notice in planned["notices"])
    assert rig.snapshots() == []

    code, host = rig.apply()

    assert (code, host["outcome"]) == (0, "changed"), host
    (name,) = rig.snapshots()
    assert name.endswith("-apply")
    assert host["snapshot"] == name
    back = f"rigops rollback {rig.machine.name} --what root"
    assert f"snapshot of / taken first: {name}; back to it: {back}" in host["story"]
    stages = [one["stage"] for one in host["stages"]]
    assert stages.index("snapshot") < stages.index("change")
    of_rigops = rig.machine.ssh(f"ls {STORE}/{name}/var/lib/rigops").split()
    assert set(of_rigops) == {"lock", "lock.json"}
    assert rig.machine.ssh(f"btrfs property get {STORE}/{name} ro").strip() == "ro=true"
    entry = json.loads(rig.machine.ssh("tail -n 1 /var/lib/rigops/journal.jsonl"))
    assert entry["snapshot"] == name


def test_a_host_that_is_as_declared_gets_none(rig: Rig) -> None:
    assert rig.planned()["snapshot_first"] == ""
    _, host = rig.apply()

    assert (host["outcome"], host["snapshot"]) == ("converged", "")
    assert len(rig.snapshots()) == 1


def test_where_none_can_be_taken_nothing_is_changed(rig: Rig) -> None:
    rig.limits("2G")
    (before,) = rig.snapshots()
    rig.machine.ssh(f"mv {STORE} {TOP}/aside && touch {STORE}")

    code, host = rig.apply()

    rig.machine.ssh(f"rm {STORE} && mv {TOP}/aside {STORE}")
    assert (code, host["outcome"], host["snapshot"]) == (1, "refused", "")
    (blocked,) = host["blocked"]
    assert blocked["concern"] == "snapshot"
    assert blocked["reason"].startswith("no snapshot of / could be taken: ")
    assert ". fix: " in blocked["reason"]
    assert "change" not in [one["stage"] for one in host["stages"]]
    assert rig.snapshots() == [before]
    assert rig.planned()["changes"] != []


def test_the_newest_five_stay_and_one_that_is_pinned(rig: Rig) -> None:
    (first,) = rig.snapshots()
    rig.machine.ssh(f"echo {first} >{STORE}/pinned")
    taken = []
    for memlock in range(3, 10):
        rig.limits(f"{memlock}G")
        code, host = rig.apply()
        assert (code, host["outcome"]) == (0, "changed"), host
        taken.append(host["snapshot"])

    names = [one for one in rig.snapshots() if one.endswith("-apply")]
    assert names[0] == first
    assert len(names) == 1 + MOST
    assert names[-1] == taken[-1]


def test_where_snapper_manages_the_root_it_takes_a_pair(rig: Rig) -> None:
    rig.machine.ssh(SNAPPER)
    before = rig.snapshots()
    rig.limits("12G")
    assert rig.planned()["snapshot_first"].startswith("snapper (root) takes a snapshot of / first")

    code, host = rig.apply()

    assert (code, host["snapshot"]) == (0, "snapper root 7"), host
    assert rig.machine.ssh("cat /run/snapper.log").splitlines() == [
        "-c root create -t pre -p -d rigops apply",
        "-c root create -t post --pre-number 7 -d rigops apply",
    ]
    assert rig.snapshots() == before

    rig.machine.ssh("touch /run/snapper.fails")
    rig.limits("13G")
    code, host = rig.apply()
    assert (code, host["outcome"]) == (1, "refused")
    assert "snapper: IO Error (open failed)." in host["blocked"][0]["reason"]
    rig.machine.ssh("rm -r /run/snapper.fails /etc/snapper /usr/local/bin/snapper")


def test_without_the_tools_it_is_said_and_the_change_goes_on(rig: Rig) -> None:
    rig.machine.ssh("mv /usr/bin/btrfs /usr/bin/btrfs.away")
    planned = rig.planned()
    code, host = rig.apply()
    rig.machine.ssh("mv /usr/bin/btrfs.away /usr/bin/btrfs")

    assert planned["snapshot_first"] == ""
    assert any("the host has no btrfs. fix: " in notice for notice in planned["notices"])
    assert (code, host["outcome"], host["snapshot"]) == (0, "changed", "")
