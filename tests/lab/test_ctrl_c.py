"""Ctrl-C at each question of apply and release: it ends at once, and nothing is changed."""

from __future__ import annotations

import getpass
import platform
from typing import TYPE_CHECKING

import pytest

from tests.lab import hosts
from tests.lab.applying import INVENTORY, QUIETLY
from tests.lab.laptop import Laptop
from tests.lab.tended import Tended
from tests.lab.terminal import CTRL_C, Person
from tests.lab.tree import Tree
from tests.shards import LAB_CONCERNS

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.shard(LAB_CONCERNS)


@pytest.fixture(scope="module")
def rig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tended]:
    with hosts.running(["threadripper-3x3090=ctrl-c"]) as (host,):
        yield Tended(Laptop(tmp_path_factory.mktemp("laptop")), host)


@pytest.mark.parametrize(
    ("words", "question", "declared"),
    [
        (("apply", *INVENTORY), "Change ", {}),
        (("apply", *INVENTORY), "and reboot it?", {"kernel_args": ["asked=1"]}),
        (("apply", "--ask-sudo-password", *INVENTORY), "sudo password", {}),
        (("release", "ctrl-c", *INVENTORY), "Undo all of this", {}),
    ],
    ids=["apply", "apply with a reboot", "the password", "release"],
)
def test_nothing_is_changed_and_nobody_has_to_press_enter(
    rig: Tended, words: tuple[str, ...], question: str, declared: dict[str, object]
) -> None:
    name = rig.host.name
    rig.declare(nccl={"NCCL_DEBUG": "INFO"}, **declared)
    if words[0] == "release":
        assert rig.laptop.rigops("apply", *QUIETLY).code == 0
        words = ("release", name, *INVENTORY)
    before = Tree(rig.host)

    said = Person({question: CTRL_C}).rigops(rig.laptop, words)

    assert said.code == 130, said.err
    assert {
        path
        for path in before.differences(Tree(rig.host))
        if not path.startswith(("/var/log", "/run"))
    } == set()


def test_history_says_who_set_what_an_interrupted_run_set(rig: Tended, tmp_path: Path) -> None:
    rig.declare(gpu_power_limit=285, thermal_limit=83)
    apply = ("apply", "--yes", "--prune", "--preflight", "never", *INVENTORY)
    interrupted = Person({"change: thermal_guard": CTRL_C}, sees_all=True).rigops(rig.laptop, apply)
    again = rig.laptop.rigops("apply", "--prune", *QUIETLY)
    another = Laptop(tmp_path)
    another.declare({rig.host.name: {}})

    here = rig.laptop.rigops("history", *INVENTORY)
    there = another.rigops("history", *INVENTORY)

    assert (interrupted.code, again.code) == (130, 0), interrupted.out + again.err
    origin = f"by {getpass.getuser()}@{platform.node()}:{rig.laptop.folder}/inventory.py"
    limits = "power limit: 350 W -> 285 W (3 GPUs)"
    head = next(line for line in here.out.splitlines() if "apply interrupted" in line)
    assert origin in head
    after = here.out.split(head)[1].splitlines()
    assert f"    {limits}" in after[:8]
    assert any(line.startswith("    why: in the stage ") for line in after[:8])
    assert not any("planned" in line and limits in line for line in after)
    assert f"    perhaps made: {limits}" in there.out.splitlines()
    assert origin in there.out
