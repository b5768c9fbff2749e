"""What goes wrong at one host in an apply of several: said, with the way out, and nobody else's."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from tests.lab import users
from tests.lab.applying import (
    DROP_IN,
    INVENTORY,
    MENU,
    QUIETLY,
    READ_ONLY,
    VERBOSE,
    WRITABLE_AGAIN,
    by_host,
    half_written,
    is_set_up,
    is_to_be_tried,
    outcomes,
    sessions,
)
from tests.lab.controllers import another_controller
from tests.lab.laptop import Laptop
from tests.lab.terminal import Person
from tests.lab.tree import Tree
from tests.lab.users import PASSWORD
from tests.shards import LAB_APPLY

if TYPE_CHECKING:
    from pathlib import Path

    from tests.lab.conftest import Lab
    from tests.lab.hosts import Host

pytestmark = pytest.mark.shard(LAB_APPLY)

WRONG = "C0rrect-horse-4"
GONE = {"ssh_hostname": "127.0.0.1", "ssh_port": 1}
# What a login leaves, and what the journal writes all the time.
ALWAYS_CHANGES = ("/var/log/", "/run/")
RECORD = "/var/lib/rigops/owned.json"

# No real card is behind the nodes here, so a job has a file that has such a name.
JOB = """
touch /dev/nvidia9
setsid sh -c 'exec sleep 600 9</dev/nvidia9' </dev/null >/dev/null 2>&1 &
"""
OTHER_KEY_AT_BOOT = """
set -e
cat >/etc/systemd/system/other-key.service <<'END'
[Unit]
DefaultDependencies=no
After=local-fs.target
Before=ssh.service
[Service]
Type=oneshot
ExecStart=sh -c 'rm /etc/ssh/ssh_host_*; ssh-keygen -q -t ed25519 -N "" -f /etc/ssh/ssh_host_ed25519_key'
[Install]
WantedBy=multi-user.target
END
systemctl enable --quiet other-key
"""  # noqa: E501 - one line of a shell


@pytest.fixture(scope="module")
def rigs(module_lab: Lab) -> list[Host]:
    rigs = module_lab.up(*["nvlink-2x3090"] * 3)
    done = rigs[0].run(users.added("asks") + users.ASKS + VERBOSE)
    assert done.returncode == 0, done.stderr
    return rigs


@pytest.fixture
def rig(rigs: list[Host]) -> Host:
    return rigs[0]


@pytest.fixture
def laptop(tmp_path: Path) -> Laptop:
    return Laptop(tmp_path)


def declare(laptop: Laptop, *names: str, arguments: tuple[str, ...], **more: object) -> None:
    laptop.declare({name: {"kernel_args": list(arguments), **more} for name in names})


def test_a_dead_a_read_only_and_a_newer_host_spoil_nothing_for_the_one_that_is_well(
    rigs: list[Host], laptop: Laptop
) -> None:
    well, read_only, newer = rigs
    declared = {"kernel_args": ["nosmt"]}
    laptop.declare({**{one.name: declared for one in rigs}, "gone": {**declared, **GONE}})
    assert read_only.run(READ_ONLY).returncode == 0
    newer.run(f'mkdir -p /var/lib/rigops; echo \'{{"schema": "rigops.owned/2"}}\' >{RECORD}')
    before = Tree(read_only), Tree(newer)

    said = laptop.rigops("apply", "--reboot", "never", "--json", *QUIETLY)

    assert said.code == 1
    assert outcomes(said) == {
        well.name: "reboot_owed",
        read_only.name: "failed",
        newer.name: "failed",
        "gone": "unreachable",
    }
    errors = {name: host["error"] for name, host in by_host(said).items() if "error" in host}
    for name, words, fix in (
        (read_only.name, "Read-only file system", "remount,rw"),
        (newer.name, f"{RECORD} was written by a newer rigops", "upgrade rigops"),
        ("gone", "Connection refused", "the host is on"),
    ):
        assert words in errors[name]["message"]
        assert fix in errors[name]["cure"]
    assert is_to_be_tried(well, "nosmt")
    assert written(before[0], read_only) == written(before[1], newer) == set()

    read_only.run(WRITABLE_AGAIN)
    newer.run(f"rm {RECORD}")
    declare(laptop, *(one.name for one in rigs), arguments=("nosmt",))
    again = laptop.rigops("apply", "--reboot", "never", "--json", *QUIETLY)

    assert again.code == 0, again.err
    assert all(is_to_be_tried(one, "nosmt") for one in rigs)
    changed = {name: bool(host["changes"]) for name, host in by_host(again).items()}
    assert changed == {well.name: False, read_only.name: True, newer.name: True}


def written(before: Tree, host: Host) -> set[str]:
    found = before.differences(Tree(host))
    return {path for path in found if not path.startswith(ALWAYS_CHANGES)}


@dataclass(frozen=True)
class Full:
    """A disk without room where these files are; but for the last of them nothing was changed."""

    folder: str
    changed: bool = False
    said: str = "No space left on device"
    fix: str = "df -h"

    def fill(self, rig: Host) -> None:
        done = rig.run(
            f"mkdir -p {self.folder}; cp -a {self.folder} /run/kept;"
            f" mount -t tmpfs -o size=512k none {self.folder} && cp -a /run/kept/. {self.folder};"
            f" ! head -c 1M /dev/zero >{self.folder}/fills 2>/dev/null"
        )
        assert done.returncode == 0, done.stderr

    def make_room(self, rig: Host) -> None:
        rig.run(f"rm -f {self.folder}/fills")

    def take_away(self, rig: Host) -> None:
        """What was written there stays."""
        rig.run(
            f"rm -rf /run/kept; cp -a {self.folder} /run/kept; umount {self.folder};"
            f" cp -a /run/kept/. {self.folder}; rm -r /run/kept"
        )


def test_a_full_disk_leaves_nothing_half_and_the_next_run_finishes(
    rigs: list[Host], laptop: Laptop
) -> None:
    no_menu = Full("/boot/grub", changed=True, said="/boot/grub has 0 KiB free", fix="make room")
    disks = [Full("/var/lib/rigops"), Full("/etc/default/grub.d"), no_menu]
    declare(laptop, *(one.name for one in rigs), arguments=("full=1",), kernel_trial="off")
    for rig, disk in zip(rigs, disks, strict=True):
        disk.fill(rig)
    try:
        before = [_drop_in_and_menu(rig) for rig in rigs]

        said = laptop.rigops("apply", "--reboot", "never", "--json", *QUIETLY)

        assert said.code == 1
        for rig, disk, (drop_in, menu) in zip(rigs, disks, before, strict=True):
            host = by_host(said)[rig.name]
            assert host["outcome"] == "failed"
            assert disk.said in host["error"]["message"]
            assert disk.fix in host["error"]["message"] + host["error"]["cure"]
            drop_in_now, menu_now = _drop_in_and_menu(rig)
            assert menu_now == menu
            assert ("full=1" in drop_in_now) if disk.changed else (drop_in_now == drop_in)
            disk.make_room(rig)
        again = laptop.rigops("apply", "--reboot", "never", "--json", *QUIETLY)

        assert again.code == 0, again.out + again.err
        assert all(is_set_up(rig, "full=1") for rig in rigs)
        assert [half_written(rig) for rig in rigs] == [[], [], []]
    finally:
        for rig, disk in zip(rigs, disks, strict=True):
            disk.take_away(rig)


def _drop_in_and_menu(rig: Host) -> tuple[str, str]:
    drop_in, _, menu = rig.run(f"cat {DROP_IN}; echo '=='; cat {MENU}").stdout.partition("==\n")
    return drop_in, menu


# ---- passwords


def test_a_wrong_sudo_password_is_tried_once_and_told(rig: Host, laptop: Laptop) -> None:
    declare(laptop, rig.name, arguments=("nosmt",), ssh_user="asks")
    before = sessions(rig)

    said = Person({"sudo password": WRONG}).rigops(
        laptop, ["apply", "--ask-sudo-password", "--reboot", "never", "--json", *QUIETLY]
    )

    between = sessions(rig) - before - 1
    assert said.code == 3
    (host,) = said.json()["hosts"]
    assert host["outcome"] == "unreachable"
    assert host["error"]["kind"] == "sudo"
    assert "refused the password" in host["error"]["message"]
    assert between == 2  # whether sudo asks, and this password
    assert WRONG not in said.out + said.err


def test_a_sudo_that_wants_a_password_nobody_gave_is_told_with_the_ways_out(
    rig: Host, laptop: Laptop
) -> None:
    declare(laptop, rig.name, arguments=("nosmt",), ssh_user="asks")

    said = laptop.rigops("apply", "--reboot", "never", "--json", *QUIETLY)

    (host,) = said.json()["hosts"]
    assert (said.code, host["outcome"], host["error"]["kind"]) == (3, "unreachable", "sudo")
    assert "sudo asks for a password" in host["error"]["message"]
    assert "--ask-sudo-password" in host["error"]["cure"]


# ---- hosts that are not changed


def test_two_names_of_one_machine_are_both_refused_and_a_third_host_goes_on(
    rigs: list[Host], laptop: Laptop
) -> None:
    one, third = rigs[:2]
    declared = {"kernel_args": ["twins=1"]}
    laptop.declare(
        {one.name: declared, "alias": {**declared, "ssh_hostname": one.name}, third.name: declared}
    )

    said = laptop.rigops("apply", "--reboot", "never", "--json", *QUIETLY)

    assert said.code == 1
    found = by_host(said)
    assert found[third.name]["outcome"] == "reboot_owed"
    for name in (one.name, "alias"):
        assert found[name]["outcome"] == "failed"
        text = f"{one.name} and alias are the same machine"
        assert text in found[name]["error"]["message"]
    assert is_to_be_tried(third, "twins=1")
    assert not is_to_be_tried(one, "twins=1")


NIXOS = "ID=nixos\nVERSION_ID=24.05\n"
IMAGE = "ID=fedora\nPRETTY_NAME='Fedora Linux 40 (Silverblue)'\nOSTREE_VERSION='40.1'\n"


def test_a_distribution_that_makes_its_own_files_gets_a_snippet_and_stays_as_it_is(
    rigs: list[Host], laptop: Laptop
) -> None:
    two = rigs[:2]
    declare(laptop, *(one.name for one in two), arguments=("iommu=pt",))
    for rig, release in zip(two, (NIXOS, IMAGE), strict=True):
        rig.run("mv /etc/os-release /run/os-release; cat >/etc/os-release", given=release)
    try:
        before = [Tree(rig) for rig in two]
        said = laptop.rigops("apply", "--reboot", "auto", "--json", *QUIETLY)
        changed = [written(tree, rig) for tree, rig in zip(before, two, strict=True)]
    finally:
        for rig in two:
            rig.run("mv /run/os-release /etc/os-release")

    assert said.code == 1
    snippets = (
        'boot.kernelParams = [ "iommu=pt" ];',
        "use `rpm-ostree kargs --append-if-missing=iommu=pt`",
    )
    for rig, snippet in zip(two, snippets, strict=True):
        host = by_host(said)[rig.name]
        assert (host["outcome"], host["changes"], host["reboot"]) == ("refused", [], False)
        (blocked,) = host["blocked"]
        assert snippet in blocked["reason"]
    assert changed == [set(), set()]


# ---- locks


def test_a_host_that_another_apply_works_on_is_refused_with_the_name_of_the_holder(
    rigs: list[Host], laptop: Laptop
) -> None:
    rig, other = rigs[:2]
    declare(laptop, rig.name, other.name, arguments=("locked=1",))

    with another_controller(rig):
        said = laptop.rigops("apply", "--reboot", "never", "--json", *QUIETLY)
        while_held = is_to_be_tried(rig, "locked=1")

    assert said.code == 1
    assert outcomes(said) == {rig.name: "failed", other.name: "reboot_owed"}
    error = by_host(said)[rig.name]["error"]
    assert "kim@laptop, begun 2025-11-21T22:00:00Z, held for " in error["message"]
    assert "wait for it to end" in error["cure"]
    assert not while_held
    assert is_to_be_tried(other, "locked=1")


def test_the_lock_of_a_dead_apply_is_taken_over_and_told(rig: Host, laptop: Laptop) -> None:
    declare(laptop, rig.name, arguments=("taken=1",))
    with another_controller(rig) as other:
        other.kill()
        other.wait()

    said = laptop.rigops("apply", "--reboot", "never", *QUIETLY)

    assert said.code == 0, said.err
    assert "took over the lock of an apply of kim@laptop" in said.out
    assert is_to_be_tried(rig, "taken=1")


# ---- reboots


def test_a_gpu_job_keeps_a_host_from_its_reboot_until_that_is_allowed(
    rig: Host, laptop: Laptop
) -> None:
    declare(laptop, rig.name, arguments=("busy=1",))
    rig.run(JOB)

    said = laptop.rigops("apply", "--reboot", "auto", "--json", *QUIETLY)

    (host,) = said.json()["hosts"]
    assert (said.code, host["outcome"]) == (1, "reboot_owed")
    assert any(hit.startswith("a GPU is used by sleep") for hit in host["reboot_hits"])
    (blocked,) = host["blocked"]
    assert blocked["concern"] == "reboot"
    assert "of root" in blocked["reason"]
    assert "--allow-busy" in blocked["reason"]
    assert rig.run("pgrep -x sleep").returncode == 0

    allowed = laptop.rigops("apply", "--reboot", "auto", "--allow-busy", "--json", *QUIETLY)

    assert (allowed.code, outcomes(allowed)) == (0, {rig.name: "changed"}), allowed.err
    assert "busy=1" in rig.run("cat /proc/cmdline").stdout


def test_a_converged_host_with_a_sudo_password_costs_three_execs(rig: Host, laptop: Laptop) -> None:
    """As its reboot before has left it."""
    declare(laptop, rig.name, arguments=("busy=1",), ssh_user="asks")
    before = sessions(rig)

    said = Person({"sudo password": PASSWORD}).rigops(
        laptop, ["apply", "--ask-sudo-password", "--json", *QUIETLY]
    )

    between = sessions(rig) - before - 1  # a look into the log lies between
    assert (said.code, outcomes(said)) == (0, {rig.name: "converged"}), said.err
    assert between == 3  # whether sudo asks, whether this password is right, and the probe
    assert PASSWORD not in said.out + said.err


def test_the_first_host_reboots_alone_and_then_as_many_at_once_as_agreed(
    rigs: list[Host], laptop: Laptop
) -> None:
    """What stands in the way of something else at the first host keeps no other from its own."""
    rigs[0].run("echo 'NCCL_DEBUG=INFO' >/etc/nccl.conf")
    names = [one.name for one in rigs]
    declare(laptop, *names, arguments=("serial=1",), nccl={"NCCL_DEBUG": "WARN"})

    said = laptop.rigops("apply", "--reboot", "auto", "--serial", "2", "--json", *QUIETLY)

    assert said.code == 1
    (blocked,) = by_host(said)[names[0]]["blocked"]
    assert blocked["concern"] == "base"
    assert outcomes(said) == dict.fromkeys(names, "changed")
    told = said.err.splitlines()
    began = [told.index(f"{name}: reboot") for name in names]
    ended = [told.index(f"{name}: record") for name in names]
    assert ended[0] < min(began[1:])
    assert max(began[1:]) < min(ended[1:])
    assert all("serial=1" in one.run("cat /proc/cmdline").stdout for one in rigs)


def test_after_a_first_host_with_another_key_no_second_one_is_rebooted(
    rigs: list[Host], laptop: Laptop
) -> None:
    """The last test of these hosts: nobody may log in to the first of them any more."""
    first, second = rigs[0], rigs[1]
    declare(laptop, first.name, second.name, arguments=("canary=1",), nccl={"NCCL_DEBUG": "WARN"})
    first.run("rm /etc/nccl.conf")
    done = first.run(OTHER_KEY_AT_BOOT)
    assert done.returncode == 0, done.stderr
    boot = "cat /proc/sys/kernel/random/boot_id"
    before = second.run(boot).stdout

    said = laptop.rigops("apply", "--reboot", "auto", "--json", *QUIETLY)

    assert said.code == 1
    found = by_host(said)
    assert outcomes(said) == {first.name: "failed", second.name: "reboot_owed"}
    assert found[first.name]["error"]["kind"] == "key_changed"
    assert found[second.name]["story"] == [
        f"not rebooted, since {first.name} did not come through its own"
    ]
    assert second.run(boot).stdout == before
    assert is_to_be_tried(second, "canary=1")
    seen = laptop.rigops("plan", "--json", "--limit", second.name, *INVENTORY)
    assert by_host(seen)[second.name]["reboot_reasons"]
