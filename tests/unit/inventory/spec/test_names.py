from __future__ import annotations

import pytest

from rigops.concerns.registry import keys
from rigops.inventory.spec.names import near_miss

NAMES = list(keys())


@pytest.mark.parametrize(
    ("word", "meant"),
    [
        ("gpu_power_limt", "gpu_power_limit"),
        ("gpu_pwoer_limit", "gpu_power_limit"),
        ("GPU_POWER_LIMIT", "gpu_power_limit"),
        ("gpu-power-limit", "gpu_power_limit"),
        ("drivers", "driver"),
        ("drvier", "driver"),
        ("gpu", "gpus"),
        ("snapshot", "snapshots"),
        ("limit", "limits"),
    ],
)
def test_a_slip_of_the_pen_is_seen(word: str, meant: str) -> None:
    assert near_miss(word, NAMES) == meant


@pytest.mark.parametrize(
    "word",
    ["rack", "notes", "owner", "user", "ssh_port", "ssh_user", "location", "docker_image", "env"],
)
def test_a_key_of_the_users_own_is_no_slip(word: str) -> None:
    assert near_miss(word, NAMES) is None


def test_a_key_itself_is_no_slip_of_another() -> None:
    assert all(near_miss(key, [k for k in NAMES if k != key]) is None for key in NAMES)
