"""What was declared by the UUID of a card that is gone."""

from __future__ import annotations

from rigops.reprovision.compare import ReplacedGpu
from rigops.reprovision.moved_settings import lines_to_change, move_settings

OLD, NEW, OTHER = "GPU-old", "GPU-new", "GPU-other"
REPLACED = [ReplacedGpu("0000:01:00.0", OLD, NEW)]
DATA = {
    "gpu_power_limit": {OLD: 285, OTHER: 300, "default": 250},
    "gpu_clocks": [(OLD, 1, 2)],
    "notes": f"{OLD} is the loud one",
    "p2p": "required",
}


def test_it_goes_to_the_card_in_its_slot_and_nothing_else_changes() -> None:
    assert move_settings(DATA, REPLACED) == {
        **DATA,
        "gpu_power_limit": {NEW: 285, OTHER: 300, "default": 250},
        "gpu_clocks": [(NEW, 1, 2)],
    }
    assert move_settings(DATA, []) == DATA


def test_the_lines_of_the_inventory_to_change() -> None:
    assert list(lines_to_change(DATA, REPLACED)) == [
        f"gpu_power_limit: write {NEW} for {OLD}",
        f"gpu_clocks: write {NEW} for {OLD}",
    ]
