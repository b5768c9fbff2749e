"""Values that no key takes: they end in an error of the inventory, never in one of Python."""

from __future__ import annotations

import json

import pytest

from rigops.concerns.registry import keys
from rigops.inventory.spec import examine

ARABIC_FIVE = "\u0665"
HOSTILE: dict[str, object] = {
    "a number of 5001 digits": 10**5000,
    "below every float": -(10**400),
    "nan": float("nan"),
    "infinity": float("inf"),
    "digits of another script": ARABIC_FIVE,
    "watts of another script": f"{ARABIC_FIVE}W",
    "a size of another script": f"{ARABIC_FIVE}G",
    "a share of another script": f"{ARABIC_FIVE}%",
    "a branch of another script": ARABIC_FIVE * 3,
    "clocks of another script": f"graphics={ARABIC_FIVE},{ARABIC_FIVE}",
    "a circuit of another script": f"{ARABIC_FIVE * 3}V/16A",
    "5000 digits in a text": "9" * 5000,
    "clocks of 5000 digits": "graphics=" + "9" * 5000,
    "watts of 5000 digits": "9" * 5000 + "W",
    "half a character": "\udcff",
    "nul": "a\0b",
    "bytes": b"535",
    "a long text": "x" * 100_000,
    "nothing": "",
    "a class": object,
    "a list of such": [10**5000, float("nan"), "\udcff", b"x", None],
    "a dict of such": {"\udcff": float("nan"), "default": 10**5000, "shm": ARABIC_FIVE, 7: "a"},
    "lists in lists": [[[[[[["a"]]]]]]],
}
NUMBERS = ("gpu_power_limit", "cpu_max_freq", "reboot_timeout", "circuits", "limits", "gpu_clocks")


@pytest.mark.parametrize("value", HOSTILE.values(), ids=HOSTILE)
def test_each_key_takes_it_or_says_what_it_takes(value: object) -> None:
    for name, key in keys().items():
        _, problems = examine({name: value}, {name: key})

        for problem in problems:
            assert problem.accepted or problem.fix
            json.dumps([problem.message, problem.value, problem.fix]).encode()
            assert len(problem.value or "") < 200


@pytest.mark.parametrize("name", NUMBERS)
def test_digits_of_another_script_are_no_number(name: str) -> None:
    for what in (one for one in HOSTILE if one.endswith("of another script")):
        _, problems = examine({name: HOSTILE[what]}, {name: keys()[name]})

        assert problems, what
