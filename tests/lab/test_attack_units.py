"""What the units of rigops' programs still let a program do that is somebody else's by now."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

from tests.lab import hosts
from tests.lab.applying import INVENTORY
from tests.lab.borg_host import own_disk
from tests.lab.laptop import Laptop
from tests.lab.seed import SSHD_PORT
from tests.lab.tended import Tended
from tests.shards import ATTACK

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.lab.hosts import Host

pytestmark = pytest.mark.shard(ATTACK)

LIVE: Final = "/data/home"
REPOSITORY: Final = '/srv/backup/100% "rig"'  # with all that a unit would read otherwise
TEXTFILES: Final = "/srv/textfiles"
SECURITY_PAGE: Final = Path(__file__).resolve().parents[2] / "docs/explanation/security.md"
BACKUP_UNITS: Final = ("rigops-snapshots", "rigops-scrub", "rigops-borg", "rigops-borg-drill")
TIMED_UNITS: Final = (*BACKUP_UNITS, "rigops-self-check", "rigops-metrics")

# Each ends with an error where it is held. It prints the names of those that went.
ATTEMPTS: Final = """
import ctypes, json, mmap, os, socket, sys

FOLDERS = json.loads(sys.argv[1])
OTHERS_PROCESS = int(sys.argv[2])
c_library = ctypes.CDLL(None, use_errno=True)

def write(folder):
    path = f"{folder}/.rigops-attempt"
    open(path, "w").close()
    os.unlink(path)

def scratch(change):
    path = "/run/rigops/.attempt"
    open(path, "w").close()
    try:
        change(path)
    finally:
        os.unlink(path)

def call(name, *words):
    if getattr(c_library, name)(*words) == -1:
        raise OSError(ctypes.get_errno(), name)

attempts = {
    **{f"write {one}": (lambda one=one: write(one)) for one in FOLDERS},
    "set-user-ID file": lambda: scratch(lambda path: os.chmod(path, 0o4755)),
    "owner of a file": lambda: scratch(lambda path: os.chown(path, 1000, 1000)),
    "device node": lambda: scratch(
        lambda path: (os.unlink(path), os.mknod(path, 0o20600, os.makedev(1, 3)))
    ),
    "another's process": lambda: os.kill(OTHERS_PROCESS, 0),
    "packets": lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW).close(),
    "the net": lambda: socket.socket(socket.AF_INET, socket.SOCK_STREAM).close(),
    "writable code": lambda: mmap.mmap(-1, 4096, prot=7).close(),
    "tracing": lambda: call("ptrace", 0, 0, 0, 0),
    "host name": lambda: socket.sethostname(socket.gethostname()),
    "real time": lambda: os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1)),
    "personality": lambda: call("personality", 0x0040000),
    "net namespace": lambda: call("unshare", 0x40000000),
    "mount namespace": lambda: call("unshare", 0x00020000),
    "another user": lambda: os.setgid(65534),
}
went = []
for name, attempt in attempts.items():
    pid = os.fork()  # what one of them changes is not in the way of the next
    if pid == 0:
        try:
            attempt()
        except OSError:
            os._exit(1)
        os._exit(0)
    if os.waitpid(pid, 0)[1] == 0:
        went.append(name)
print(json.dumps(went))
"""
FOLDERS: Final = (
    "/usr", "/boot", "/etc", "/etc/rigops", "/home", "/root", "/tmp", "/run", "/run/rigops",
    "/var/log", "/var/lib/rigops", "/var/cache/rigops", LIVE, TEXTFILES, REPOSITORY,
)  # fmt: skip
_OWN: Final = {"write /var/lib/rigops", "write /run/rigops", "mount namespace"}
_RESTORING: Final = {"set-user-ID file", "owner of a file", "device node"}
_BORG: Final = {"write /etc/rigops", "write /var/cache/rigops", "the net"}
# What is left; of those that run commands of the inventory, what is not.
LEFT: Final = {
    "rigops-snapshots": {*_OWN, *_RESTORING, "write /etc/rigops", "the net"},
    "rigops-scrub": _OWN,
    "rigops-borg": {*_OWN, *_BORG},
    "rigops-borg-drill": {*_OWN, *_RESTORING, *_BORG},
}
HELD: Final = {
    "write /usr", "write /boot", "write /etc", "write /etc/rigops", "set-user-ID file", "host name",
    "real time", "personality",
}  # fmt: skip
COMMAND_UNITS: Final = {
    "rigops-thermal-guard": "rigops-thermal-guard",
    "rigops-self-check": "rigops-self-check",
    "rigops-metrics": "rigops-metrics",
    "rigops-failed@x": "rigops-failed@",
}


class Rig(Tended):
    def starts(self, unit: str) -> None:
        done = self.host.run(f"systemctl start {unit}.service", timeout=300)
        assert done.returncode == 0, self.host.run(f"journalctl -u {unit} -o cat").stdout

    def drop_in(self, unit: str, *lines: str) -> None:
        """Until the next call, and no longer than this boot."""
        folder = f"/run/systemd/system/{unit}.service.d"
        text = "\n".join(("[Service]", *lines, ""))
        done = self.host.run(f"mkdir -p {folder} && cat >{folder}/attempt.conf", given=text)
        assert done.returncode == 0, done.stderr
        self.does("systemctl daemon-reload")

    def as_before(self, unit: str) -> None:
        self.does(f"rm -r /run/systemd/system/{unit}.service.d && systemctl daemon-reload")


@pytest.fixture(scope="module")
def booted() -> Iterator[tuple[Host, ...]]:
    with hosts.running(["epyc-8x4090=units-disk", "epyc-8x4090=units-server"]) as found:
        yield tuple(found)


def _tend(host: Host, folder: Path) -> Rig:
    rig = Rig(Laptop(folder), host)
    (rig.laptop.folder / "passphrase").write_text("secret-of-the-lab\n")
    rig.does(
        f"{own_disk('/srv/backup')} && mkdir -p /data {TEXTFILES} && mount /dev/sda /data && "
        f"btrfs -q subvolume create {LIVE} && echo one >{LIVE}/thesis && chmod 4755 {LIVE}/thesis"
    )
    return rig


def _declared(rig: Rig, repository: str, send_to: str) -> dict[str, Any]:
    return {
        "borg": {
            "repository": repository,
            "paths": [LIVE, "/etc"],
            "keep": "7d",
            "passphrase_command": f"cat {rig.laptop.folder}/passphrase",
        },
        "snapshots": {"subvolumes": [LIVE], "keep": "24h", "send_to": send_to},
        "thermal_limit": 83,
        "notify": "cat >>/run/told",
        "metrics": TEXTFILES,
    }


@pytest.fixture(scope="module")
def rig(booted: tuple[Host, ...], tmp_path_factory: pytest.TempPathFactory) -> Rig:
    """Its backups are on disks of its own."""
    rig = _tend(booted[0], tmp_path_factory.mktemp("laptop"))
    disk = rig.does("blkid -o value -s UUID /dev/sdb")
    rig.apply(**_declared(rig, REPOSITORY, disk))
    return rig


def test_every_unit_does_its_work_with_disks(rig: Rig) -> None:
    for unit in TIMED_UNITS:
        rig.starts(unit)

    assert rig.does("systemctl is-active rigops-thermal-guard") == "active"
    state = json.loads(rig.does("cat /var/lib/rigops/snapshots.json"))
    assert (state["target"]["state"], state["target"]["error"]) == ("present", None)
    assert state["target"]["newest_at"][LIVE]
    assert [one["errors"] for one in state["scrub"].values()] == [0, 0]
    state = json.loads(rig.does("cat /var/lib/rigops/borg.json"))
    assert (state["last_drill"]["result"], state["last_drill"]["error"]) == ("ok", None)
    assert rig.does(f"cat {TEXTFILES}/rigops.prom")
    refused = "journalctl -o cat -t borg -t snapshots -g 'not permitted|denied|Read-only'"
    assert rig.host.run(refused).stdout == ""


def test_every_unit_does_its_work_with_a_server(
    booted: tuple[Host, ...], tmp_path_factory: pytest.TempPathFactory
) -> None:
    """The host itself, by its ssh, of which root would like to share connections."""
    rig = _tend(booted[1], tmp_path_factory.mktemp("laptop"))
    keys = "/root/.ssh/authorized_keys"
    rig.does(
        f"mkdir -p /server && mount /dev/sdb /server && mkdir -p /root/.ssh && printf "
        f"'Host server\\n HostName {rig.host.address}\\n Port {SSHD_PORT}\\n"
        " ControlMaster auto\\n ControlPath ~/.ssh/%%C\\n' >>/root/.ssh/config"
    )
    rig.apply(**_declared(rig, "ssh://root@server/srv/backup/rig", "root@server:/server/backup"))
    setup = rig.laptop.rigops("snapshots", rig.host.name, "--target-setup", *INVENTORY)
    rig.host.run("sh", given=setup.out)
    rig.does(
        "echo 'restrict,command=\"borg serve --restrict-to-path /srv/backup\"' "
        f"$(cat /etc/rigops/borg_key.pub) >>{keys}"
    )
    made = rig.laptop.rigops("backup", rig.host.name, "--engine", "borg", *INVENTORY)
    assert made.code == 0, made.out + made.err

    for unit in BACKUP_UNITS:
        rig.starts(unit)

    assert rig.does("ls /server/backup/data%2Fhome")
    state = json.loads(rig.does("cat /var/lib/rigops/snapshots.json"))
    assert (state["target"]["state"], state["target"]["error"]) == ("present", None)
    state = json.loads(rig.does("cat /var/lib/rigops/borg.json"))
    assert state["last_drill"]["result"] == "ok"


def test_a_program_in_a_unit_can_do_no_more_than_it_needs(rig: Rig) -> None:
    rig.does("systemd-run --uid=nobody --unit=others-process sleep infinity; mkdir -p /run/rigops")
    other = rig.does("systemctl show -p MainPID --value others-process")
    done = rig.host.run("cat >/run/attempts.py", given=ATTEMPTS)
    assert done.returncode == 0
    words = rig.host.run(
        "cat >/run/attempt; chmod 755 /run/attempt",
        given=(f"#!/bin/sh\nexec python3 -I /run/attempts.py '{json.dumps(FOLDERS)}' {other}\n"),
    )
    assert words.returncode == 0
    unconfined = json.loads(rig.does("systemd-run -q --pipe --wait /run/attempt"))
    every = {*(f"write {one}" for one in FOLDERS), *unconfined}
    assert every == set(unconfined)
    assert {*HELD, *(name for found in LEFT.values() for name in found)} <= every

    for unit, file in (*zip(LEFT, LEFT, strict=True), *COMMAND_UNITS.items()):
        rig.does(f"systemctl stop {unit}")
        rig.drop_in(
            file, "Type=oneshot", "Restart=no", "ExecStart=", "ExecStart=/run/attempt",
            "StandardOutput=truncate:/run/attempted",
        )  # fmt: skip
        rig.starts(unit)
        went = set(json.loads(rig.does("cat /run/attempted")))
        rig.as_before(file)
        expected = LEFT.get(unit, every - HELD)
        assert went == expected, (unit, went ^ expected)
    rig.does("systemctl stop others-process; systemctl start rigops-thermal-guard")


def test_a_run_that_hangs_is_ended_with_its_children_and_the_next_one_works(rig: Rig) -> None:
    """Its btrfs hangs, and takes no notice of SIGTERM."""
    rig.host.run(
        "cat >/usr/local/sbin/btrfs; chmod 755 /usr/local/sbin/btrfs",
        given="#!/bin/sh\ntrap '' TERM\nwhile :; do sleep 1000; done\n",
    )
    rig.drop_in("rigops-snapshots", "TimeoutStartSec=3")

    failed = rig.host.run("systemctl start rigops-snapshots.service", timeout=300)

    shown = "systemctl show --value rigops-snapshots -p"
    assert failed.returncode != 0
    assert rig.does(f"{shown} Result") == "timeout"
    assert rig.does(f"{shown} ActiveState") == "failed"
    assert rig.host.run("pgrep -f '^/bin/sh /usr/local/sbin/btrfs'").stdout == ""
    rig.does("rm /usr/local/sbin/btrfs")
    rig.as_before("rigops-snapshots")
    rig.starts("rigops-snapshots")


def test_the_timer_removes_what_an_interrupted_restore_left_beside_a_live_path(rig: Rig) -> None:
    left = f"{LIVE}/.rigops-restore-0123456789abcdef"
    note = json.dumps({"path": left, "moves": None})
    rig.does(f"mkdir -m 700 {left} && echo half >{left}/thesis")
    rig.host.run("cat >/var/lib/rigops/restoring.json", given=note)

    rig.starts("rigops-snapshots")

    assert rig.host.run(f"ls -d {left} /var/lib/rigops/restoring.json").stdout == ""


def test_the_page_on_security_has_the_figures_of_systemd(rig: Rig) -> None:
    version = rig.does("systemctl --version").split()[1]
    rows = re.findall(
        r"^\| `(rigops-[\w@-]+)\.service` \| [\d.]+ \| ([\d.]+) \|",
        SECURITY_PAGE.read_text(encoding="utf-8"),
        re.MULTILINE,
    )

    assert f"systemd {version}" in SECURITY_PAGE.read_text(encoding="utf-8")
    assert dict(rows).keys() == {*BACKUP_UNITS, *COMMAND_UNITS.values()}
    for unit, figure in rows:
        shown = rig.does(f"systemd-analyze security --no-pager {unit.replace('@', '@x')}.service")
        assert re.findall(r"exposure level for \S+: ([\d.]+)", shown) == [figure], unit
