"""A host with two btrfs disks, on which the program for snapshots runs without an apply."""

from __future__ import annotations

import json
import shlex
import subprocess
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from rigops.hostside.packing import installed_at, pack

if TYPE_CHECKING:
    from tests.lab.hosts import Host

KEY: Final = "/etc/rigops/snapshots_key"
KNOWN: Final = "/etc/rigops/snapshots_known_hosts"
PROGRAM: Final = installed_at("snapshots")
LIVE: Final = "/data/home"
HERE: Final = "/data/.rigops/snapshots/data%2Fhome"
FIRST, SECOND = "/dev/sda", "/dev/sdb"
STATE: Final = "/var/lib/rigops/snapshots.json"
PLACES: Final = "/var/lib/rigops/file_systems.json"
KEPT: Final = "24h 7d"

_CONTENT: Final = (
    "find . -printf '%P %m %U %G %s %T@ %l\\n' | sort; find . -type f -exec sha256sum {} + | sort"
)
_FRESH: Final = f"""
set -e
umount /data 2>/dev/null || :
umount /there 2>/dev/null || :
for disk in {FIRST} {SECOND}; do mkfs.btrfs --quiet --force $disk; done
blkid {FIRST} {SECOND} >/dev/null  # into its cache: no udev is here to name them
rm -rf {STATE} {PLACES} /usr/local/sbin/btrfs
mkdir -p /data /there /etc/rigops
mount {FIRST} /data
btrfs -q subvolume create {LIVE}
mkdir {LIVE}/sub
head -c 3000000 /dev/urandom >{LIVE}/sub/big
echo one >{LIVE}/small
"""


@dataclass(frozen=True)
class Ran:
    """What one run of the program printed."""

    code: int
    errors: list[dict[str, str]] = field(default_factory=list)
    notices: list[str] = field(default_factory=list)
    progress: list[dict[str, Any]] = field(default_factory=list)
    result: dict[str, Any] = field(default_factory=dict)
    stderr: str = ""

    @property
    def text(self) -> str:
        """All that a person reads."""
        return "\n".join(
            [*self.notices, *(f"{one['message']}. {one['fix']}" for one in self.errors)]
        )

    def names(self, what: str) -> list[str]:
        return [one["name"] for one in self.result[what]]


@dataclass(frozen=True)
class SnapshotHost:
    host: Host
    name: str = "epyc"

    def does(self, command: str, given: str | None = None) -> str:
        done = self.host.run(command, given=given, timeout=120)
        assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
        return done.stdout.strip()

    def install(self) -> None:
        given = pack("snapshots").text
        self.does(f"mkdir -p $(dirname {PROGRAM}) && cat >{PROGRAM} && chmod 755 {PROGRAM}", given)

    def start_anew(self, **settings: object) -> None:
        """Both disks are empty but for a subvolume with data, and snapshots go to the second."""
        self.does(_FRESH)
        self.declare(**{"send_to": self.uuid(SECOND), **settings})

    def declare(self, **settings: object) -> None:
        declared = {"host": self.name, "subvolumes": [LIVE], "keep": KEPT, **settings}
        self.does("cat >/etc/rigops/snapshots.json", json.dumps(declared))

    def uuid(self, device: str) -> str:
        return self.does(f"blkid -p -o value -s UUID {device}")

    def run(self, *words: str, before: str = "") -> Ran:
        """`before`: shell in front of the program."""
        command = f"{before} {shlex.join((PROGRAM, '--json', *words))}"
        return read_ran(self.host.run(command, timeout=120))

    def change(self, megabytes: int = 1) -> None:
        self.does(f"head -c {megabytes << 20} /dev/urandom >{LIVE}/more.$(date +%N)")

    def here(self) -> list[str]:
        return self.does(f"ls {HERE} 2>/dev/null | grep Z- || :").split()

    def there(self) -> list[str]:
        return self.does_there(
            f"ls rigops/{self.name}/data%2Fhome 2>/dev/null | grep Z- || :"
        ).split()

    def does_there(self, command: str) -> str:
        """At the top level of the second disk."""
        words = f"mount {SECOND} /there && cd /there && {{ {command}\n}}"
        return self.does(f"unshare -m sh -c {shlex.quote(words)}")

    def digests(self) -> dict[str, str]:
        """Of every snapshot that is whole: nothing in it ever changes."""
        where = (HERE, f"/there/rigops/{self.name}/data%2Fhome")
        asked = self.does_there(
            f"for one in {where[0]}/*Z-* {where[1]}/*Z-*; do"
            " [ $(btrfs property get $one ro 2>/dev/null) = ro=true ] || continue;"
            f" echo $one $({{ cd $one; {_CONTENT}; }} | sha256sum); done"
        )
        return dict(line.split()[:2] for line in asked.splitlines())

    def state(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.does(f"cat {STATE}"))
        return found


def let_in(server: SnapshotHost, host: SnapshotHost, folder: str, port: int) -> None:
    """The host may send to this folder of the server, which it calls `server`, and nothing else."""
    host.does(f"mkdir -p $(dirname {KEY}); rm -f {KEY}; ssh-keygen -q -t ed25519 -N '' -f {KEY}")
    public = host.does(f"cat {KEY}.pub")
    line = f'restrict,command="{PROGRAM} serve {folder}" {public}'
    server.does("mkdir -p -m 700 /root/.ssh; cat >>/root/.ssh/authorized_keys", f"{line}\n")
    host.does(
        "mkdir -p -m 700 /root/.ssh; cat >>/root/.ssh/config",
        f"Host server\n HostName {server.host.address}\n Port {port}\n",
    )


def read_ran(done: subprocess.CompletedProcess[str]) -> Ran:
    ran = Ran(done.returncode, stderr=done.stderr)
    for line in done.stdout.splitlines():
        found = json.loads(line)
        if "error" in found:
            ran.errors.append(found["error"])
        elif "notice" in found:
            ran.notices.append(found["notice"])
        elif "progress" in found:
            ran.progress.append(found["progress"])
        else:
            ran.result.update(found["result"])
    return ran
