"""What the distributions' own schemas would let pass."""

from __future__ import annotations

import json
from typing import Any

import pytest

from rigops.autoinstall import preseed, render, user_data, user_data_model
from rigops.autoinstall.installation import decide
from rigops.catalog import load
from tests.unit.autoinstall.test_rendered_files import CASES, rendered

PRESEED = rendered("debian-12-btrfs-bios")[0].text


def _changed(text: str, old: str, new: str) -> str:
    assert old in text
    return text.replace(old, new, 1)


def _user_data() -> dict[str, Any]:
    capture, choices = CASES["ubuntu-24.04-btrfs-uefi"]
    installation = decide(capture, choices, load())
    return user_data.document(installation, render.late_commands(installation))


@pytest.mark.parametrize(
    ("place", "old", "new", "fault"),
    [
        ("", "late-commands", "late-comands", "unknown key; did you mean 'late-commands'?"),
        ("", "source", None, "source: missing"),
        ("source", "search_drivers", True, "True is not False"),
        ("drivers", "install", True, "True is not False"),
        ("user-data users 0", "lock_passwd", False, "False is not True"),
        ("kernel", "flavor", "'genric'", "'genric' is not 'generic' or 'hwe'"),
        ("", "updates", "'none'", "'none' is not 'security'"),
        ("storage config 0 match 0", "serial", "serail", "unknown key; did you mean 'serial'?"),
        ("storage config 0 match 0", "serial", "size", "unknown key"),
        ("storage config 0 match 0", "serial", "'*'", "not a text like"),
        ("storage config 0", "match", None, "storage.config[0].match: missing"),
        ("storage config 0", "preserve", 0, "0 is not False"),
        ("storage config 1", "device", "'dsik'", "'dsik' is no disk above it"),
        ("storage config 1", "grub_device", False, "False is not True"),
        ("storage config 3", "size", "'1T'", "not a text like"),
        ("storage config 4", "fstype", "'btrs'", "'btrs' is not"),
        ("storage config 5", "path", "'/boot/efi'", "mounts of"),
        ("network ethernets enp5s0 match", "macaddress", "name", "unknown key"),
    ],
)
def test_the_model_of_user_data_finds(place: str, old: str, new: object, fault: str) -> None:
    """`new` is a value, another key, or None for no such key."""
    document = _user_data()
    assert user_data_model.faults(document) == []
    entry = document["autoinstall"]
    for step in place.split():
        entry = entry[int(step) if isinstance(entry, list) else step]
    value = entry.pop(old)
    if isinstance(new, str) and not new.startswith("'"):
        entry[new] = value
    elif new is not None:
        entry[old] = new.strip("'") if isinstance(new, str) else new
    assert fault in "\n".join(user_data_model.faults(document))


def test_a_second_disk_is_a_fault() -> None:
    document = _user_data()
    actions = user_data_model.storage(document)
    actions.insert(1, {**actions[0], "id": "other"})
    assert any("2 disks" in fault for fault in user_data_model.faults(document))


def test_a_name_that_yaml_would_take_for_another_value_is_quoted() -> None:
    names = ("no", "y", "null", "1e3", "a b", "0x1", "1:2", "~", "é", "-", "A")
    for name in names:
        assert user_data.as_yaml({name: name}) == f"{json.dumps(name)}: {json.dumps(name)}\n"


def test_blocks_are_indented_below_what_they_belong_to() -> None:
    data = {
        "a": 1,
        "b c": [{"d": "x: y", "e": [1, "2"], "f": {"g": True}}, "h"],
        "i": ["j\n\n  k\n"],
        "l": [],
    }
    assert user_data.as_yaml(data) == (
        'a: 1\n"b c":\n  - d: "x: y"\n    e: [1, "2"]\n    f:\n      g: true\n  - "h"\n'
        "i:\n  - |\n    j\n\n      k\nl: []\n"
    )


@pytest.mark.parametrize(
    ("old", "new", "fault"),
    [
        ("partman-auto/method", "partman-auto/metod", "did you mean 'partman-auto/method'?"),
        ("partman-auto/method", "partman-auto/metod", "partman-auto/method: missing"),
        ("d-i partman/confirm boolean", "d-i partman/confirm string", "type 'string'"),
        ("d-i partman/confirm boolean true", "d-i partman/confirm boolean yes", "'yes'"),
        ("d-i time/zone", "di time/zone", "owner 'di' is not 'd-i'"),
        ("string regular", "string lvm", "'lvm' is not like regular"),
        ("method{ biosgrub }", "method{ bios grub }", "partman-auto/expert_recipe"),
        ("password !", "password secret", "passwd/user-password-crypted"),
        ("d-i passwd/username string me\n", "", "passwd/username: missing"),
        ("for pattern in ", "for word in ", "no pattern of a disk"),
        (
            "d-i clock-setup/utc boolean true\n",
            "d-i clock-setup/utc boolean true\n" * 2,
            "for the second time",
        ),
    ],
)
def test_the_model_of_a_preseed_finds(old: str, new: str, fault: str) -> None:
    assert preseed.faults(PRESEED) == []
    assert fault in "\n".join(preseed.faults(_changed(PRESEED, old, new)))
