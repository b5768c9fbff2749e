"""A proven rig is captured, its disk is wiped, and one command makes it what it was."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import pytest

from tests.lab import machine
from tests.lab.applying import INVENTORY
from tests.lab.driver_rig import tended
from tests.lab.reinstalling import PASSWORD, has_key_again, inside, let_the_lab_in, reinstall
from tests.lab.sshd import keygen
from tests.lab.terminal import CTRL_C, Person
from tests.lab.vault_rig import FIRST, VaultRig
from tests.shards import LAB_REPROVISION

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tests.lab.laptop import Said

pytestmark = pytest.mark.shard(LAB_REPROVISION)

NAME: Final = "phoenix"
MARK: Final = "geheim-5b07fd"
STRANGER: Final = "somewhere.example ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIElsewhere # stays\n"
REPOSITORY: Final = "/mnt/backup/rig"
# As a line of /etc/fstab would on a machine that has udev.
BACKUP_DISK: Final = """
set -eu
cat >/etc/systemd/system/backup-disk.service <<'UNIT'
[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/bin/sh -c 'mkdir -p /mnt/backup && mount /dev/sda /mnt/backup'
[Install]
WantedBy=multi-user.target
UNIT
systemctl enable --now --quiet backup-disk
mountpoint -q /mnt/backup
"""
DATA: Final = """
set -e
mkdir -p /home/rig/thesis && head -c 300000 /dev/urandom >/home/rig/thesis/results
echo draft >/home/rig/thesis/text && ln -s text /home/rig/thesis/newest
chown -R rig: /home/rig
"""
CONTENT: Final = (
    "cd /home/rig/thesis && find . -printf '%P %m %U %G %s %l\\n' | sort; "
    "find . -type f -exec sha256sum {} + | sort"
)


class Story:
    """What the laptop has of the rig, and what it does to it."""

    def __init__(self, vault: VaultRig) -> None:
        self.vault = vault
        self.rig = vault.rig
        self.laptop = vault.rig.laptop
        self.host = vault.rig.host
        self.known_hosts = self.laptop.folder / "known_hosts"
        passphrase = self.laptop.folder / "passphrase"
        passphrase.write_text(f"{MARK}\n")
        self.declared: dict[str, Any] = {
            "driver": "535",
            "kernel_args": ["iommu=pt"],
            "gpus": 8,
            "gpu_power_limit": 400,
            "borg": {
                "repository": REPOSITORY,
                "paths": ["/home/rig"],
                "keep": "7d",
                "host_keys": True,
                "passphrase_command": f"cat {passphrase}",
            },
            "ssh_user": "rig",
            "ssh_known_hosts_file": str(self.known_hosts),
        }
        self.known_hosts.write_text(STRANGER + self.key_line)

    @property
    def key_line(self) -> str:
        record = self.host.record
        return f"[{record.address}]:{self.host.port} {record.host_key}\n"

    @property
    def fingerprint(self) -> str:
        """As somebody reads it at the host's console."""
        key = self.laptop.folder / "shown.pub"
        key.write_text(self.host.record.host_key)
        return keygen("-l", "-f", str(key)).split()[1]

    def declare(self) -> None:
        self.laptop.declare({self.host.name: self.declared})

    def apply(self) -> Mapping[str, Any]:
        self.declare()
        said = self.laptop.rigops("apply", "--yes", "--reboot", "auto", "--json", *INVENTORY)
        assert said.code == 0, said.out + said.err
        (host,) = said.json()["hosts"]
        return dict(host)

    def back_up(self) -> None:
        backup = self.laptop.rigops("backup", self.host.name, "--json", *INVENTORY)
        assert backup.code == 0, backup.out + backup.err

    def capture(self) -> Mapping[str, Any]:
        said = self.laptop.rigops("capture", self.host.name, "--yes", "--json", *INVENTORY)
        (host,) = said.json()["hosts"]
        assert "error" not in host or host["error"] is None, host
        return dict(host)

    def reprovision(self, *words: str, timeout: float = 400) -> Said:
        return self.laptop.rigops(
            "reprovision", self.host.name, "--yes", "--json", *words, *INVENTORY, timeout=timeout
        )

    def reprovisioned(self, *words: str, code: int = 0) -> Mapping[str, Any]:
        said = self.reprovision(*words)
        assert said.code == code, said.out + said.err
        document = said.json()
        assert document["schema"] == "rigops.reprovision/1"
        (host,) = document["hosts"]
        return dict(host)


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Story]:
    with tended(tmp_path_factory, f"epyc-8x4090={NAME}", f"driver={FIRST}") as booted:
        inside(booted.host, BACKUP_DISK)
        booted.does(DATA)
        yield Story(VaultRig(booted))


class Before:
    """What the proven rig was, when it was captured and then wiped."""

    def __init__(self, story: Story) -> None:
        story.apply()
        story.back_up()
        self.capture = story.capture()
        self.packages = story.rig.versions()
        self.data = story.rig.does(CONTENT)
        self.machine = story.rig.does("cat /etc/machine-id")
        self.key_line = story.key_line
        self.host_key = story.host.record.host_key


@pytest.fixture(scope="module")
def before(story: Story) -> Before:
    return Before(story)


def test_a_wiped_rig_is_what_it_was_with_one_command(story: Story, before: Before) -> None:
    reinstall(story.host)
    inside(story.host, BACKUP_DISK)
    story.vault.without_sources()
    assert story.rig.versions() == {}
    assert story.rig.does("cat /etc/machine-id") != before.machine

    host = story.reprovisioned("--accept-host-key", story.fingerprint)

    has_key_again(story.host, before.host_key)
    worse = [one for one in host["compared"] if one["verdict"] == "worse"]
    assert (host["status"], worse) == ("same", [])
    verdicts = {one["subject"]: one["verdict"] for one in host["compared"]}
    for subject in ("driver", "driver packages", "P2P pairs", "kernel argument iommu=pt"):
        assert verdicts[subject] == "same", verdicts
    assert story.rig.versions() == before.packages
    assert story.rig.does(CONTENT) == before.data
    assert story.known_hosts.read_text() == STRANGER + before.key_line
    assert [one["stage"] for one in host["stages"]] == [
        "trust", "bootstrap", "disks", "apply", "restore", "host keys", "verify", "compare"
    ]  # fmt: skip


def test_a_second_apply_changes_nothing(story: Story, before: Before) -> None:
    assert story.apply()["outcome"] == "converged"
    assert before.machine


def test_run_again_it_has_nothing_to_do(story: Story, before: Before) -> None:
    data = story.rig.does(CONTENT)
    said = story.laptop.rigops("capture", NAME, "--yes", "--json", *INVENTORY)
    (after,) = said.json()["hosts"]

    host = story.reprovisioned()

    assert after["at"] > before.capture["at"]
    assert host["capture"] == before.capture["place"]  # that of the wiped system
    assert host["captured_at"] == before.capture["at"]
    left_alone = f"taken after the reinstall, and left alone: {after['at']}"
    assert any(left_alone in text for text in host["story"])
    assert (host["status"], host["apply"]["outcome"]) == ("same", "converged")
    assert any("came back before" in text for text in host["story"])
    assert story.rig.does(CONTENT) == data == before.data


def test_a_person_with_a_password_accepts_the_key_and_may_decline_the_plan(
    story: Story, before: Before
) -> None:
    reinstall(story.host, by_password=True)
    inside(story.host, BACKUP_DISK)
    words = ["reprovision", NAME, *INVENTORY]
    known = story.known_hosts.read_text()
    for answers in (
        {"Type yes to trust the key": CTRL_C},
        {"Type yes to trust the key": "y"},
    ):
        said = Person(answers).rigops(story.laptop, words)
        assert said.code == 130, said.out + said.err
        assert story.known_hosts.read_text() == known
    said = Person({"Type yes to trust the key": "yes", "Password of rig@": CTRL_C}).rigops(
        story.laptop, words
    )
    assert said.code == 130, said.out + said.err
    assert "interrupted in the stage bootstrap" in said.out
    person = Person(
        {
            "Password of rig@": "",
            "Password of root@": PASSWORD,
            "phoenix and reboot": "n",
        }
    )

    declined = person.rigops(story.laptop, words, timeout=120)

    assert declined.code == 130, declined.out + declined.err
    old, new = before.key_line.split(), story.key_line.split()
    assert old != new
    assert story.fingerprint in said.err
    assert PASSWORD not in declined.out + declined.err
    assert story.known_hosts.read_text() == STRANGER + story.key_line
    assert "declined" in declined.out
    for command in ("sudo -n id -u", "id -u"):
        done = story.host.run(command, user="rig")
        assert done.returncode == 0, done.stderr
    let_the_lab_in(story.host)
    assert story.rig.versions() == {}


def test_killed_in_each_stage_it_goes_on_from_there(story: Story, before: Before) -> None:
    for stage in ("disks", "apply", "restore", "host keys", "verify", "compare"):
        running = story.laptop.start("reprovision", NAME, "--yes", *INVENTORY)
        assert running.process.stderr is not None
        lines = iter(running.process.stderr.readline, "")
        seen = next((line for line in lines if f"] {stage}" in line), None)
        running.end()
        assert seen, f"it ended before the stage {stage}"

    host = story.reprovisioned()

    has_key_again(story.host, before.host_key)
    assert host["status"] == "same", host["compared"]
    assert story.rig.versions() == before.packages
    assert story.rig.does(CONTENT) == before.data
    assert story.known_hosts.read_text() == STRANGER + before.key_line
    assert story.apply()["outcome"] == "converged"


def test_another_card_in_a_slot_is_a_lost_one_until_it_is_adopted(story: Story) -> None:
    record, rig = story.host.record, story.host.rig()
    old, *others = rig.gpus
    new = replace(old, uuid="GPU-00000000-aaaa-bbbb-cccc-000000000001", serial="1")
    machine.tell_hardware(record, replace(rig, gpus=(new, *others)))
    story.declared["gpu_power_limit"] = {old.uuid: 390, "default": 400}
    story.declare()

    lost = story.reprovisioned(code=1)
    story.declared["gpu_power_limit"] = {new.uuid: 390, "default": 400}
    story.declare()
    adopted = story.reprovisioned("--adopt-parts")

    assert lost["hints"] == [f"gpu_power_limit: write {new.uuid} for {old.uuid}"]
    found = {one["subject"]: one for one in lost["compared"]}[f"GPU {old.address}"]
    assert (found["verdict"], found["before"], found["after"]) == ("worse", old.uuid, new.uuid)
    assert adopted["status"] == "same", adopted["compared"]
