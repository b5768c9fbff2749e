"""A driver whose reboot is put off: CUDA fails meanwhile, and everything says so."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.lab.applying import INVENTORY, QUIETLY
from tests.lab.driver_rig import GOOD, NEVER, OLD, THE_535, Rig, stages, tended
from tests.lab.terminal import Person
from tests.shards import LAB_DRIVER

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.shard(LAB_DRIVER)

APPLY = ("apply", "--preflight", "never", *INVENTORY)
LATER = "[c]hange now and reboot later (CUDA fails until then)"
OWED = "later changed, reboot pending; CUDA fails until you reboot it"


@pytest.fixture(scope="module")
def rig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    with tended(tmp_path_factory, "threadripper-3x3090=later") as rig:
        rig.declare(**THE_535)
        yield rig


def test_the_plan_says_what_a_change_without_its_reboot_breaks(rig: Rig) -> None:
    said = rig.laptop.rigops("plan", *INVENTORY)

    assert "CUDA fails from the change until the reboot" in said.out
    planned = rig.laptop.rigops("plan", "--json", *INVENTORY).json()["hosts"][0]
    assert planned["fails_until_reboot"] == ["CUDA"]


def test_without_the_reboot_the_question_says_it_too(rig: Rig) -> None:
    person = Person({"and reboot it later? CUDA fails until then.": "n"})

    assert person.rigops(rig.laptop, [*APPLY, *NEVER]).code == 130
    assert rig.runs == OLD


def test_change_and_reboot_are_one_question_and_the_reboot_can_wait(rig: Rig) -> None:
    said = Person({LATER: "c"}).rigops(rig.laptop, APPLY, timeout=300)

    assert said.code == 0, said.err
    assert f"Change later and reboot it?\r\n[y]es, {LATER}, [d]iff, [N]o: " in said.err
    assert OWED in said.out
    assert (rig.loaded, rig.runs) == (OLD, "")


def test_doctor_fails_with_it(rig: Rig) -> None:
    said = rig.laptop.doctor(*INVENTORY)

    assert said.code == 1
    assert "drv.mismatch" in said.seen().ids("fail")


def test_another_apply_without_a_reboot_says_it_once_more(rig: Rig) -> None:
    said = rig.laptop.rigops("apply", *NEVER, *QUIETLY)

    assert said.code == 0, said.err
    assert "CUDA fails until the reboot" in said.err
    assert OWED in said.out


def test_the_reboot_alone_brings_it_into_force(rig: Rig) -> None:
    said = Person({"Reboot later now?": "y"}).rigops(rig.laptop, [*APPLY, "--json"], timeout=300)

    assert "reboot" in stages(said.json()["hosts"][0])
    assert (said.code, rig.loaded, rig.runs) == (0, GOOD, GOOD)
