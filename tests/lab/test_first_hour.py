"""The first hour with rigops, at a terminal, is as docs/first-hour.md tells it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests import first_hour
from tests.lab import hosts
from tests.lab.applying import INVENTORY, only
from tests.lab.laptop import Laptop
from tests.lab.sshd import until
from tests.lab.terminal import CTRL_C, Person
from tests.shards import LAB_ADVICE

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.shard(LAB_ADVICE)


def words(text: str) -> list[str]:
    """Where a line is wrapped depends on how long a path is."""
    return text.split()


def test_it_is_as_it_is_told() -> None:
    assert words(first_hour.recorded()) == words(first_hour.PAGE.read_text(encoding="utf-8"))


def test_ctrl_c_in_any_stage_leaves_what_the_next_run_finishes(tmp_path: Path) -> None:
    laptop = Laptop(tmp_path)
    with hosts.running(["threadripper-3x3090=each-stage"]) as (host,):
        laptop.declare({host.name: {"driver": "535", "kernel_args": ["iommu=pt"]}})
        stages = ("probe", "plan", "apt is at work", "verify", "waiting", "preflight", "vault")
        for stage in stages:
            person = Person({stage: CTRL_C}, sees_all=True)
            apply = ("apply", "--yes", "--reboot", "auto", *INVENTORY)
            said = person.rigops(laptop, apply, timeout=120)
            assert said.code in {0, 3, 130}, f"{stage}: {said.err}"  # 3: at its reboot
            until(lambda: host.answers, "the host's next boot")

        last = laptop.rigops("apply", "--yes", "--reboot", "auto", "--json", *INVENTORY)

        assert last.code == 0, last.err
        assert only(last)["outcome"] in {"converged", "changed"}
        assert only(laptop.doctor(*INVENTORY))["status"] == "warn"
