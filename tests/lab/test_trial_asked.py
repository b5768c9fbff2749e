"""Where GRUB can write nothing no boot tries new arguments first, and somebody has to agree."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.lab import hosts
from tests.lab.laptop import Laptop
from tests.lab.terminal import Person
from tests.shards import LAB_CONCERNS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.lab.hosts import Host

pytestmark = pytest.mark.shard(LAB_CONCERNS)

NAME = "all-btrfs"
ARGUMENT = "asked=1"
APPLY = ("apply", "--preflight", "never", "-i", "inventory.py")
WHERE_BOOTS_READ = "grep -rl asked=1 /boot/grub /etc/default /var/lib/rigops || true"


@pytest.fixture(scope="module")
def host() -> Iterator[Host]:
    with hosts.running([f"threadripper-3x3090={NAME}"]) as (host,):
        host.run("cat >/etc/rigsim/disk", given="fs=btrfs\n")
        yield host


@pytest.fixture
def laptop(host: Host, tmp_path_factory: pytest.TempPathFactory) -> Laptop:
    laptop = Laptop(tmp_path_factory.mktemp("laptop"))
    laptop.declare({host.name: {"kernel_args": [ARGUMENT]}})
    return laptop


def test_with_yes_alone_it_is_refused_and_nothing_is_touched(host: Host, laptop: Laptop) -> None:
    said = laptop.rigops(*APPLY, "--yes", "--reboot", "auto", "--json")

    (found,) = said.json()["hosts"]
    assert (said.code, found["outcome"]) == (1, "refused")
    assert "btrfs" in found["trial"]["not_possible"]
    assert "--accept-no-trial" in found["blocked"][0]["reason"]
    assert host.run(WHERE_BOOTS_READ).stdout == ""


def test_whoever_says_no_to_that_alone_changes_nothing(host: Host, laptop: Laptop) -> None:
    person = Person({"numbers to allow": "c"})

    said = person.rigops(laptop, [*APPLY, "--reboot", "never"])

    assert said.code == 1
    assert "cannot be tried first" in said.out
    assert host.run(WHERE_BOOTS_READ).stdout == ""


def test_whoever_says_yes_has_them_in_every_boot_to_come(host: Host, laptop: Laptop) -> None:
    person = Person({"numbers to allow": "1"})

    said = person.rigops(laptop, [*APPLY, "--reboot", "never"])

    assert said.code == 0, said.err
    assert ARGUMENT in host.run("cat /boot/grub/grub.cfg").stdout
    assert host.run("ls /boot/grub/custom.cfg").returncode != 0
