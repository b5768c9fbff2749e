"""A machine whose root goes back to a snapshot, by the program alone: whole, refused, cut off."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import pytest

from rigops.hostside.packing import pack
from tests.lab.snapshot_host import read_ran
from tests.lab.vm.layouts import SUBVOLUME
from tests.shards import VM_SNAPSHOTS
from tests.vm.cutting import cut_when, switch_on

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.lab.snapshot_host import Ran
    from tests.lab.vm.machines import Machine
    from tests.vm.conftest import Machines

pytestmark = pytest.mark.shard(VM_SNAPSHOTS)

TOP: Final = "/mnt"
STORE: Final = ".rigops/snapshots/@"
NOTE: Final = f"{TOP}/.rigops/rollback.json"
NESTED: Final = ("srv/alpha", "srv/beta")
# /home in a subvolume of its own, and two inside the root, one of which has another inside.
DIVIDE: Final = f"""
set -e
disk=$(findmnt -n -v -o SOURCE /)
mount -o subvolid=5 $disk {TOP}
btrfs -q subvolume create {TOP}/@home
cp -a /home/. {TOP}/@home/
echo "UUID=$(findmnt -n -o UUID /) /home btrfs defaults,subvol=@home 0 0" >>/etc/fstab
mount /home
for one in /srv/alpha /srv/beta /srv/alpha/inner; do btrfs -q subvolume create $one; done
echo data | tee /srv/alpha/inner/file >/srv/beta/file
echo before >/etc/state
sync
"""
SHOW_TOP: Final = (
    f"mountpoint -q {TOP} || mount -o subvolid=5 $(findmnt -n -v -o SOURCE /) {TOP}; sync"
)
BREAK: Final = """
echo after >/etc/state
mkdir -p /root/work && echo new >/root/work/paper
rm -rf /usr/lib/modules /usr/lib/systemd/systemd
mount -t tmpfs none /srv/beta
echo newer >>/boot/grub/i386-pc/core.img
sync
"""
# Roots that rollbacks put aside long ago.
EARLIER: Final = f"""
for second in 1 2 3; do
    at={TOP}/{STORE}/20260101T00000${{second}}Z-rollback
    btrfs -q subvolume create $at
    [ $second != 1 ] || btrfs -q subvolume create $at/inside
    btrfs property set -ts $at ro true
done
"""
# The program comes to a halt there, with all that it has done on the disk.
HALT: Final = """
def halt():
    import time
    os.sync()
    open("/run/halted", "w").close()
    time.sleep(600)


def halt_after(function, is_there):
    def wrapped(*words, **more):
        found = function(*words, **more)
        if is_there(words):
            halt()
        return found
    return wrapped


WRAPPED


if __name__ == "__main__":"""
CUTS: Final = {
    "snapshot": "take_snapshot = halt_after(take_snapshot, lambda words: True)",
    "exchange": "put_in_place = halt_after(put_in_place, lambda words: True)",
    "moves": 'move = halt_after(move, lambda words: words[1].name == "alpha")',
}


@dataclass(frozen=True)
class Rig:
    machine: Machine

    def program(self, *words: str, code: int = 0) -> Ran:
        command = shlex.join(["python3", "-I", "-", "--json", *words])
        ran = read_ran(self.machine.run(command, given=pack("snapshots").text))
        assert ran.code == code, f"{ran.text}{ran.stderr}"
        return ran

    def rollback(self, *words: str) -> Mapping[str, Any]:
        found: Mapping[str, Any] = self.program("rollback-root", *words).result["rollback"]
        return found

    def finish(self) -> Mapping[str, Any] | None:
        found: Mapping[str, Any] | None = self.program("rollback-root", "--finish").result[
            "rolled_back"
        ]
        return found

    def refusal(self, *words: str) -> str:
        return self.program("rollback-root", *words, code=1).text

    def snapshot(self) -> str:
        (name,) = self.program("create", "--kind", "apply", "--subvolume", "/").names("created")
        return name

    def top(self, command: str) -> str:
        return self.machine.ssh(f"{SHOW_TOP}; {command}")

    def layout(self) -> str:
        """All subvolumes by name, and what the machine runs."""
        return self.top(
            f"btrfs subvolume list -u {TOP} | sed 's/.* uuid//' | sort; cat {NOTE} 2>/dev/null; "
            "findmnt -n -o FSROOT /"
        )

    def state(self) -> str:
        return self.machine.ssh("cat /etc/state")

    def data(self) -> str:
        return self.machine.ssh("cat /srv/alpha/inner/file /srv/beta/file 2>&1 || true")

    def cut_in(self, point: str) -> None:
        """The power goes there, and the machine boots without anybody's help."""
        whole = pack("snapshots").text
        text = whole.replace('if __name__ == "__main__":', HALT.replace("WRAPPED", CUTS[point]))
        assert text != whole
        self.machine.run("cat >/run/program", given=text)
        self.machine.ssh(
            "setsid python3 -I /run/program --json rollback-root >/run/said 2>&1 </dev/null &"
        )
        cut_when(self.machine, "test -e /run/halted")
        switch_on(self.machine)
        assert self.machine.ssh("systemctl is-system-running --wait || systemctl --failed") == (
            "running"
        )


@pytest.fixture(scope="module")
def rig(module_vm: Machines) -> Rig:
    machine = module_vm.up(layout="btrfs")
    machine.ssh(DIVIDE)
    return Rig(machine)


def test_a_root_that_would_not_boot_becomes_that_of_the_snapshot(rig: Rig) -> None:
    name = rig.snapshot()
    rig.machine.ssh(BREAK)
    before = rig.layout()

    planned = rig.rollback("--dry-run")

    assert rig.layout() == before
    release = rig.machine.ssh("uname -r")
    assert (planned["snapshot"], planned["kind"], planned["root"]) == (name, "apply", SUBVOLUME)
    assert planned["kernel"] == release
    assert set(NESTED) <= set(planned["nested"])
    assert "srv/alpha/inner" not in planned["nested"]
    assert {"/etc/state", "/root/work/paper"} <= set(planned["newer"]["examples"])
    assert {"path": "/root/work", "files": 1} in planned["newer"]["folders"]
    assert planned["notices"] == [
        "GRUB was installed since: its modules (i386-pc) stay as they are now"
    ]

    done = rig.rollback("--at", name)
    assert {**done, "aside": ""} == {**planned, "aside": ""}
    waiting = rig.finish()
    assert waiting is not None
    assert waiting["is_running"] is False
    rig.machine.reboot()

    assert rig.state() == "before"
    assert rig.data() == "data\ndata"
    assert rig.machine.ssh("tail -c 6 /boot/grub/i386-pc/core.img") == "newer"
    assert rig.machine.ssh("findmnt -n -o FSROOT /") == f"/{SUBVOLUME}"
    assert rig.machine.ssh("findmnt -n -o FSROOT /home") == "/@home"
    finished = rig.finish()
    assert finished == {
        "snapshot": name,
        "aside": done["aside"],
        "root": SUBVOLUME,
        "is_running": True,
    }
    aside = f"{TOP}/{done['aside']}"
    assert rig.top(f"btrfs property get -ts {aside} ro") == "ro=true"
    assert rig.top(f"cat {aside}/etc/state {aside}/root/work/paper") == "after\nnew"
    assert rig.finish() is None


def test_a_cut_before_the_exchange_leaves_the_root_of_before(rig: Rig) -> None:
    rig.snapshot()
    rig.machine.ssh("echo later >/etc/state; sync")

    rig.cut_in("snapshot")

    assert rig.state() == "later"
    assert rig.data() == "data\ndata"
    assert ".rigops-restore-" in rig.layout()
    finished = rig.finish()
    assert finished is not None
    assert finished["is_running"] is False
    assert ".rigops-restore-" not in rig.layout()
    assert rig.finish() is None


def test_a_cut_right_after_the_exchange_boots_the_new_root_and_the_rest_follows(
    rig: Rig,
) -> None:
    rig.top(EARLIER)
    rig.cut_in("exchange")

    assert rig.state() == "before"
    assert "data" not in rig.data()
    finished = rig.finish()
    assert finished is not None
    assert finished["is_running"] is True
    assert rig.data() == "data\ndata"
    kept = rig.top(f"ls {TOP}/{STORE} | grep rollback").split()
    assert kept[0] == "20260101T000001Z-rollback"  # with another inside
    assert kept[1:] == ["20260101T000003Z-rollback", kept[2], finished["aside"].split("/")[-1]]


def test_a_cut_in_the_middle_of_the_moves_is_finished_by_the_next_rollback(rig: Rig) -> None:
    rig.snapshot()
    rig.cut_in("moves")
    assert rig.machine.ssh("ls /srv/beta") == ""

    done = rig.rollback()

    assert "the last rollback was finished first" in done["notices"]
    assert set(NESTED) <= set(done["nested"])
    assert rig.top(f"cat {TOP}/{SUBVOLUME}/srv/*/file {TOP}/{SUBVOLUME}/srv/*/inner/file")


def test_one_whose_reboot_is_due_is_undone_by_the_next(rig: Rig) -> None:
    waiting = rig.layout()
    assert f"/{STORE}/" in waiting.splitlines()[-1]
    rig.machine.ssh("echo meanwhile >/etc/state")

    done = rig.rollback()

    assert "the last rollback, whose reboot was due, was undone first" in done["notices"]
    assert rig.top(f"cat {TOP}/{done['aside']}/etc/state") == "meanwhile"
    assert len(rig.layout().splitlines()) == len(waiting.splitlines())
    assert rig.top(f"cat {TOP}/{SUBVOLUME}/srv/*/file {TOP}/{SUBVOLUME}/srv/*/inner/file")


def test_a_snapshot_without_modules_for_a_kernel_in_its_boot_partition_is_refused(
    vm: Machines,
) -> None:
    rig = Rig(vm.up())
    name = rig.snapshot()
    rig.machine.ssh("cp /boot/vmlinuz-$(uname -r) /boot/vmlinuz-9.9.9-amd64; sync")
    before = rig.layout()

    said = rig.refusal()

    assert f"/boot has kernel 9.9.9-amd64, of which {name} has no modules" in said
    assert "apt-get purge linux-image-9.9.9-amd64" in said
    assert rig.layout() == before
    rig.machine.ssh("rm /boot/vmlinuz-9.9.9-amd64")
    assert rig.rollback("--dry-run")["kernel"] == rig.machine.ssh("uname -r")
