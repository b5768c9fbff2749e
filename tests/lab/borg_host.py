"""A host whose second disk has a borg repository; the program for it runs without an apply."""

from __future__ import annotations

import json
import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from rigops.hostside.packing import installed_at, pack
from tests.lab.snapshot_host import PLACES, Ran, read_ran
from tests.lab.test_restore import LOOK, MAKE

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.lab.hosts import Host

PROGRAM: Final = installed_at("borg")
LIVE: Final = "/data/home"
REPOSITORY: Final = "/mnt/backup/borg"
FIRST, SECOND = "/dev/sda", "/dev/sdb"
STATE: Final = "/var/lib/rigops/borg.json"
SECRET: Final = "/etc/rigops/borg_passphrase"
PASSPHRASE: Final = "Marked-4f1c-correct-horse-battery"
WRAPPER: Final = "/usr/local/bin/borg"  # found before the real one
BORG: Final = (
    f"BORG_PASSPHRASE=$(cat {SECRET}) BORG_CONFIG_DIR=/var/lib/rigops/borg"
    " BORG_CACHE_DIR=/var/cache/rigops/borg /usr/bin/borg"
)  # by hand, as a person would


def own_disk(folder: str) -> str:
    """Shell for a file system with the room that borg reserves, however full the machine's is.

    borg wants half a gigabyte once ten segments can be compacted.
    """
    return f"mkdir -p {folder} && mount -t tmpfs -o size=2g,mode=755 backup {folder}"


_FRESH: Final = f"""
set -e
umount /data 2>/dev/null || :
umount /mnt/backup 2>/dev/null || :
for disk in {FIRST} {SECOND}; do mkfs.btrfs --quiet --force $disk; done
blkid {FIRST} {SECOND} >/dev/null
rm -rf {STATE} {PLACES} {WRAPPER} /var/lib/rigops/borg /var/lib/rigops/identity /var/cache/rigops
mkdir -p /data /mnt/backup /etc/rigops /var/lib/rigops
mount {FIRST} /data
mount {SECOND} /mnt/backup
btrfs -q subvolume create {LIVE}
"""


@dataclass(frozen=True)
class BorgHost:
    host: Host
    name: str = "epyc"

    def does(self, command: str, given: str | None = None, timeout: float = 180) -> str:
        done = self.host.run(command, given=given, timeout=timeout)
        assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
        return done.stdout.strip()

    def install(self) -> None:
        given = pack("borg").text
        self.does(f"mkdir -p $(dirname {PROGRAM}) && cat >{PROGRAM} && chmod 755 {PROGRAM}", given)

    def start_anew(self, **settings: object) -> None:
        """Both disks are empty but for a subvolume with data; there is no repository yet."""
        self.does(_FRESH)
        self.python(MAKE.replace("os.urandom(60 << 20)", "os.urandom(6 << 20)"))
        self.does(f"umask 377; cat >{SECRET}.new; mv -f {SECRET}.new {SECRET}", f"{PASSPHRASE}\n")
        self.declare(**settings)

    def begin(self, **settings: object) -> None:
        """And a repository with one archive."""
        self.start_anew(**settings)
        for words in (("init",), ("backup",)):
            ran = self.run(*words)
            assert ran.code == 0, ran.text + ran.stderr
            # The disk is as small as one segment, for which borg wants room.
            self.does(f"{BORG} config {REPOSITORY} max_segment_size {8 << 20}")

    def declare(self, **settings: object) -> None:
        declared = {
            "host": self.name,
            "repository": REPOSITORY,
            "paths": [LIVE],
            "exclude": [],
            "keep": "7d 4w",
            "check_every_days": 30,
            "identity": False,
            **settings,
        }
        self.does("cat >/etc/rigops/borg.json", json.dumps(declared))

    def run(self, *words: str, lock_wait: int = 1) -> Ran:
        return read_ran(self.host.run(self.command(*words, lock_wait=lock_wait), timeout=300))

    def command(self, *words: str, lock_wait: int = 1) -> str:
        """As the units and rigops start it."""
        start = "systemd-run -q --pipe --wait --collect"
        credential = f"-p LoadCredential=passphrase:{SECRET}"
        program = shlex.join((PROGRAM, "--json", "--lock-wait", str(lock_wait), *words))
        return f"{start} {credential} {program}"

    def restore(self, *words: str) -> Mapping[str, Any]:
        ran = self.run("restore", "--path", *words)
        assert ran.code == 0, ran.text + ran.stderr
        restored: Mapping[str, Any] = ran.result["restored"]
        return restored

    def python(self, program: str, *words: str) -> str:
        return self.does(f"python3 - {' '.join(words)}", given=program)

    def look(self, path: str) -> Mapping[str, Any]:
        found: Mapping[str, Any] = json.loads(self.python(LOOK, f"'{path}'"))
        return found

    def archives(self) -> list[str]:
        """As borg itself has them."""
        return self.does(f"{BORG} list --short --consider-checkpoints {REPOSITORY}").split()

    def state(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.does(f"cat {STATE}"))
        return found
