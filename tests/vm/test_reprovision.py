"""A proven machine is captured, its disk gets a new system, and one command makes it what it was.

The story of tests/lab/test_reprovision.py with a real kernel, GRUB, btrfs and IOMMU.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pytest

from tests.lab.driver_rig import GOOD
from tests.lab.laptop import Laptop
from tests.lab.sshd import keygen
from tests.lab.test_reprovision import CONTENT, DATA, STRANGER
from tests.shards import VM_REPROVISION
from tests.vm.cutting import cut_at, switch_on
from tests.vm.driver_packages import does, has_archive
from tests.vm.looking import group_types
from tests.vm.reinstalling import SystemDisk
from tests.vm.test_driver_power import Rig
from tests.vm.trying import PATIENCE_S, REBOOT_TIMEOUT_S

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from tests.lab.vm.machines import Machine
    from tests.vm.conftest import Machines

pytestmark = pytest.mark.shard(VM_REPROVISION)

ARGUMENT: Final = "iommu=pt"
MODELS: Final = "/srv/models"
SECOND_DISK: Final = f"""
set -e
disk=/dev/disk/by-id/ata-QEMU_HARDDISK_SECOND
mkfs.btrfs -q $disk >&2
uuid=$(blkid -p -s UUID -o value $disk)
mkdir {MODELS}
echo "UUID=$uuid {MODELS} btrfs noatime,nofail 0 0" >>/etc/fstab
mount {MODELS}
head -c 3000000 /dev/urandom >{MODELS}/weights
echo $uuid
"""

# A new system has somebody who is at home there, and has it open.
SOMEBODY: Final = """
cat >/etc/systemd/system/somebody.service <<'UNIT'
[Service]
WorkingDirectory=/home
ExecStart=sleep infinity
[Install]
WantedBy=multi-user.target
UNIT
systemctl enable --quiet somebody
"""


class Story:
    """What the laptop has of the machine, and what it does to it."""

    def __init__(self, machine: Machine, laptop: Laptop) -> None:
        self.rig = Rig(machine, laptop)
        self.machine = machine
        self.laptop = laptop
        self.known_hosts = machine.access.folder / "known_hosts"
        self.declared: dict[str, Any] = {
            **machine.data,
            "driver": "535",
            "kernel_args": [ARGUMENT],
            "gpus": 2,
            "limits": {"memlock": "unlimited", "nofile": 65536},
            "snapshots": {
                "subvolumes": ["/home"],
                "keep": "7d",
                "send_to": machine.ssh(SECOND_DISK),
            },
            "ssh_user": "rig",
            "reboot_timeout": REBOOT_TIMEOUT_S,
        }
        machine.ssh(DATA)
        self.known_hosts.write_text(STRANGER + self.known_hosts.read_text())
        laptop.declare({machine.name: self.declared})

    def rigops(self, *words: str) -> Mapping[str, Any]:
        """What it says of the machine, all being well."""
        said = self.laptop.rigops(*words, "--json", "-i", "inventory.py", timeout=PATIENCE_S)
        assert said.code == 0, said.out + said.err
        (host,) = said.json()["hosts"]
        return dict(host)

    def apply(self) -> Mapping[str, Any]:
        return self.rigops("apply", "--yes", "--reboot", "auto")

    def limits(self) -> str:
        return self.machine.ssh("ulimit -l -n; df -k /dev/shm | tail -n 1", user="rig")

    def data(self) -> str:
        return self.machine.ssh(f"{CONTENT}; sha256sum {MODELS}/weights")


class Before:
    """What the proven machine was, when it was captured."""

    def __init__(self, story: Story) -> None:
        self.applied = story.apply()
        story.rigops("backup", story.machine.name)
        self.capture = story.rigops("capture", story.machine.name, "--yes")
        self.packages = story.rig.versions()
        self.limits = story.limits()
        self.data = story.data()
        self.id = story.machine.ssh("cat /etc/machine-id")
        self.root = story.machine.ssh("findmnt -n -o UUID /")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("disks")


@pytest.fixture(scope="module")
def story(module_vm: Machines, folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Story:
    disk = SystemDisk.installed(folder)
    has_archive(disk, ["bookworm"])
    machine = module_vm.up(system=disk.system, second=4096)
    return Story(machine, Laptop(tmp_path_factory.mktemp("laptop")))


@pytest.fixture(scope="module")
def before(story: Story) -> Before:
    return Before(story)


@pytest.fixture(scope="module")
def reprovisioned(story: Story, before: Before, folder: Path) -> Mapping[str, Any]:
    assert before.capture["status"] == "safe", before.capture["requirements"]
    shown = reinstall(story, folder, SOMEBODY)
    return story.rigops("reprovision", story.machine.name, "--yes", "--accept-host-key", shown)


def reinstall(story: Story, folder: Path, also: str = ":") -> str:
    """The fingerprint of its new host key. The new system has no archive of packages."""
    disk = SystemDisk.installed(folder)
    disk.is_plain()
    does(disk, also)
    story.machine.cut()
    story.machine.install(disk.system)
    switch_on(story.machine)
    key = folder / "shown.pub"
    key.write_text(disk.host_key)
    return keygen("-l", "-f", str(key)).split()[1]


def test_the_rig_is_proven_and_may_be_wiped(story: Story, before: Before) -> None:
    assert before.applied["outcome"] == "changed", before.applied
    assert (story.rig.loaded, set(before.packages.values())) == (GOOD, {GOOD})
    assert before.capture["p2p"]["level"]
    assert len(before.capture["p2p"]["pairs"]) == 2


def test_one_command_makes_the_new_system_what_the_old_one_was(
    story: Story, before: Before, reprovisioned: Mapping[str, Any]
) -> None:
    machine = story.machine
    worse = [one for one in reprovisioned["compared"] if one["verdict"] == "worse"]
    assert (reprovisioned["status"], worse) == ("same", [])
    verdicts = {one["subject"]: one["verdict"] for one in reprovisioned["compared"]}
    for subject in (
        f"kernel argument {ARGUMENT}", "driver", "driver packages", "P2P proof", "P2P pairs",
        "locked memory", "open files", f"mount {MODELS}", "user rig",
    ):  # fmt: skip
        assert verdicts[subject] == "same", (subject, verdicts)
    assert machine.ssh("cat /etc/machine-id") != before.id
    assert machine.ssh("findmnt -n -o UUID /") != before.root
    assert (story.rig.versions(), story.rig.loaded) == (before.packages, GOOD)
    assert story.limits() == before.limits
    assert story.data() == before.data
    assert any("was in use" in line for line in reprovisioned["story"])
    assert story.known_hosts.read_text().startswith(STRANGER)


def test_a_second_apply_changes_nothing(story: Story, reprovisioned: Mapping[str, Any]) -> None:
    assert reprovisioned
    assert story.apply()["outcome"] == "converged"


def test_a_subvolume_that_only_the_login_is_in_is_replaced_at_once(
    story: Story, before: Before, reprovisioned: Mapping[str, Any]
) -> None:
    assert reprovisioned
    story.machine.ssh("systemctl disable --now --quiet somebody; rm -r /home/rig/thesis")

    restored = story.rigops("restore", story.machine.name, "/home", "--in-place", "--yes")

    assert (restored["status"], story.data()) == ("ok", before.data)


def test_a_plain_boot_has_the_argument_and_cards_pass_the_iommu(
    story: Story, before: Before, reprovisioned: Mapping[str, Any]
) -> None:
    assert reprovisioned
    story.machine.reboot()
    assert ARGUMENT in story.rig.arguments
    assert "rigops.trial" not in story.rig.arguments
    assert group_types(story.machine) == {"identity"}
    assert story.data() == before.data
    assert story.rig.traces() == ""


def test_a_power_cut_at_its_reboot_costs_only_another_run(
    story: Story, before: Before, reprovisioned: Mapping[str, Any], folder: Path
) -> None:
    assert reprovisioned
    words = ("reprovision", story.machine.name, "--yes")
    shown = reinstall(story, folder)
    running = story.laptop.start(*words, "--accept-host-key", shown, "-i", "inventory.py")
    try:
        cut_at(story.machine, running, "reboot")
    finally:
        running.end()
    switch_on(story.machine)

    host = story.rigops(*words)

    assert host["status"] == "same", host["compared"]
    assert (story.rig.versions(), story.rig.loaded) == (before.packages, GOOD)
    assert story.data() == before.data
    assert ARGUMENT in story.rig.arguments
    assert story.rig.traces() == ""
    assert story.apply()["outcome"] == "converged"
