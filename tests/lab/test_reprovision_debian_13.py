"""A rig of Debian 12 is installed again as Debian 13, whose borg has to heal the old archives."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Final

import pytest

from tests.lab import disks
from tests.lab.applying import INVENTORY
from tests.lab.driver_rig import tended
from tests.lab.reinstalling import has_key_again, inside, reinstall
from tests.lab.terminal import Person
from tests.lab.test_reprovision import BACKUP_DISK, CONTENT, DATA, REPOSITORY, Before, Story
from tests.lab.vault_rig import FIRST, VaultRig
from tests.shards import LAB_REPROVISION

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from typing import Any

pytestmark = pytest.mark.shard(LAB_REPROVISION)

NAME: Final = "aspen"
# In the vault with the driver, and no part of it: Debian 13's own fit its kernels and tools.
BESIDE_THE_DRIVER: Final = {
    "dkms": "3.2.2-1~deb13u1",
    "nvidia-installer-cleanup": "20240109+1",
    "nvidia-kernel-common": "20240109+1",
    "nvidia-support": "20240109+1",
}
# Of a day for which retention keeps it.
YESTERDAY: Final = datetime.now(timezone.utc) - timedelta(days=1)
RENAMED: Final = f"{NAME}-{YESTERDAY:%Y%m%dT%H%M%SZ}"
# By hand, as a person does. An archive that borg 1.2.4 renames has no signature any more.
RENAME: Final = f"""
set -e
export BORG_CONFIG_DIR=/var/lib/rigops/borg BORG_CACHE_DIR=/var/cache/rigops/borg BORG_PASSPHRASE
read -r BORG_PASSPHRASE
borg create {REPOSITORY}::before-the-thesis /etc/hostname
borg rename {REPOSITORY}::before-the-thesis {RENAMED}
borg --version
"""


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Story]:
    with tended(tmp_path_factory, f"epyc-8x4090={NAME}", f"driver={FIRST}") as booted:
        disks.grow(booted.host.record.folder, 0)  # borg wants half a gigabyte to spare
        inside(booted.host, BACKUP_DISK)
        booted.does(f"btrfs filesystem resize max /mnt/backup; {DATA}")
        yield Story(VaultRig(booted))


@pytest.fixture(scope="module")
def before(story: Story) -> Before:
    """Its repository was written by the borg of Debian 12, which also renamed an archive."""
    story.apply()
    renamed = story.host.run(RENAME, given=(story.laptop.folder / "passphrase").read_text())
    assert renamed.stdout.strip() == "borg 1.2.4", renamed.stdout + renamed.stderr
    before = Before(story)
    assert RENAMED in archives(story)
    return before


def archives(story: Story) -> set[str]:
    said = story.laptop.rigops("snapshots", NAME, "--json", *INVENTORY)
    (host,) = said.json()["hosts"]
    return {snap["name"] for one in host["subvolumes"] for snap in one["snapshots"]}


def versions_of(story: Story, names: Iterable[str]) -> dict[str, str]:
    said = story.rig.does(f"dpkg-query -W -f '${{Package}} ${{Version}}\\n' {' '.join(names)}")
    return dict(line.split() for line in said.splitlines())


def compared(host: Mapping[str, Any]) -> dict[str, tuple[str, str, str]]:
    return {
        one["subject"]: (one["verdict"], one["before"], one["after"]) for one in host["compared"]
    }


def test_nothing_is_restored_until_a_person_agrees_to_heal(story: Story, before: Before) -> None:
    reinstall(story.host, suite="trixie")
    inside(story.host, BACKUP_DISK)
    assert story.rig.does("borg --version; . /etc/os-release; echo $VERSION_CODENAME") == (
        "borg 1.4.0\ntrixie"
    )
    assert story.rig.versions() == {}
    person = Person(
        {
            "Type yes to trust the key": "yes",
            "aspen and reboot": "y",
            "Sign these archives, of which none is removed?": "n",
        }
    )

    said = person.rigops(story.laptop, ["reprovision", NAME, *INVENTORY], timeout=300)

    assert said.code == 1, said.out + said.err
    assert story.fingerprint in said.err
    assert "archives of an older borg (unknown) are to be healed" in said.out
    assert "rigops backup HOST --heal" in " ".join(said.out.split())
    assert "thesis" not in story.rig.does("ls /home/rig")
    assert before.data


def test_it_goes_on_heals_the_repository_and_the_data_is_byte_for_byte(
    story: Story, before: Before
) -> None:
    host = story.reprovisioned()

    has_key_again(story.host, before.host_key)
    assert f"signed {RENAMED}" in host["story"]
    assert story.rig.does(CONTENT) == before.data
    assert RENAMED in archives(story)
    assert story.rig.versions() == before.packages
    found = compared(host)
    assert found["system"] == (
        "other", "Debian GNU/Linux 12 (bookworm)", "Debian GNU/Linux 13 (trixie)"
    )  # fmt: skip
    assert found["borg"] == ("other", "1.2.4", "1.4.0")
    (packages,) = (one for one in host["compared"] if one["subject"] == "driver packages")
    assert (packages["verdict"], packages["after"], packages["note"]) == (
        "other",
        f"{int(packages['before']) - len(BESIDE_THE_DRIVER)} of them byte for byte",
        f"other content: {', '.join(BESIDE_THE_DRIVER)}",
    )
    assert versions_of(story, BESIDE_THE_DRIVER) == BESIDE_THE_DRIVER
    worse = [subject for subject, (verdict, *_) in found.items() if verdict == "worse"]
    assert (host["status"], worse) == ("same", [])


def test_the_healed_repository_takes_the_next_backup(story: Story, before: Before) -> None:
    assert story.apply()["outcome"] == "converged"
    healed = archives(story)

    story.back_up()

    assert len(archives(story) - healed) == 1
    assert story.rig.does(CONTENT) == before.data
