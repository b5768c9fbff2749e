"""What the distributions' own schemas would let pass."""

from __future__ import annotations

import pytest

from rigops.autoinstall import preseed, strict_yaml, user_data
from rigops.errors import RigopsError
from tests.unit.autoinstall.test_rendered_files import rendered

USER_DATA = rendered("ubuntu-24.04-btrfs-uefi")[0].text
PRESEED = rendered("debian-12-btrfs-bios")[0].text


def _changed(text: str, old: str, new: str) -> str:
    assert old in text
    return text.replace(old, new, 1)


@pytest.mark.parametrize(
    ("old", "new", "fault"),
    [
        ("late-commands:", "late-comands:", "unknown key; did you mean 'late-commands'?"),
        ("  source:\n    search_drivers: false\n", "", "source: missing"),
        ("search_drivers: false", "search_drivers: true", "True is not False"),
        ("    install: false", "    install: true", "True is not False"),
        ("lock_passwd: true", "lock_passwd: false", "False is not True"),
        ('flavor: "generic"', 'flavor: "genric"', "'genric' is not 'generic' or 'hwe'"),
        ('updates: "security"', 'updates: "none"', "'none' is not 'security'"),
        ("          - serial: ", "          - serail: ", "unknown key; did you mean 'serial'?"),
        ("          - serial: ", "          - size: ", "unknown key"),
        ('"*_S5GXNF0R123456"', '"*"', "not a text like"),
        ('device: "disk"', 'device: "dsik"', "'dsik' is no disk above it"),
        ('path: "/"', 'path: "/boot/efi"', "mounts of"),
        ("size: -1", 'size: "1T"', "not a text like"),
        ('fstype: "btrfs"', 'fstype: "btrs"', "'btrs' is not"),
        ("grub_device: true", "grub_device: false", "False is not True"),
        ('macaddress: "a8:a1:59:01:02:03"', 'name: "enp5s0"', "unknown key"),
        ("preserve: false", "preserve: 0", "0 is not False"),
    ],
)
def test_the_model_of_user_data_finds(old: str, new: str, fault: str) -> None:
    assert user_data.faults(USER_DATA) == []
    assert fault in "\n".join(user_data.faults(_changed(USER_DATA, old, new)))


def test_a_disk_without_a_match_is_a_fault() -> None:
    head, _, rest = USER_DATA.partition("        match:\n          - serial")
    without = head + rest[rest.index("        ptable") :]
    assert user_data.faults(without) == ["user-data.autoinstall.storage.config[0].match: missing"]


def test_a_second_disk_is_a_fault() -> None:
    start, end = USER_DATA.index('      - type: "disk"'), USER_DATA.index('      - type: "part')
    disk = USER_DATA[start:end].replace('id: "disk"', 'id: "other"')
    found = user_data.faults(USER_DATA[:end] + disk + USER_DATA[end:])
    assert any("2 disks" in fault for fault in found)


@pytest.mark.parametrize(
    "line",
    [
        "a: yes",  # true, to YAML
        "a: 'one'",
        "a: 1e3",
        "a: null",
        "a: {}",
        "a: &anchor 1",
        "a:\n\tb: 1",
        "a: 1\na: 2",
        "a:",
        "a:\nb: 1",
        "a: 1\n  b: 2",
        "a:\n  - 1\n  b: 2",
        "A: 1",
        "a: |\nb: 1",
        "- 1",
        "",
    ],
)
def test_yaml_that_could_mean_two_things_is_not_read(line: str) -> None:
    with pytest.raises(RigopsError):
        strict_yaml.parse(line + "\n")


def test_yaml_of_each_kind_is_read() -> None:
    text = '# c\na: 1\n"b c":\n  - d: "x: y"\n    e: [1, "2"]\n  - "f"\n'
    text += "  - |\n    g\n\n      h\ni: true\n"
    assert strict_yaml.parse(text) == {
        "a": 1,
        "b c": [{"d": "x: y", "e": [1, "2"]}, "f", "g\n\n  h\n"],
        "i": True,
    }


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
