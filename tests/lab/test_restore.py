"""Restores on a booted host with two btrfs disks: from a snapshot, from a disk, onto a new disk."""

from __future__ import annotations

import hashlib
import json
import re
import signal
import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import pytest

from rigops.hostside.packing import pack
from tests.lab import hosts, seed
from tests.lab.laptop import Laptop
from tests.shards import LAB_SNAPSHOTS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tests.lab.hosts import Host
    from tests.lab.laptop import Said

pytestmark = pytest.mark.shard(LAB_SNAPSHOTS)

NAME = "restores"
HOME = "/data/home"
STORE = "/data/.rigops/snapshots/data%2Fhome"
FIRST, SECOND = "20261124T060001Z-timer", "20261125T060001Z-manual"
MEBIBYTES = 60

# Modes, owners, times, attributes, an ACL, hard links, holes, and names that need care.
MAKE = f"""
import os, struct
os.chdir("{HOME}")
os.makedirs("thesis/figures/ü \\n x")
open("thesis/text", "w").write("first\\n" * 1000)
os.chown("thesis/text", 1234, 2345); os.chmod("thesis/text", 0o640)
os.link("thesis/text", "thesis/figures/same")
os.symlink("/etc/passwd", "thesis/link"); os.symlink("text", "thesis/near")
os.mkfifo("thesis/pipe")
os.setxattr("thesis/text", "user.note", b"a\\0b")
entry = lambda tag, perm, id: struct.pack("<HHI", tag, perm, id)
acl = struct.pack("<I", 2) + entry(1, 6, 2**32 - 1) + entry(2, 4, 4321) + entry(4, 4, 2**32 - 1)
acl += entry(16, 4, 2**32 - 1) + entry(32, 0, 2**32 - 1)
os.setxattr("thesis/text", "system.posix_acl_access", acl)
os.setxattr("thesis", "system.posix_acl_default", acl)
with open("thesis/sparse", "wb") as sparse:
    sparse.seek(40 << 20); sparse.write(b"end")
os.chmod("thesis", 0o2751); os.chown("thesis/figures", 7, 8)
os.utime("thesis/text", ns=(1, 1234567890123456789)); os.utime("thesis", ns=(1, 987654321000000000))
with open("data", "wb") as data:
    data.write(os.urandom({MEBIBYTES} << 20))
"""
# Everything of a tree that a restore has to bring back; inodes as numbers of first sight.
LOOK = """
import hashlib, json, os, stat, sys
top, inodes, found = sys.argv[1], {}, {}
names = [""] + sorted(
    os.path.relpath(os.path.join(folder, one), top)
    for folder, folders, files in os.walk(top) for one in folders + files
) if os.path.isdir(top) and not os.path.islink(top) else [""]
for name in names:
    path = os.path.join(top, name) if name else top
    s = os.lstat(path)
    is_file = stat.S_ISREG(s.st_mode)
    attributes = {
        one: os.getxattr(path, one, follow_symlinks=False).hex()
        for one in os.listxattr(path, follow_symlinks=False)
    }
    found[name] = [
        s.st_mode, s.st_uid, s.st_gid, is_file and s.st_nlink, s.st_mtime_ns, attributes,
        is_file and inodes.setdefault(s.st_ino, len(inodes)),
        is_file and s.st_size, is_file and s.st_blocks * 512 < s.st_size,
        is_file and hashlib.sha256(open(path, "rb").read()).hexdigest(),
        os.readlink(path) if os.path.islink(path) else "",
    ]
print(json.dumps(found))
"""


@dataclass(frozen=True)
class Rig:
    """`before`: what the second snapshot has."""

    laptop: Laptop
    host: Host
    before: Mapping[str, Any] = field(default_factory=dict)

    def does(self, command: str, given: str | None = None) -> str:
        done = self.host.run(command, given=given)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout.strip()

    def python(self, program: str, *words: str) -> str:
        return self.does(f"python3 - {' '.join(words)}", given=program)

    def look(self, path: str) -> Mapping[str, Any]:
        found: Mapping[str, Any] = json.loads(self.python(LOOK, f"'{path}'"))
        return found

    def rigops(self, *words: str, code: int = 0) -> Said:
        said = self.laptop.rigops(*words)
        assert said.code == code, said.out + said.err
        return said

    def restore(self, *words: str) -> Mapping[str, Any]:
        (host,) = self.rigops("restore", NAME, *words, "--yes", "--json").json()["hosts"]
        restored: Mapping[str, Any] = host["restored"]
        return restored

    def refusal(self, *words: str) -> str:
        said = self.rigops("restore", NAME, *words, "--yes", "--json", code=1)
        (host,) = said.json()["hosts"]
        return f"{host['error']['message']}. fix: {host['error']['cure']}"

    def snapshot(self, name: str) -> None:
        self.does(f"btrfs -q subvolume snapshot -r {HOME} '{STORE}/{name}'")

    def target(self) -> str:
        return f"/mnt/target/rigops/{NAME}/data%2Fhome"

    def send(self, name: str, parent: str = "") -> int:
        """Without the program; the bytes of the stream."""
        against = f"-p '{STORE}/{parent}'" if parent else ""
        return int(
            self.does(
                f"set -e -o pipefail; mkdir -p '{self.target()}'; "
                f"btrfs -q send {against} '{STORE}/{name}' | tee /run/stream | "
                f"btrfs -q receive '{self.target()}'; stat -c %s /run/stream; rm /run/stream"
            )
        )


@pytest.fixture(scope="module")
def rig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    with hosts.running([f"epyc-8x4090={NAME}"]) as (host,):
        rig = Rig(Laptop(tmp_path_factory.mktemp("laptop")), host)
        rig.laptop.declare({NAME: {}})
        rig.does(
            f"mkdir -p /data /mnt/target /etc/rigops && mount /dev/sda /data && "
            f"mount /dev/sdb /mnt/target && btrfs -q subvolume create {HOME} && mkdir -p '{STORE}'"
        )
        uuid = rig.does("blkid -o value -s UUID /dev/sdb")
        declared = {"host": NAME, "subvolumes": [HOME], "keep": "", "send_to": uuid}
        rig.does("cat >/etc/rigops/snapshots.json", given=json.dumps(declared))
        rig.python(MAKE)
        rig.snapshot(FIRST)
        rig.does(f"echo second >>{HOME}/thesis/figures/later")
        rig.snapshot(SECOND)
        rig.send(FIRST)
        rig.send(SECOND, FIRST)
        yield replace(rig, before=rig.look(f"{STORE}/{SECOND}"))


def below(found: Mapping[str, Any], inside: str = "") -> dict[str, Any]:
    """What of a tree is below a path, with its inodes numbered from there; not the top itself."""
    start = f"{inside}/" if inside else ""
    rows = {
        name[len(start) :] if name != inside else "": list(row)
        for name, row in found.items()
        if name.startswith(start) or name == inside
    }
    if not inside:
        del rows[""]
    numbers: dict[int, int] = {}
    for row in rows.values():
        if row[6] is not False:
            row[6] = numbers.setdefault(row[6], len(numbers))
    return rows


PLACES = pytest.mark.parametrize("place", ["local", "target"])


def from_place(rig: Rig, place: str) -> list[str]:
    name = rig.does("blkid -o value -s UUID /dev/sdb") if place == "target" else place
    return ["--place", name]


@pytest.mark.story
def test_the_table_shows_what_is_where(rig: Rig) -> None:
    (host,) = rig.rigops("snapshots", NAME, "--json").json()["hosts"]
    (home,) = host["subvolumes"]

    assert host["status"] == "ok"
    assert [one["name"] for one in home["snapshots"]] == [FIRST, SECOND]
    assert [len(one["places"]) for one in home["snapshots"]] == [2, 2]
    assert "newest" in home["snapshots"][1]["reasons"]
    assert "parent" in home["snapshots"][1]["reasons"]
    assert isinstance(home["snapshots"][0]["bytes"], int)
    assert host["targets"][0]["state"] == "present"
    text = rig.rigops("snapshots", NAME).out
    assert re.search(r"2026-11-25 06:00:01 .* manual +local, ", text)


@pytest.mark.story
@PLACES
@pytest.mark.parametrize("inside", ["thesis/text", "thesis/sparse", "thesis/link", "thesis"])
def test_what_is_deleted_comes_back_where_it_was_as_it_was(
    rig: Rig, place: str, inside: str
) -> None:
    was = below(rig.before, inside)
    rig.does(f"mv {HOME}/{inside} /data/away")

    done = rig.restore(f"{HOME}/{inside}", *from_place(rig, place))

    assert done["restored_to"] == f"{HOME}/{inside}"

    if inside == "thesis/text":
        was[""][3] = 1  # its other name is another file now
    assert rig.look(f"{HOME}/{inside}") == was
    assert (done["snapshot"], done["aside"]) == (SECOND, None)
    rig.does(f"rm -r {HOME}/{inside}; mv /data/away {HOME}/{inside}")


@pytest.mark.story
@PLACES
def test_without_in_place_it_goes_beside_and_the_live_one_is_left_alone(
    rig: Rig, place: str
) -> None:
    rig.does(f"echo live >{HOME}/notes; cp -a {HOME}/thesis/text /run/text")
    rig.does(f"echo changed >>{HOME}/thesis/text")
    changed = rig.look(f"{HOME}/thesis/text")

    done = rig.restore(f"{HOME}/thesis", "--at", FIRST, *from_place(rig, place))

    assert done["restored_to"] == f"{HOME}/thesis.restored-{FIRST.partition('-')[0]}"
    assert set(rig.look(done["restored_to"])) == {
        name for name in below(rig.before, "thesis") if name != "figures/later"
    }
    assert rig.look(f"{HOME}/thesis/text") == changed
    assert rig.does(f"cat {HOME}/notes") == "live"
    rig.does(f"rm -r {done['restored_to']} {HOME}/notes; cp -a /run/text {HOME}/thesis/text")


def test_what_is_beside_is_shown_with_the_command_that_puts_it_in_place(rig: Rig) -> None:
    said = rig.rigops("restore", NAME, f"{HOME}/thesis/text", "--at", FIRST).out

    line = next(one for one in said.splitlines() if "To put it where it was" in one)
    rig.rigops(*line.partition(": rigops ")[2].split(), "--yes")
    rig.does(f"rm {HOME}/thesis/*.restored-*")
    assert rig.look(f"{HOME}/thesis/text")[""][9] == rig.before["thesis/text"][9]
    assert rig.does(f"ls -d {HOME}/thesis/text.before-restore-*")
    rig.does(f"cd {HOME}/thesis; rm text.before-*; ln -f figures/same text")


def test_a_live_file_that_differs_is_moved_aside(rig: Rig) -> None:
    rig.does(f"echo newer >{HOME}/thesis/figures/later")

    done = rig.restore(f"{HOME}/thesis/figures/later", "--in-place")

    assert rig.does(f"cat {HOME}/thesis/figures/later") == "second"
    assert rig.does(f"cat '{done['aside']}'") == "newer"
    assert ".before-restore-" in done["aside"]
    rig.does(f"rm '{done['aside']}'")


def test_another_directory_and_never_over_what_is_there(rig: Rig) -> None:
    done = rig.restore(f"{HOME}/thesis/text", "--to", "/root/found")

    assert done["restored_to"] == "/root/found/text"
    assert rig.look("/root/found/text")[""][9] == rig.before["thesis/text"][9]
    assert "not overwritten" in rig.refusal(f"{HOME}/thesis/text", "--to", "/root/found")


def test_a_time_chooses_the_newest_at_or_before_it(rig: Rig) -> None:
    done = rig.restore(f"{HOME}/thesis/text", "--at", "2026-11-24T23:00:00Z", "--dry-run")

    assert done["snapshot"] == FIRST
    refusal = rig.refusal(f"{HOME}/thesis/figures/later", "--at", "2026-11-24T23:00:00Z")
    assert SECOND in refusal
    assert FIRST not in refusal


def test_what_cannot_be_restored_says_why(rig: Rig) -> None:
    assert HOME in rig.refusal("/etc/passwd")
    assert "is in no snapshot" in rig.refusal(f"{HOME}/never")
    assert "is in no snapshot" in rig.refusal(f"{HOME}/thesis/link/x")  # leads out of it
    assert "no snapshots at nowhere" in rig.refusal(HOME, "--place", "nowhere")
    rig.does("mkdir -p /run/small && mount -t tmpfs -o size=8m tmpfs /run/small")
    refusal = rig.refusal(f"{HOME}/data", "--to", "/run/small")
    assert re.search(r"/run/small has \d+ MiB free, the restore needs \d+ MiB", refusal)
    assert rig.does("ls -A /run/small; umount /run/small") == ""


def test_in_place_asks_and_without_a_terminal_it_is_declined(rig: Rig) -> None:
    said = rig.rigops("restore", NAME, f"{HOME}/thesis", "--in-place", code=130)

    assert "pass --yes" in said.err


def test_a_symbolic_link_of_a_user_leads_no_restore_elsewhere(rig: Rig) -> None:
    rig.does(
        f"mv {HOME}/thesis {HOME}/moved && mkdir /root/target && ln -s /root/target {HOME}/thesis"
    )

    refusal = rig.refusal(f"{HOME}/thesis/text", "--in-place")

    assert "symbolic link" in refusal
    assert rig.does("ls -A /root/target") == ""
    rig.does(f"rm {HOME}/thesis; rmdir /root/target; mv {HOME}/moved {HOME}/thesis")


@pytest.mark.story
def test_ctrl_c_leaves_nothing_half_made(rig: Rig) -> None:
    rig.does("mkdir -p /root/out")
    running = rig.laptop.start(
        "restore", NAME, f"{HOME}/data", "--to", "/root/out", *from_place(rig, "target")
    )
    deadline = time.monotonic() + 120
    while "rigops-restore" not in rig.host.run("ls -A /root/out").stdout:
        if running.process.poll() is not None or time.monotonic() > deadline:
            break
    running.process.send_signal(signal.SIGINT)
    said = running.wait()

    left = rig.does("ls -A /root/out")
    assert left in {"", "data"}, left
    assert (said.code, left) in {(130, ""), (0, "data"), (130, "data")}, said.err
    assert rig.host.run("pgrep -x cp").stdout == ""
    rig.does("rm -rf /root/out")


def test_what_a_killed_restore_left_is_removed_by_the_next(rig: Rig) -> None:
    rig.does(
        "mkdir -p -m 700 /root/.rigops-restore-0011 /var/lib/rigops; "
        "echo half >/root/.rigops-restore-0011/x; "
        """echo '{"path": "/root/.rigops-restore-0011"}' >/var/lib/rigops/restoring.json"""
    )

    rig.restore(f"{HOME}/thesis/text", "--to", "/root/again")

    assert rig.host.run("ls -d /root/.rigops-restore-*").stdout == ""
    assert rig.host.run("cat /var/lib/rigops/restoring.json").returncode != 0
    rig.does("rm -r /root/again")


@pytest.mark.story
def test_a_whole_subvolume_comes_back_and_nested_ones_move_over(rig: Rig) -> None:
    rig.does(f"btrfs -q subvolume create {HOME}/machines; echo vm >{HOME}/machines/disk")
    rig.does(f"rm -r {HOME}/thesis; echo newer >{HOME}/newer")

    done = rig.restore(HOME, "--in-place")

    assert rig.does(f"cat {HOME}/machines/disk") == "vm"
    rig.does(f"btrfs -q subvolume delete {HOME}/machines")
    assert below(rig.look(HOME)) == below(rig.before)
    assert rig.does(f"cat /data/{done['aside']}/newer") == "newer"
    assert done["aside"].endswith("-rollback")


@PLACES
def test_a_whole_subvolume_comes_beside_the_live_one(rig: Rig, place: str) -> None:
    done = rig.restore(HOME, *from_place(rig, place))

    assert done["restored_to"] == f"{HOME}.restored-{SECOND.partition('-')[0]}"
    assert below(rig.look(done["restored_to"])) == below(rig.before)
    rig.does(f"btrfs -q subvolume delete {done['restored_to']} || rm -r {done['restored_to']}")


@PLACES
def test_a_whole_subvolume_that_is_gone_comes_back_where_it_was(rig: Rig, place: str) -> None:
    rig.does(f"btrfs -q subvolume delete {HOME}")

    done = rig.restore(HOME, *from_place(rig, place))

    assert (done["restored_to"], done["aside"]) == (HOME, None)
    assert below(rig.look(HOME)) == below(rig.before)
    rig.does(f"btrfs subvolume show {HOME}")


def test_a_whole_subvolume_comes_from_the_copy_where_the_first_disk_has_none(rig: Rig) -> None:
    rig.does(f"btrfs -q subvolume delete {STORE}/{FIRST} {STORE}/{SECOND}; rm -r {HOME}/thesis")

    done = rig.restore(HOME, "--in-place")

    assert below(rig.look(HOME)) == below(rig.before)
    assert done["place"] == from_place(rig, "target")[1]
    (sent,) = rig.rigops("backup", NAME, "--json").json()["hosts"][0]["backup"]["sent"]
    assert (sent["parent"], sent["bytes"] < 0.05 * (MEBIBYTES << 20)) == (SECOND, True)
    rig.does(f"btrfs -q subvolume delete '{STORE}/{sent['name']}' '{rig.target()}/{sent['name']}'")


def test_a_mounted_subvolume_is_mounted_anew(rig: Rig) -> None:
    rig.does(f"mkdir -p /home2; rm -f {HOME}/gone; echo x >{HOME}/gone")
    declared = json.loads(rig.does("cat /etc/rigops/snapshots.json"))
    changed = {**declared, "subvolumes": ["/home2"]}
    rig.does("cat >/etc/rigops/snapshots.json", given=json.dumps(changed))
    rig.does(
        "mount -o noatime,subvol=home /dev/sda /home2; mkdir -p /data/.rigops/snapshots/home2; "
        f"btrfs -q subvolume snapshot -r /home2 /data/.rigops/snapshots/home2/{SECOND}; "
        "rm /home2/gone"
    )

    done = rig.restore("/home2", "--in-place")

    assert done["to_do"] is None
    assert rig.does("cat /home2/gone") == "x"
    assert "noatime" in rig.does("findmnt -n -o OPTIONS /home2")
    rig.does("rm /home2/gone")
    started = rig.host.run("cd /home2 && (sleep 40 >/dev/null 2>&1 </dev/null &)")
    assert started.returncode == 0
    busy = rig.restore("/home2", "--in-place", "--at", SECOND)
    assert "umount /home2 && mount /home2" in busy["to_do"]
    again = rig.refusal("/home2", "--in-place", "--at", SECOND)
    assert "shows what an earlier restore put aside" in again
    rig.does("pkill -x sleep; for _ in {1..50}; do umount /home2 && exit; sleep 0.2; done; exit 1")
    rig.does("mount -o subvol=home /dev/sda /home2; cat /home2/gone")
    rig.does("umount /home2; rm -f /data/home/gone")
    rig.does("cat >/etc/rigops/snapshots.json", given=json.dumps(declared))


@pytest.mark.story
def test_after_a_dead_disk_it_comes_from_the_copy_and_the_next_backup_is_small(rig: Rig) -> None:
    rig.does(
        "umount /data && wipefs -qa /dev/sda && mkfs.btrfs -qf /dev/sda && mount /dev/sda /data"
    )

    for inside in ("thesis/text", "thesis"):
        was = below(rig.before, inside)
        if inside == "thesis/text":
            was[""][3] = 1
        done = rig.restore(f"{HOME}/{inside}", "--to", "/data/found")
        assert rig.look(done["restored_to"]) == was
    missing = rig.refusal(f"{HOME}/thesis/text", "--in-place")
    assert f"{HOME} does not exist now. fix: restore all of it first" in missing
    done = rig.restore(HOME, "--in-place")

    assert (done["snapshot"], done["aside"]) == (SECOND, None)
    assert below(rig.look(HOME)) == below(rig.before)
    rig.does(f"echo after >{HOME}/after")
    used = int(rig.does("sync -f /mnt/target; df --output=used -B1 /mnt/target | tail -n1"))
    (sent,) = rig.rigops("backup", NAME, "--json").json()["hosts"][0]["backup"]["sent"]
    more = int(rig.does("sync -f /mnt/target; df --output=used -B1 /mnt/target | tail -n1")) - used
    assert sent["parent"] == SECOND
    assert sent["bytes"] < 0.05 * (MEBIBYTES << 20), sent
    assert more < 0.05 * (MEBIBYTES << 20), more
    assert rig.does(f"cat '{rig.target()}/{sent['name']}/after'") == "after"


def test_the_digest_of_what_came_back_is_that_of_the_copy(rig: Rig) -> None:
    """By another program than the one above."""
    sums = "find . -type f -exec sha256sum {} + | sort | sha256sum"
    there = rig.does(f"cd '{rig.target()}/{SECOND}' && {sums}")
    here = rig.does(f"cd '{STORE}/{SECOND}' && {sums}")

    assert here == there != hashlib.sha256(b"").hexdigest()


def test_an_absent_disk_is_named(rig: Rig) -> None:
    declared = json.loads(rig.does("cat /etc/rigops/snapshots.json"))
    absent = {**declared, "send_to": "00000000-0000-4000-8000-000000000000"}
    rig.does("cat >/etc/rigops/snapshots.json", given=json.dumps(absent))

    (host,) = rig.rigops("snapshots", NAME, "--json").json()["hosts"]
    assert (host["status"], host["targets"][0]["state"]) == ("ok", "absent")
    refusal = rig.refusal(f"{HOME}/thesis", "--place", absent["send_to"])
    assert "is absent. fix: connect the disk" in refusal


SERVER = "root@backups:/mnt/target/served"


@pytest.fixture
def server(rig: Rig) -> Iterator[str]:
    """The host's own sshd, which lets this key do nothing but `serve`."""
    program = "/usr/local/libexec/rigops/snapshots"
    rig.does(f"mkdir -p {program.rpartition('/')[0]} /mnt/target/served /root/.ssh")
    rig.does(f"cat >{program} && chmod 755 {program}", given=pack("snapshots").text)
    rig.does(
        "rm -f /etc/rigops/snapshots_key*; cp -a /root/.ssh /root/.ssh.before; "
        "ssh-keygen -q -t ed25519 -N '' -f /etc/rigops/snapshots_key; "
        f"""echo 'restrict,command="{program} serve /mnt/target/served" '"""
        """"$(cat /etc/rigops/snapshots_key.pub)" >>/root/.ssh/authorized_keys"""
    )
    rig.does(
        "cat >/root/.ssh/config",
        given=f"Host backups\nHostName {rig.host.address}\nPort {seed.SSHD_PORT}\n",
    )
    declared = json.loads(rig.does("cat /etc/rigops/snapshots.json"))
    changed = {**declared, "send_to": SERVER}
    rig.does("cat >/etc/rigops/snapshots.json", given=json.dumps(changed))
    yield SERVER
    rig.does("rm -rf /root/.ssh && mv /root/.ssh.before /root/.ssh")


def test_from_a_server_too_a_file_a_tree_and_after_a_dead_disk_all_of_it(
    rig: Rig, server: str
) -> None:
    said = rig.rigops("backup", NAME, "--json").json()["hosts"][0]["backup"]
    assert (said["target"]["state"], len(said["sent"]) > 0) == ("present", True)
    newest = max(one["name"] for one in said["sent"])
    before = rig.look(f"{STORE}/{newest}")

    for inside in ("thesis/text", "thesis"):
        done = rig.restore(f"{HOME}/{inside}", "--to", "/root/served", "--place", server)
        was = below(before, inside)
        if inside == "thesis/text":
            was[""][3] = 1
        assert rig.look(done["restored_to"]) == was
    assert "is in no snapshot" in rig.refusal(f"{HOME}/never", "--place", server)
    rig.does(
        "umount /data && wipefs -qa /dev/sda && mkfs.btrfs -qf /dev/sda && mount /dev/sda /data"
    )

    assert rig.restore(HOME, "--in-place")["snapshot"] == newest

    assert below(rig.look(HOME)) == below(before)
    rig.does(f"echo more >{HOME}/more")
    (sent,) = rig.rigops("backup", NAME, "--json").json()["hosts"][0]["backup"]["sent"]
    assert sent["parent"] == newest
    assert sent["bytes"] < 0.05 * (MEBIBYTES << 20)
