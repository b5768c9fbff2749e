"""A machine whose root was broken after an apply: rollback brings back the one before it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

import pytest

from tests.lab.laptop import Laptop
from tests.shards import VM_SNAPSHOTS
from tests.vm.trying import REBOOT_TIMEOUT_S, Tended

if TYPE_CHECKING:
    from tests.lab.laptop import Said
    from tests.vm.conftest import Machines

pytestmark = pytest.mark.shard(VM_SNAPSHOTS)

BROKEN: Final = "rm -rf /usr/lib/modules /usr/lib/systemd/systemd; echo late >/root/late"
OWNED: Final = "/etc/security/limits.d/90-rigops.conf"


class Rig(Tended):
    def limit(self) -> str:
        """Apply a change; the name of the snapshot that it took first."""
        declared = {"limits": {"memlock": "1G"}, "p2p": "skip", "reboot_timeout": REBOOT_TIMEOUT_S}
        self.laptop.declare({self.machine.name: {**self.machine.data, **declared}})
        code, host = self.apply()
        assert (code, host["outcome"]) == (0, "changed"), host
        return str(host["snapshot"])

    def roll_back(self, *options: str) -> Said:
        return self.rigops(
            "rollback", self.machine.name, "--what", "root", "--yes", "--json", *options
        )

    def root(self) -> str:
        return self.machine.ssh("btrfs inspect-internal rootid /").strip()


@pytest.fixture(scope="module")
def rig(module_vm: Machines, tmp_path_factory: pytest.TempPathFactory) -> Rig:
    return Rig(module_vm.up(layout="btrfs"), Laptop(tmp_path_factory.mktemp("laptop")))


def test_without_a_snapshot_nothing_is_touched(rig: Rig) -> None:
    rig.declare()
    before = rig.root()

    said = rig.roll_back("--reboot", "auto")

    assert said.code == 1
    assert "snapshot" in said.json()["hosts"][0]["error"]["message"]
    assert rig.root() == before


def test_without_consent_to_the_reboot_nothing_is_touched(rig: Rig) -> None:
    name = rig.limit()
    before = rig.root()

    said = rig.roll_back()

    assert said.code == 130
    (host,) = said.json()["hosts"]
    assert host["root_change"]["snapshot"] == name
    assert "pass --reboot auto" in said.err
    assert rig.root() == before
    assert rig.machine.ssh(f"ls {OWNED}").strip() == OWNED


def test_the_root_of_before_boots_and_is_verified(rig: Rig) -> None:
    rig.machine.ssh(BROKEN)
    before = rig.root()

    said = rig.roll_back("--reboot", "auto")

    assert said.code == 0, said.out + said.err
    (host,) = said.json()["hosts"]
    change = host["root_change"]
    assert host["outcome"] == "changed"
    assert rig.root() != before
    look = "ls /usr/lib/systemd/systemd; ls -d /usr/lib/modules/*; systemctl is-system-running"
    assert rig.machine.ssh(look).splitlines()[-1] == "running"
    assert rig.machine.ssh(f"ls {OWNED} /root/late 2>/dev/null || true") == ""
    story = "\n".join(host["story"])
    assert change["aside"] in story
    assert "the inventory declares settings that are not in force there now" in story
    assert "took over the lock" not in story
    entry = json.loads(rig.machine.ssh("tail -n 1 /var/lib/rigops/journal.jsonl"))
    assert (entry["command"], entry["outcome"]) == ("rollback", "changed")
    assert entry["snapshot"] == change["snapshot"]
    top = "mount -o subvolid=5 $(findmnt -n -v -o SOURCE /) /mnt"
    rig.machine.ssh(top)
    assert rig.machine.ssh(f"cat /mnt/{change['aside']}/root/late").strip() == "late"
    assert rig.machine.ssh(f"btrfs property get /mnt/{change['aside']} ro").strip() == "ro=true"
    assert rig.machine.ssh("umount /mnt; ls /var/lib/rigops/lock.json || true") == ""


def test_a_root_that_would_not_boot_is_refused(rig: Rig) -> None:
    """The one that was put aside lacks what was removed from it."""
    listed = rig.rigops("snapshots", rig.machine.name, "--no-sizes", "--json").json()
    names = [
        one["name"]
        for subvolume in listed["hosts"][0]["subvolumes"]
        for one in subvolume["snapshots"]
        if one["kind"] == "rollback"
    ]
    before = rig.root()

    said = rig.roll_back("--reboot", "auto", "--at", names[0])

    assert said.code == 1
    error = said.json()["hosts"][0]["error"]
    assert "--at" in error["cure"]
    assert rig.root() == before
