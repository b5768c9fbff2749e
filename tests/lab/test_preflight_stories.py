"""From what a rig is to what apply makes of it, as preflight sees both."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.lab.applying import INVENTORY, only
from tests.lab.laptop import Laptop
from tests.shards import LAB_PREFLIGHT

if TYPE_CHECKING:
    from pathlib import Path

    from tests.lab.conftest import Lab

pytestmark = pytest.mark.shard(LAB_PREFLIGHT)

PREFLIGHT = ("preflight", "--yes", "--json", *INVENTORY)
APPLY = ("apply", "--yes", "--reboot", "auto", "--json", *INVENTORY)


def preflight(laptop: Laptop) -> tuple[int, dict[str, Any]]:
    said = laptop.rigops(*PREFLIGHT)
    return said.code, dict(only(said))


def ends(found: dict[str, Any]) -> set[tuple[str, str]]:
    return {(pair["verdict"], pair["level"]) for pair in found["pairs"]}


def test_545_hangs_and_535_refuses_what_nccl_then_does_without(lab: Lab, tmp_path: Path) -> None:
    host = lab.one("threadripper-3x3090=breaking")
    laptop = Laptop(tmp_path)
    laptop.declare({host.name: {"driver": "535", "kernel_args": ["iommu=pt"]}})
    code, before = preflight(laptop)
    assert (code, before["pairs"][0]["verdict"]) == (1, "hang")
    assert ends(before) == {("hang", "L1"), ("skipped", "L0")}
    assert host.answers

    applied = laptop.rigops(*APPLY)

    assert applied.code == 0, applied.err
    code, after = preflight(laptop)
    assert (code, after["status"], after["collectives"]) == (0, "ok", "proven"), after
    assert (ends(after), len(after["pairs"])) == ({("not_granted", "L0")}, 6)
    assert after["machine"]["driver"].startswith("535.")


def test_granted_behind_a_translating_iommu_is_wrong_until_apply_has_been_there(
    lab: Lab, tmp_path: Path
) -> None:
    host = lab.one("threadripper-3x3090=translated", "driver=535.261.03", "p2p=granted")
    laptop = Laptop(tmp_path)
    laptop.declare({host.name: {"driver": "535", "kernel_args": ["iommu=pt"]}})
    code, before = preflight(laptop)
    assert (code, ends(before), len(before["pairs"])) == (1, {("wrong_data", "L1")}, 6)

    applied = laptop.rigops(*APPLY)

    assert applied.code == 0, applied.err
    assert only(applied)["outcome"] == "changed"
    code, after = preflight(laptop)
    assert (code, after["status"], after["collectives"]) == (0, "ok", "proven"), after
    assert (ends(after), len(after["pairs"])) == ({("ok", "L5")}, 6)
