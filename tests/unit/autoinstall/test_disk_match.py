from __future__ import annotations

import os
import re
import subprocess
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rigops.autoinstall import disk_match, preseed, render
from rigops.autoinstall.disk_match import SERIAL, SHORT, WWN, Entry, appearances, entries
from rigops.autoinstall.installation import decide
from rigops.capture.document import Disk
from rigops.catalog import load
from rigops.errors import UsageError
from tests.unit import programs
from tests.unit.autoinstall.captured import BACKUPS, DEBIAN, MODELS, NVME, RIG, UBUNTU

if TYPE_CHECKING:
    from pathlib import Path

# Few and short, so that disks often have the same, or one the end of another's.
_WORDS = st.sampled_from(["S5GXN1", "XS5GXN1", "S5GXN1_1", "S5GXN1_2", "000000000000", "A*C[de]f"])
_SERIALS = st.one_of(
    st.none(), _WORDS, _WORDS.map(lambda word: f"Model_{word}"), st.text(max_size=9)
)
_WWNS = st.sampled_from([None, "0x5002538f31b0c2d3", "0x5002538f31b0c2d4", "eui.002538b111b01234"])
_DISKS = st.builds(
    Disk,
    name=st.just("sda"),
    transport=st.sampled_from(["nvme", "sata", "usb", None]),
    id_serial=_SERIALS,
    id_serial_short=_SERIALS,
    wwn=_WWNS,
)


@given(_DISKS, st.lists(_DISKS, max_size=4))
def test_no_other_disk_than_the_wanted_one_ever_matches(disk: Disk, others: list[Disk]) -> None:
    for entry in entries(disk, others):
        for other in others:
            assert not any(entry.matches(properties) for properties in appearances(other))


@given(_DISKS, st.lists(_DISKS, max_size=4))
def test_an_entry_matches_the_disk_itself(disk: Disk, others: list[Disk]) -> None:
    """As it is, or as another udev or adapter shows it."""
    for entry in entries(disk, others):
        shown = list(appearances(disk))
        shown += [{**one, SERIAL: f"Model_{disk.id_serial_short}{end}"} for one in shown[:1]
                  for end in ("", "_1")]  # fmt: skip
        assert any(entry.matches(properties) for properties in shown)


@given(_DISKS)
def test_an_empty_or_generic_identity_is_never_matched(disk: Disk) -> None:
    nobody = [{}, {SERIAL: "", SHORT: "", WWN: ""}, {SERIAL: "QEMU_HARDDISK"}]
    for entry in entries(disk, []):
        assert not any(entry.matches(properties) for properties in nobody)


@pytest.mark.parametrize(
    "serial",
    [
        "Samsung_SSD_980_PRO_1TB_S5GXNF0R123456_1",  # as it was captured
        "Samsung_SSD_980_PRO_1TB_S5GXNF0R123456",  # an older udev
        "Samsung_SSD_980_PRO_S5GXNF0R123456_1",  # another name of the model
    ],
)
def test_nvme_is_found_by_each_udev(serial: str) -> None:
    found = [entry for entry in entries(NVME, [MODELS]) if entry.matches({SERIAL: serial})]
    assert found


def test_an_older_capture_of_nvme_is_found_by_a_newer_udev() -> None:
    old = replace(NVME, id_serial="Samsung_SSD_980_PRO_1TB_S5GXNF0R123456")
    newer = {SERIAL: "Samsung_SSD_980_PRO_1TB_S5GXNF0R123456_1"}
    assert any(entry.matches(newer) for entry in entries(old, []))


def test_the_other_namespace_of_an_nvme_is_not_matched() -> None:
    serial = "Samsung_SSD_980_PRO_1TB_S5GXNF0R123456_2"
    other = replace(NVME, name="nvme0n2", id_serial=serial, wwn="eui.002538b111b01235")
    found = entries(NVME, [other])
    assert Entry(SERIAL, "Samsung_SSD_980_PRO_1TB_S5GXNF0R123456_1") not in found
    assert [entry.property for entry in found] == [WWN]


def test_a_disk_behind_a_sas_adapter_is_found_by_its_wwn() -> None:
    assert any(
        entry.matches({SERIAL: "35002538f31b0c2d3"}) for entry in entries(MODELS, [NVME, BACKUPS])
    )


@pytest.mark.parametrize("choices", [DEBIAN, UBUNTU], ids=["debian", "ubuntu"])
@pytest.mark.parametrize(
    ("serial", "others"),
    [(None, (MODELS,)), ("000000000000", (MODELS,)), ("short", (MODELS,))],
)
def test_without_an_identity_it_refuses(
    choices: object, serial: str | None, others: tuple[Disk, ...]
) -> None:
    bare = replace(NVME, id_serial=serial, id_serial_short=None, wwn=None)
    with pytest.raises(UsageError, match="could be taken for another disk"):
        decide(replace(RIG, disks=(bare, *others)), choices, load())  # type: ignore[arg-type]  # made by hand


def test_twins_of_one_serial_number_are_refused() -> None:
    twin = replace(NVME, name="sdc", transport="usb", holds=("data",))
    with pytest.raises(UsageError, match="sdc has the same serial number"):
        decide(replace(RIG, disks=(NVME, twin)), DEBIAN, load())


PROGRAMS = {
    "list-devices": 'ls "$DEVICES" | sed "s|^|/dev/|"',
    "udevadm": 'for word; do last=$word; done; cat "$DEVICES/${last##*/}"',
    "debconf-set": 'echo "$@"',
    "logger": ":",
    "sleep": "kill $PPID",
}


@pytest.mark.parametrize("shell", programs.SHELLS)
@pytest.mark.parametrize(
    ("shown", "chosen"),
    [
        ("Samsung_SSD_980_PRO_1TB_S5GXNF0R123456_1", "/dev/nvme0n1"),
        ("Samsung_SSD_980_PRO_1TB_S5GXNF0R123456", "/dev/nvme0n1"),
        ("Samsung_SSD_980_PRO_1TB_S5GXNF0R999999_1", ""),  # another one of the same model
    ],
)
def test_the_early_command_chooses_the_disk_or_stops(
    tmp_path: Path, shell: str, shown: str, chosen: str
) -> None:
    tools, devices = tmp_path / "bin", tmp_path / "devices"
    for folder in (tools, devices):
        folder.mkdir()
    for name, body in PROGRAMS.items():
        (tools / name).write_text(f"#!/bin/sh\n{body}\n")
        (tools / name).chmod(0o755)
    for disk, serial in ((NVME, shown), (MODELS, MODELS.id_serial), (BACKUPS, BACKUPS.id_serial)):
        (devices / disk.name).write_text(f"DEVNAME=/dev/{disk.name}\nID_SERIAL={serial}\n")
    (file,) = render.files(decide(RIG, DEBIAN, load()), RIG.disks)
    command = preseed.answer_of(file.text, "partman/early_command")
    command = command.replace("/dev/console /dev/tty1", str(tmp_path / "console"))

    done = subprocess.run(
        [*programs.shell(shell), "-c", command],
        env={"PATH": f"{tools}:{os.environ['PATH']}", "DEVICES": str(devices)},
        capture_output=True,
        text=True,
        check=False,
    )

    if chosen:
        assert done.stdout == f"partman-auto/disk {chosen}\ngrub-installer/bootdev {chosen}\n"
    else:
        assert done.stdout == ""
        assert "nvme0n1 is not here" in (tmp_path / "console").read_text()


def test_what_was_rendered_names_the_wanted_disk_alone() -> None:
    for choices in (DEBIAN, UBUNTU):
        file = render.files(decide(RIG, choices, load()), RIG.disks)[0]
        found = (
            preseed.entries(file.text)
            if choices is DEBIAN
            else [Entry(SERIAL, glob) for glob in re.findall(r'serial: "(.*)"', file.text)]
        )
        assert found
        for entry in found:
            assert disk_match.disks_matched(entry, [MODELS, BACKUPS]) == []
