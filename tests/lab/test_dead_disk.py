"""A disk dies that snapshots and borg are declared for: what docs/how-to/restore.md says helps."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

from tests import first_hour
from tests.lab import hosts, preloaded
from tests.lab.applying import INVENTORY
from tests.lab.borg_host import own_disk
from tests.lab.laptop import Laptop
from tests.lab.sshd import until
from tests.lab.tended import Tended
from tests.lab.terminal import Person
from tests.shards import LAB_CONCERNS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.lab.laptop import Said

pytestmark = pytest.mark.shard(LAB_CONCERNS)

NAME: Final = "dead-disk"
PAGE: Final = Path(__file__).resolve().parents[2] / "docs/how-to/restore.md"
HOME: Final = "/data/home"
DAYS: Final = 6  # of archives before
DAY_S: Final = 86400
REPOSITORY: Final = "/srv/backup/rig"
CONTENT: Final = (
    f"cd {HOME} && find . -printf '%P %m %U %G %s %T@\\n' | sort; "
    "find . -type f -exec sha256sum {} + | sort"
)
THERE: Final = (
    "unshare -m sh -c 'mount /dev/sdb /mnt && ls /mnt/rigops/*/data%2Fhome && umount /mnt'"
)
UNITS: Final = ("rigops-snapshots.service", "rigops-borg.service")


def commands() -> list[str]:
    """Of the page, as somebody types them for this rig."""
    section = PAGE.read_text().split("## After a dead disk")[1].split("\n## ")[0]
    found = re.findall(r"^ *\$ (.*)$", section, re.MULTILINE)
    return [one.replace("threadripper", NAME).replace("/dev/sdX", "/dev/sda") for one in found]


class Rig(Tended):
    def rigops(self, *words: str, code: int = 0) -> Said:
        """Who is asked says yes."""
        yes = ["--yes"] if "--in-place" in words else []
        said = self.laptop.rigops(*words, *yes, *INVENTORY)
        assert said.code == code, said.out + said.err
        return said

    def answer(self, *words: str, code: int = 0) -> dict[str, Any]:
        (host,) = self.rigops(*words, "--json", code=code).json()["hosts"]
        return dict(host)

    def follow(self, command: str) -> None:
        program, *words = shlex.split(command)
        if program == "sudo":
            self.does(shlex.join(words))
        else:
            assert program == "rigops", command
            owner = Person({"N]": "y"}, sees_all=True, columns=100)
            said = owner.rigops(self.laptop, [*words, *INVENTORY], timeout=300)
            shown = first_hour.seen(said)
            assert said.code == 0, shown

    def verdicts(self) -> dict[tuple[str, str], str]:
        """Doctor's, of the backups."""
        seen = self.laptop.doctor(*INVENTORY).seen(NAME)
        groups = ("snap.", "borg.", "backup.")
        return {
            (name, subject): status
            for name, status, subject in seen.verdicts()
            if name.startswith(groups)
        }

    def archives(self) -> set[str]:
        found = self.answer("snapshots", NAME, "--engine", "borg", "--no-sizes")
        return {one["name"] for one in found["subvolumes"][0]["snapshots"]}

    def serves(self, engine: str) -> bool:
        """Whether it has the newest copy, after one more."""
        self.rigops("backup", NAME, "--engine", engine)
        restored = self.answer("restore", NAME, HOME, "--dry-run")["restored"]
        return bool(restored["engine"] == engine)


@pytest.fixture(scope="module")
def rig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    with hosts.running([f"epyc-8x4090={NAME}"]) as (host,):
        rig = Rig(Laptop(tmp_path_factory.mktemp("laptop")), host)
        (rig.laptop.folder / "passphrase").write_text("secret-of-the-lab\n")
        rig.does(
            f"{own_disk('/srv/backup')} && mkdir -p {HOME} && mount /dev/sda /data && "
            f"btrfs -q subvolume create {HOME} && echo one >{HOME}/thesis && mkdir {HOME}/sub && "
            f"head -c 300000 /dev/urandom >{HOME}/sub/big && chown 1000:1000 {HOME} {HOME}/thesis"
        )
        # Of one day alone, whether pruning waits would depend on how many were made in it.
        preloaded.preload(host, "clock")
        rig.does(f"echo {-DAYS * DAY_S} >/etc/clock-offset")
        borg = {"repository": REPOSITORY, "paths": [HOME, "/etc"], "keep": "7d 4w"}
        disk = rig.does("blkid -o value -s UUID /dev/sdb")
        rig.apply(
            borg={**borg, "passphrase_command": f"cat {rig.laptop.folder}/passphrase"},
            snapshots={"subvolumes": [HOME], "keep": "7d", "send_to": disk},
        )
        for ago in range(DAYS, -1, -1):
            rig.does(f"echo {-ago * DAY_S} >/etc/clock-offset")
            rig.rigops("backup", NAME, "--engine", "borg")
        rig.does("rm /etc/ld.so.preload")
        yield rig


@pytest.mark.parametrize("newest", ["borg", "btrfs"])
def test_after_a_dead_disk_the_page_brings_all_of_it_back(rig: Rig, newest: str) -> None:
    rig.does(f"echo {newest} >{HOME}/newest")
    rig.rigops("backup", NAME, "--prune-most")
    until(lambda: rig.serves(newest), f"the newest copy is of {newest}")
    data, before = rig.does(CONTENT), rig.verdicts()
    archives, there = rig.archives(), rig.does(THERE)
    assert before["backup.paths", HOME] == before["backup.paths", "/etc"] == "ok"

    rig.does("umount /data && wipefs -qa /dev/sda")

    dead = rig.verdicts()
    assert (dead["backup.paths", HOME], dead["backup.paths", "/etc"]) == ("fail", "ok")
    for unit in (*UNITS, *UNITS):
        assert rig.host.run(f"systemctl start {unit}", timeout=120).returncode != 0, unit
    refusal = rig.answer("backup", NAME, code=1)["backup"]
    assert f"{HOME} is on another file system than at the last backup" in str(refusal["errors"])
    mistaken = rig.answer("restore", NAME, HOME, "--in-place", code=1)["error"]["message"]
    assert "no file system is mounted there now" in mistaken
    assert archives <= rig.archives()
    assert rig.does(THERE) == there
    assert rig.does(f"ls -A {HOME}") == ""

    for command in commands():
        rig.follow(command)

    assert rig.does(CONTENT) == data
    assert rig.does(f"stat -c %i {HOME}") == "256"
    assert rig.verdicts() == before
    for unit in UNITS:
        rig.does(f"systemctl start {unit}")
    made = rig.answer("backup", NAME)["backup"]
    assert (len(made["created"]), made.get("errors", [])) == (2, [])
