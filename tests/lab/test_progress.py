"""Whoever waits at a terminal sees what is done, how far it is, and never a frozen line."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from tests.lab import hosts
from tests.lab.applying import INVENTORY
from tests.lab.laptop import Laptop
from tests.lab.tended import Tended
from tests.lab.terminal import Person
from tests.shards import LAB_APPLY

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.lab.laptop import Said

pytestmark = pytest.mark.shard(LAB_APPLY)

# dpkg stands still between unpacking and configuring, for longer than rigops looks away
SLOW_DPKG = "echo 'post-invoke=sleep 8' >/etc/dpkg/dpkg.cfg.d/slow"
TICKS = 4  # of a line that stands for 8 s or more, beside other work


@pytest.fixture(scope="module")
def rigs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Tended]]:
    words = ["threadripper-3x3090=waited", "nvlink-2x3090=copied"]
    with hosts.running(words) as running:
        yield [Tended(Laptop(tmp_path_factory.mktemp("laptop")), host) for host in running]


def lines(said: Said) -> list[str]:
    return re.split(r"\x1b\[G\x1b\[K|[\r\n]+", said.err)


def drawn(said: Said) -> list[str]:
    """Each text that stood on the live line, without its clock."""
    return list(dict.fromkeys(re.sub(r" *\d+:\d\d$", "", line) for line in lines(said)))


def ticks(said: Said, step: str) -> int:
    """How many times stood on the clock beside it."""
    found = (re.fullmatch(rf"{step}.* (\d+:\d\d)", line) for line in lines(said))
    return len({one[1] for one in found if one})


def test_an_apply_with_packages_and_a_reboot_is_never_silent(rigs: list[Tended]) -> None:
    rig = rigs[0]
    rig.host.run(SLOW_DPKG)
    rig.declare(driver="535", kernel_args=["iommu=pt"])
    person = Person({"and reboot it?": "y"}, columns=200)

    said = person.rigops(rig.laptop, ["apply", *INVENTORY], timeout=300)

    assert said.code == 0, said.err
    assert ticks(said, "waited  (?:unpacking|configuring) package") >= TICKS
    steps = drawn(said)
    assert any(
        re.fullmatch(r"waited  (unpacking|configuring) package \d+ of \d\d, .*", one)
        for one in steps
    ), steps
    assert "waited  reboot, trial boot with iommu=pt, waiting for it" in steps
    assert "waited  vault: storing the packages of the driver" in steps


def test_a_copy_that_hangs_is_one_of_a_number_of_pairs(rigs: list[Tended]) -> None:
    rig = rigs[1]
    rig.host.set("p2p=hang")
    rig.declare()
    person = Person({"Try them": "y"})

    said = person.rigops(rig.laptop, ["preflight", *INVENTORY], timeout=300)

    assert said.code == 1, said.err
    assert ticks(said, "copied  trying pair 1 of 2") >= TICKS
    assert "copied  trying pair 1 of 2, at most 120 s left" in drawn(said)
