"""The first hour with rigops, at a terminal, is as docs/first-hour.md tells it."""

from __future__ import annotations

import re
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


def test_the_first_lines_of_the_readme_lead_from_a_broken_rig_to_a_healthy_one(
    tmp_path: Path,
) -> None:
    readme = (first_hour.PAGE.parents[1] / "README.md").read_text(encoding="utf-8")
    block = readme.split("```\n")[1]
    typed = re.findall(r"^rigops (.*?) +#", block, re.MULTILINE)
    assert [one.split()[0] for one in typed] == ["init", "doctor", "fix", "plan", "apply"]
    with hosts.running([first_hour.RIG]):
        laptop = first_hour.laptop(tmp_path)
        said = {}
        for line in typed:
            words = line.replace("me@192.168.1.20", first_hour.HOST).split()
            person = Person({"[y/N]": "y"} if words == ["fix"] else {"[N]o": "y"}, sees_all=True)
            if words == ["fix"]:  # who leaves it out is told
                hasty = laptop.rigops("plan")
                assert "as declared" in hasty.out
                assert "fix: rigops fix" in hasty.out
            said[words[0]] = person.rigops(laptop, words, timeout=300)

        assert {name: one.code for name, one in said.items()} == {
            **dict.fromkeys(said, 0),
            "doctor": 1,
        }
        assert re.search(r'inventory\.py:\d+ +"driver": "535" +driver 545', said["init"].err)
        assert "rigops fix" in said["init"].err
        assert "Next: rigops fix" in said["doctor"].err
        assert "driver 545.29.06 -> 535" in said["plan"].err
        assert {one["status"] for one in laptop.doctor().json()["hosts"]} == {"ok"}


def test_no_and_ctrl_c_at_a_question_change_nothing(tmp_path: Path) -> None:
    with hosts.running([first_hour.RIG]):
        laptop = first_hour.laptop(tmp_path)
        assert laptop.rigops("init", "--accept", "--host", first_hour.HOST).code == 0
        before = (tmp_path / "inventory.py").read_text()
        (tmp_path / "inventory.py").write_text(before.replace('"driver"', '# "driver"'))
        for words in (("fix",), ("apply",), ("release", first_hour.HOST)):
            for answer in ("n", CTRL_C):
                said = Person({"N]": answer}, sees_all=True).rigops(laptop, words)
                assert said.code == 130, said.err
        assert '# "driver"' in (tmp_path / "inventory.py").read_text()
        assert only(laptop.rigops("plan", "--json"))["status"] == "pending"


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
