"""backup, snapshots, restore and the drill over both engines, as a person runs them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pytest

from tests.lab import hosts
from tests.lab.applying import INVENTORY
from tests.lab.borg_host import own_disk
from tests.lab.laptop import Laptop
from tests.lab.tended import Tended
from tests.shards import LAB_CONCERNS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.lab.laptop import Said

pytestmark = pytest.mark.shard(LAB_CONCERNS)

NAME: Final = "borg-commands"
HOME: Final = "/data/home"
REPOSITORY: Final = "/srv/backup/rig"
CONTENT: Final = (
    "find . -printf '%P %m %U %G %s\\n' | sort; find . -type f -exec sha256sum {} + | sort"
)


class Rig(Tended):
    def run(self, command: str, *words: str) -> Said:
        return self.laptop.rigops(command, NAME, *words, *INVENTORY)

    def answer(self, command: str, *words: str, code: int = 0) -> dict[str, Any]:
        said = self.run(command, *words, "--json")
        assert said.code == code, said.out + said.err
        (host,) = said.json()["hosts"]
        return dict(host)


@pytest.fixture(scope="module")
def rig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    with hosts.running([f"epyc-8x4090={NAME}"]) as (host,):
        rig = Rig(Laptop(tmp_path_factory.mktemp("laptop")), host)
        (rig.laptop.folder / "passphrase").write_text("secret-of-the-lab\n")
        rig.does(
            f"{own_disk('/srv/backup')} && mkdir -p /data && mount /dev/sda /data && "
            f"btrfs -q subvolume create {HOME} && echo one >{HOME}/thesis && mkdir {HOME}/sub && "
            f"head -c 300000 /dev/urandom >{HOME}/sub/big && chown 1000:1000 {HOME}/thesis"
        )
        passphrase = f"cat {rig.laptop.folder}/passphrase"
        borg = {"repository": REPOSITORY, "paths": [HOME], "keep": "7d", "exclude": ["sh:**/x"]}
        rig.apply(
            borg={**borg, "passphrase_command": passphrase},
            snapshots={"subvolumes": [HOME], "keep": "7d"},
        )
        yield rig


def test_one_backup_is_a_snapshot_and_an_archive(rig: Rig) -> None:
    created = rig.answer("backup")["backup"]["created"]

    assert len(created) == 2
    said = rig.run("snapshots", "--no-sizes")
    assert said.code == 0, said.out + said.err
    assert "archive" in said.out
    assert "manual" in said.out


def test_the_newest_state_serves_and_it_is_said_which(rig: Rig) -> None:
    from_snapshot = rig.answer("restore", f"{HOME}/thesis", "--dry-run", "--engine", "btrfs")
    assert from_snapshot["restored"]["engine"] == "btrfs"
    restored = rig.answer("restore", f"{HOME}/thesis", "--to", "/root/a")["restored"]
    rig.does("sleep 1.1")
    rig.answer("backup", "--engine", "borg")
    from_archive = rig.run("restore", f"{HOME}/thesis", "--to", "/root/b")

    assert restored["engine"] in {"btrfs", "borg"}
    assert from_archive.code == 0, from_archive.out + from_archive.err
    assert f"(borg, {REPOSITORY}" in from_archive.out
    assert rig.does("cat /root/a/thesis /root/b/thesis") == "one\none"


def test_a_tree_that_was_lost_comes_back_where_it_was_as_it_was(rig: Rig) -> None:
    before = rig.does(f"cd {HOME} && {CONTENT}")
    rig.does(f"rm -rf {HOME}/sub {HOME}/thesis")

    for one in ("sub", "thesis"):
        path = f"{HOME}/{one}"
        done = rig.answer("restore", path, "--engine", "borg")["restored"]
        assert (done["restored_to"], done["aside"]) == (path, None)

    assert rig.does(f"cd {HOME} && {CONTENT}") == before


def test_a_drill_is_noted_and_doctor_knows_of_it(rig: Rig) -> None:
    said = rig.run("backup", "--drill")

    assert said.code == 0, said.out + said.err
    assert f"{NAME}: the drill passed: 2 files restored" in said.out
    newest = rig.answer("snapshots", "--engine", "borg")["subvolumes"][0]["snapshots"][-1]["name"]
    assert f"{NAME}: made {newest} for the drill" in said.out
    doctor = rig.laptop.doctor(*INVENTORY).seen(NAME)
    found = {one["id"]: one["status"] for one in doctor.findings if one["id"].startswith("borg.")}
    assert found == dict.fromkeys(
        ("borg.age", "borg.repository", "borg.key", "borg.drill", "borg.lock", "borg.held"), "ok"
    )


def test_what_the_units_do_needs_nobody(rig: Rig) -> None:
    for unit in ("rigops-borg", "rigops-borg-drill"):
        done = rig.host.run(f"systemctl start {unit}.service", timeout=120)
        assert done.returncode == 0, rig.host.run(f"journalctl -u {unit} -o cat").stdout


def test_a_wrong_passphrase_is_said_and_nothing_is_lost(rig: Rig) -> None:
    count = len(rig.answer("snapshots", "--engine", "borg")["subvolumes"][0]["snapshots"])
    place = rig.laptop.folder / "passphrase"
    right = place.read_text()
    place.write_text("wrong\n")
    rig.does("rm /etc/rigops/borg_passphrase.cred")
    said = rig.laptop.rigops("apply", "--yes", "--preflight", "never", *INVENTORY)
    failed = rig.run("backup", "--engine", "borg")
    stored = rig.host.run("ls /etc/rigops/borg_passphrase*").stdout
    place.write_text(right)
    again = rig.laptop.rigops("apply", "--yes", "--preflight", "never", *INVENTORY)

    assert said.code == 1, said.out + said.err
    assert failed.code == 1
    assert stored == ""
    assert "this host has no passphrase of the repository" in " ".join(failed.out.split())
    assert again.code == 0, again.out + again.err
    listed = rig.answer("snapshots", "--engine", "borg")["subvolumes"][0]["snapshots"]
    assert len(listed) == count
