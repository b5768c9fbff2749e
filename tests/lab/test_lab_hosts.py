"""The lab itself: hosts that boot, answer, reboot, suffer a bad network, and leave nothing."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.lab import cgroups, clients, hosts, layers, rigs, runs, seed
from tests.lab.errors import LabError
from tests.lab.processes import Process, children
from tests.lab.sshd import until
from tests.shards import LAB_FLEET, LAB_ITSELF

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.lab.conftest import Lab
    from tests.lab.hosts import Host

pytestmark = pytest.mark.shard(LAB_ITSELF)

BOOT_ID = "cat /proc/sys/kernel/random/boot_id"
CLI = [sys.executable, "-m", "tests.lab"]


@pytest.fixture(scope="module")
def warm(module_lab: Lab) -> Lab:
    """With the image and the disks of the rigs in the cache."""
    repository = layers.repository()
    for name in ("threadripper-3x3090", "t180-4xv100", "epyc-8x4090", "fresh-install"):
        layers.below(rigs.load(name), repository)
    return module_lab


@pytest.fixture(scope="module")
def pair(warm: Lab) -> list[Host]:
    return warm.up("threadripper-3x3090", "t180-4xv100")


@pytest.fixture
def host(pair: list[Host]) -> Host:
    return pair[0]


def _says(host: Host, command: str, user: str = "root") -> str:
    done = host.run(command, user=user)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def _reboot(host: Host) -> None:
    before = _says(host, BOOT_ID)
    host.run("systemctl reboot")

    def again() -> bool:
        boot = host.run(BOOT_ID)
        return boot.returncode == 0 and boot.stdout.strip() != before

    until(again, "another boot")


def test_two_hosts_that_are_up_answer(warm: Lab) -> None:
    both = warm.up("threadripper-3x3090", "t180-4xv100=two", "p2p=granted")
    said = [_says(host, "hostname") for host in both]
    for host in both:
        host.down()

    assert said == [both[0].name, "two"]


def test_whether_there_is_room_is_found_by_trying() -> None:
    program = (
        "import resource; from tests.lab.requirements import lacks_room;"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (3 + 12, 3 + 12));"
        "print(lacks_room(2), lacks_room(3))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        check=True, capture_output=True, text=True, stdin=subprocess.DEVNULL, cwd=layers.CHECKOUT,
    )  # fmt: skip

    assert done.stdout.startswith("None there is room for 2 more hosts, not 3: sysctl ")


def test_root_and_rig_log_in(host: Host) -> None:
    assert _says(host, "id -un") == "root"
    assert _says(host, "id -un; sudo id -un", user="rig") == "rig\nroot"
    assert _says(host, "systemctl is-system-running --wait") == "running"


def test_each_host_is_itself(pair: list[Host]) -> None:
    for file in ("/etc/machine-id", "/etc/ssh/ssh_host_ed25519_key.pub", "/etc/rigsim/rig.json"):
        assert _says(pair[0], f"cat {file}") != _says(pair[1], f"cat {file}")
    assert _says(pair[0], "dpkg-query -W -f '${Version}' nvidia-smi").startswith("545.29.06")
    assert _says(pair[1], "dpkg-query -W -f '${Version}' nvidia-smi").startswith("535.261.03")


def test_a_fresh_install_has_only_root(warm: Lab) -> None:
    host = warm.one("fresh-install")

    assert host.run("true", user="rig").returncode == 255
    assert host.run("id rig").returncode == 1
    host.down()


def test_a_reboot_happens_in_place(host: Host) -> None:
    machine = host.record.machine
    _says(host, "echo kept > /root/kept; touch /run/lost")

    _reboot(host)

    assert _says(host, "cat /root/kept; ls /run/lost 2>&1 || true").startswith("kept\nls: cannot")
    assert host.record.machine == machine
    assert (host.root / "root/kept").read_text() == "kept\n"


def test_the_bootloader_tools_are_the_real_ones(host: Host) -> None:
    default = '"quiet iommu=pt"'
    _says(host, f"sed -i 's/^GRUB_CMDLINE_LINUX_DEFAULT=.*/GRUB_CMDLINE_LINUX_DEFAULT={default}/'"
          " /etc/default/grub && update-grub")  # fmt: skip

    _reboot(host)

    assert _says(host, "cat /proc/cmdline").endswith("quiet iommu=pt")
    _says(host, "grub-editenv - set a=b && grub-script-check /boot/grub/grub.cfg")


def test_a_change_reaches_a_running_host(host: Host) -> None:
    lost = host.rig().gpus[1].address

    host.set("p2p=mirror", f"lost={lost}")

    seen = json.loads(_says(host, "cat /etc/rigsim/rig.json"))
    assert (seen["p2p"], seen["lost"]) == ("mirror", [lost])
    assert " lost " in _says(host, "cat /run/rigsim/cuda.conf")
    host.set("p2p=", "lost=")
    seen = json.loads(_says(host, "cat /etc/rigsim/rig.json"))
    assert (seen["p2p"], seen["lost"]) == ("default", [])


def _round_trip(host: Host) -> float:
    """From our greeting to the server's next word, which waits for it."""
    with socket.create_connection((host.address, host.port)) as connection:
        assert connection.recv(4096).startswith(b"SSH-2.0")
        began = time.monotonic()
        connection.sendall(b"SSH-2.0-lab\r\n")
        assert connection.recv(4096)
        return time.monotonic() - began


def test_latency_is_the_round_trip(host: Host) -> None:
    host.set("latency=150")
    slow = _round_trip(host)
    said = _says(host, "echo through the proxy")
    host.set("latency=60000")
    host.set("latency=")
    quick = _round_trip(host)

    assert slow >= 0.15
    assert said == "through the proxy"
    assert quick < 60


def test_a_cut_drops_the_connection(host: Host) -> None:
    def received() -> tuple[int, int]:
        done = host.run("head -c 3000000 /dev/zero | tr '\\0' x")
        return done.returncode, len(done.stdout)

    host.set("cut=1000000")
    cut = [received() for _ in range(2)]
    host.set("cut=")

    for status, size in cut:
        assert status == 255
        assert size < 1_000_000  # less than arrived: ssh drops what it has not yet written
    assert received() == (0, 3_000_000)


def test_a_bad_network_may_be_there_from_the_start(warm: Lab) -> None:
    host = warm.one("t180-4xv100", "latency=100")

    assert _round_trip(host) >= 0.1
    host.down()


def test_any_ssh_client_finds_the_hosts(pair: list[Host]) -> None:
    done = subprocess.run(
        [*CLI, "ssh-config"], check=True, capture_output=True, text=True, cwd=layers.CHECKOUT
    )
    config = done.stdout.strip()

    for host in pair:
        said = subprocess.run(
            ["ssh", "-F", config, host.name, "hostname"],
            check=True, capture_output=True, text=True, stdin=subprocess.DEVNULL,
        )  # fmt: skip
        assert said.stdout == f"{host.name}\n"


def test_a_name_is_given_once(host: Host) -> None:
    with pytest.raises(LabError, match=f"already a host '{host.name}': name the new one"):
        hosts.up([f"t180-4xv100={host.name}"])


@pytest.fixture
def mounts() -> Iterator[None]:
    """The machine's mounts and loop devices are the same after a test as before."""
    before = _machine()
    yield
    until(lambda: _machine() == before, "the machine to be as it was")


def _machine() -> tuple[str, str]:
    """What a host could leave on it; other things may come and go meanwhile."""
    mounts = [line for line in Path("/proc/self/mounts").read_text().splitlines()
              if str(runs.folder()) in line or line.startswith("rigops-lab ")]  # fmt: skip
    loops = subprocess.run(["losetup", "--list"], check=True, capture_output=True, text=True)
    ours = [line for line in loops.stdout.splitlines() if str(runs.folder()) in line]
    return "\n".join(mounts), "\n".join(ours)


def _nothing_left(name: str, machine: Process) -> bool:
    return not (
        machine.lives()
        or (runs.folder() / "hosts" / name).exists()
        or (runs.groups() / name).exists()
        or any(name.encode() in words for words in _command_lines())
    )


def _command_lines() -> list[bytes]:
    found = []
    for process in Path("/proc").iterdir():
        if process.name.isdigit() and int(process.name) != os.getpid():
            try:
                found.append((process / "cmdline").read_bytes())
            except OSError:
                found.append(b"")
    return found


def _machine_of(host: Host) -> Process:
    machine = host.record.machine
    assert machine is not None
    return machine


@pytest.mark.usefixtures("mounts")
def test_down_leaves_nothing(warm: Lab) -> None:
    host = warm.one("epyc-8x4090", "latency=5")
    machine = _machine_of(host)
    _says(host, "mount /dev/sda /mnt && btrfs subvolume create /mnt/x")
    _says(host, "setsid sleep 999 < /dev/null > /dev/null 2>&1 &")
    assert _machine()[0] == ""
    assert "disk1.img" in _machine()[1]

    host.down()

    assert _nothing_left(host.name, machine)
    assert host.name not in clients.config().read_text()
    with pytest.raises(LabError, match="there is no host"):
        host.down()


@pytest.mark.usefixtures("mounts")
@pytest.mark.parametrize("victim", ["supervisor", "nspawn", "first process"])
def test_a_killed_host_is_cleared_away_by_the_next(warm: Lab, victim: str) -> None:
    host = warm.one("t180-4xv100", "latency=5")
    machine = _machine_of(host)
    nspawn = children(machine.pid)[0]
    pids = {"supervisor": machine.pid, "nspawn": nspawn, "first process": children(nspawn)[0]}

    os.kill(pids[victim], signal.SIGKILL)
    until(lambda: not machine.lives(), "its end")
    again = warm.one(f"t180-4xv100={host.name}")

    assert _says(again, "hostname") == host.name
    again.down()
    assert _nothing_left(host.name, machine)


@pytest.mark.usefixtures("mounts")
def test_a_killed_run_is_cleared_away_by_the_next(warm: Lab) -> None:
    name = f"killed-{os.getpid()}"
    run = subprocess.Popen(
        [*CLI, "up", f"epyc-8x4090={name}"], cwd=layers.CHECKOUT, start_new_session=True,
        stdin=subprocess.DEVNULL,
    )  # fmt: skip

    def started() -> bool:
        record = runs.read(name)
        return record is not None and record.machine is not None

    until(started, "its start")
    record = runs.read(name)
    os.killpg(run.pid, signal.SIGKILL)
    run.wait()
    assert record is not None
    assert record.machine is not None
    assert record.machine.lives()

    warm.one("t180-4xv100").down()

    assert _nothing_left(name, record.machine)


def test_hosts_of_a_kept_run_stay_until_they_are_taken_down(warm: Lab) -> None:
    name = f"kept-{os.getpid()}"

    def cli(*words: str) -> str:
        done = subprocess.run(
            [*CLI, *words], cwd=layers.CHECKOUT, check=True, capture_output=True, text=True,
            stdin=subprocess.DEVNULL,
        )  # fmt: skip
        return done.stdout

    assert cli("up", f"t180-4xv100={name}").startswith(f"{name} 127.10.")
    warm.one("fresh-install").down()
    listed = {row["name"]: row for row in json.loads(cli("list", "--json"))}
    assert (listed[name]["rig"], listed[name]["state"]) == ("t180-4xv100", "running")
    assert cli("ssh", name, "hostname") == f"{name}\n"
    cli("set", name, "latency=50")
    assert "latency=50" in cli("list")
    assert cli("ssh", f"rig@{name}", "id -un") == "rig\n"
    machine = _machine_of(hosts.Host(name))
    cli("down", name)
    assert _nothing_left(name, machine)


@pytest.mark.shard(LAB_FLEET)
@pytest.mark.usefixtures("mounts")
def test_a_fleet_comes_up_twice(warm: Lab) -> None:
    for _ in range(2):
        fleet = warm.up(*(f"t180-4xv100=fleet-{number}" for number in range(24)))
        machines = [_machine_of(host) for host in fleet]
        assert [_says(host, "hostname") for host in fleet] == [host.name for host in fleet]
        assert len({host.address for host in fleet}) == 24
        hosts.down([host.name for host in fleet])
        assert all(map(_nothing_left, (host.name for host in fleet), machines))


def test_the_groups_of_hosts_are_on_the_unified_hierarchy(host: Host) -> None:
    root = cgroups.root()
    assert root is not None
    assert host.record.group.is_relative_to(root)
    assert host.answers
    assert host.port == seed.SSHD_PORT
