"""The document of a capture, and the way back from it."""

from __future__ import annotations

import json

import pytest

from rigops.capture.describe import describe
from rigops.capture.document import (
    SCHEMA,
    Capture,
    NotCaptured,
    document,
    exit_code,
    overall,
    parse,
)
from rigops.errors import HostError, RigopsError
from tests.unit.capture.rigs import (
    FIRST,
    SECOND,
    TARGET,
    identity,
    sent,
    state,
    subject,
)

MORE = """\
== /run/udev/data
259:0 ID_SERIAL Samsung_SSD_980_PRO_1TB_S5GXNF0R123456_1
259:0 ID_SERIAL_SHORT S5GXNF0R123456
259:0 ID_WWN eui.002538b111b01234
== /etc/passwd of people
me:x:1000:1000:Me:/home/me:/bin/bash
== /etc/ssh/*.pub
ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIDixoU8YDJtbbtCUkB0h+KheogUvcBdzEuN0ojy+7JV4 root@rig
ssh-rsa damaged!
== dmidecode -t slot
Designation: PCIEX16_1
Bus Address: 0000:00:01.1
"""


def captured() -> Capture:
    return describe(subject(identity=identity(more=MORE)))


def test_it_is_read_back_as_it_was_written() -> None:
    found = captured()

    assert parse(json.dumps(document([found])), place="x") == found


def test_disks_have_their_own_names_and_what_they_hold() -> None:
    declared = {"driver": "535", "snapshots": {"subvolumes": ["/home"], "send_to": TARGET}}
    found = describe(
        subject(
            declared=declared,
            identity=identity(more=MORE),
            rigops_state=state(None, snapshots=sent()),
        )
    )

    disks = {one.name: one for one in found.disks}
    assert {name: one.holds for name, one in disks.items()} == {
        "nvme0n1": ("root", "boot"),
        "sda": ("data",),
        "sdb": ("data",),
        "sdc": ("backups",),
        "sdd": ("data",),
    }
    root = disks["nvme0n1"]
    assert root.id_serial == "Samsung_SSD_980_PRO_1TB_S5GXNF0R123456_1"
    assert (root.id_serial_short, root.wwn) == ("S5GXNF0R123456", "eui.002538b111b01234")
    assert [one.mounted_at for one in root.partitions] == [("/boot/efi",), ("/", "/home")]


def test_a_repository_makes_its_disk_one_of_backups() -> None:
    assert {one.name: one.holds for one in captured().disks}["sda"] == ("backups",)


def test_the_rest_is_what_was_collected() -> None:
    found = captured()

    assert found.driver is not None
    assert [one.name for one in found.driver.packages] == ["libcuda1"]
    assert [(one.address, one.link_width, one.max_link_width) for one in found.gpus] == [
        (FIRST, 8, 16),
        (SECOND, 8, 16),
    ]
    assert found.gpus[0].bus_path == ("0000:00:01.1",)
    assert found.gpus[0].slot == "PCIEX16_1"
    assert found.p2p is not None
    assert document([found])["hosts"][0]["p2p"]["pairs"][0] == {  # type: ignore[index]  # a document
        "from": FIRST, "to": SECOND, "verdict": "ok",
    }  # fmt: skip
    (key,) = found.host_keys
    assert key.fingerprint == "SHA256:t8ajYUfoyvuhtve/HNUGe3MBd9+2XcUd1COA8ZLKDI4"
    root = next(one for one in found.file_systems if "nvme0n1p2" in one.devices)
    assert [(one.at, one.subvolume) for one in root.mounts] == [("/", "/@"), ("/home", "/@home")]
    assert (root.uuid, root.disks) == ("aa", ("nvme0n1",))
    assert (found.users[0].name, found.users[0].is_login) == ("me", True)


def test_of_a_host_that_answered_nothing_it_is_empty_and_not_safe() -> None:
    found = describe(
        subject(
            os_release=None, uname=None, proc_cmdline=None, boot=None, pci=None, storage=None,
            nvidia_version=None, nvidia_smi_xml=None, identity=None, rigops_state=None,
        )
    )  # fmt: skip

    assert found.status != "safe"
    assert parse(json.dumps(document([found])), place="x") == found


def test_one_that_was_not_reached_is_unknown() -> None:
    lost = NotCaptured("rig", HostError("timeout", "no answer"))

    assert document([lost]) == {
        "schema": SCHEMA,
        "status": "unknown",
        "hosts": [{"host": "rig", "status": "unknown", "error": lost.error.as_json()}],
    }
    assert (exit_code(overall([lost])), exit_code(overall([lost, captured()]))) == (3, 3)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"status": "perhaps"}, "status is 'perhaps'"),
        ({"gpus": [{"address": 7, "uuid": None, "name": None}]}, "address is 7"),
        ({"disks": {}}, "disks is {}"),
        ({"packages": [1]}, "packages is"),
        ({"host": None}, "host is absent"),
    ],
)
def test_a_damaged_one_is_refused_with_the_place(change: dict[str, object], message: str) -> None:
    text = json.loads(json.dumps(document([captured()])))
    text["hosts"][0].update(change)

    with pytest.raises(RigopsError, match="the file") as refused:
        parse(json.dumps(text), place="the file")
    assert message in str(refused.value)


def test_fields_of_another_version_are_no_obstacle() -> None:
    text = json.loads(json.dumps(document([captured()])))
    text["hosts"][0]["new"] = {"x": 1}
    del text["hosts"][0]["network"]

    found = parse(json.dumps(text), place="x")

    assert found.network.interfaces == ()
