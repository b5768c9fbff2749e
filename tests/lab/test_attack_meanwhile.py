"""Somebody works on the driver by hand while the question of apply is open.

A row is what is done there, and what apply says of it; nothing more is installed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.lab import run_file
from tests.lab.applying import INVENTORY, only
from tests.lab.driver_rig import AUTO, GOOD, OLD, THE_535, Rig, tended
from tests.lab.terminal import Person
from tests.shards import ATTACK

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.shard(ATTACK)

APT = "DEBIAN_FRONTEND=noninteractive apt-get -q -y --allow-downgrades --allow-change-held-packages"
BY_RUN_FILE = "as the installer does it"
HALF = r"sed -i '/^Package: hostname$/,/^$/s/^Status: .*/Status: install ok unpacked/'"


@pytest.fixture(scope="module")
def rig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    with tended(tmp_path_factory, "threadripper-3x3090=attack-meanwhile") as rig:
        rig.declare(**THE_535)
        yield rig


@pytest.mark.parametrize(
    ("by_hand", "mended", "says"),
    [
        pytest.param(
            f"{HALF} /var/lib/dpkg/status",
            "dpkg --configure -a",
            "meanwhile dpkg did not finish with hostname: sudo dpkg --configure -a",
            id="a package is cut off",
        ),
        pytest.param(
            f"{APT} purge nvidia-driver >/dev/null", "true", "run this again", id="it is removed"
        ),
        pytest.param(
            BY_RUN_FILE,
            f"{run_file.UNINSTALLER} --silent",
            "NVIDIA's own installer",
            id="a .run file",
        ),
    ],
)
def test_what_is_done_by_hand_while_apply_asks_is_noticed(
    rig: Rig, by_hand: str, mended: str, says: str
) -> None:
    done: list[set[str]] = []

    def meanwhile() -> None:
        if by_hand == BY_RUN_FILE:
            run_file.install(rig.host)
        else:
            rig.does(by_hand)
        done.append(rig.drivers())

    person = Person({"Change ": "y"}, meanwhile=meanwhile)
    words = ("apply", *AUTO, "--preflight", "never", "--json", *INVENTORY)

    said = person.rigops(rig.laptop, words, timeout=120)

    assert said.code == 1, said.out + said.err
    assert says in only(said)["error"]["message"]
    assert [rig.drivers()] == done == [{OLD}]
    rig.does(mended)


def test_the_next_apply_makes_a_plan_of_what_is_there_now(rig: Rig) -> None:
    rig.apply(0, *AUTO, **THE_535)

    assert (rig.drivers(), rig.runs) == ({GOOD}, GOOD)
