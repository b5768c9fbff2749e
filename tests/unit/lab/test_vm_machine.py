"""What whole machines are made of, before any is switched on."""

from __future__ import annotations

import json
import tarfile
from typing import TYPE_CHECKING

import pytest

from tests.lab.errors import LabError
from tests.lab.vm import guest, layouts, qemu
from tests.shards import LAB_ITSELF

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.shard(LAB_ITSELF)


@pytest.mark.parametrize("name", layouts.NAMES)
def test_file_systems_neither_overlap_nor_leave_the_disk(name: str) -> None:
    layout = layouts.layout(name)
    end = 2 << 20  # behind GRUB's own partition
    for one in (*layout.beside, layout.root):
        assert one.start == end
        end += one.size
    assert end <= layout.size - (1 << 20)  # the second copy of the table


def test_an_unknown_layout_is_refused_with_those_that_there_are() -> None:
    with pytest.raises(LabError, match=r"layout=zfs: there are ext4, home, btrfs, esp"):
        layouts.layout("zfs")


def test_each_card_has_a_root_port_of_its_own_where_rig_json_has_it(tmp_path: Path) -> None:
    words = qemu.command(
        qemu.Hardware(tmp_path / "d", "raw", tmp_path / "c", tmp_path / "s", port=2222)
    )
    devices = [words[at + 1] for at, word in enumerate(words) if word == "-device"]
    ports = [one for one in devices if one.startswith("pcie-root-port")]
    cards = [one for one in devices if one.startswith("ivshmem-plain")]
    for number, gpu in enumerate(json.loads(guest.rig_file())["gpus"]):
        slot = gpu["port"].removeprefix("0000:00:").removesuffix(".0")
        assert f"id=port{number}," in ports[number]
        assert f"addr=0x{slot}," in ports[number]
        assert f"bus=port{number}," in cards[number]


def test_a_machine_reaches_nothing_and_is_reached_from_here_alone(tmp_path: Path) -> None:
    words = qemu.command(
        qemu.Hardware(tmp_path / "d", "raw", tmp_path / "c", tmp_path / "s", port=2222)
    )
    (network,) = [words[at + 1] for at, word in enumerate(words) if word == "-netdev"]
    assert network == "user,id=net,restrict=on,hostfwd=tcp:127.0.0.1:2222-:22"


def test_the_packed_simulation_is_root_s_and_whole(tmp_path: Path) -> None:
    guest.pack(tmp_path / "silicon.tar.gz")
    with tarfile.open(tmp_path / "silicon.tar.gz") as tar:
        entries = {entry.name: entry for entry in tar.getmembers()}
    assert {"bin/cards", "bin/nvidia-smi", "models.toml", "etc/rig.json"} <= entries.keys()
    assert entries["bin/cards"].mode & 0o111 == 0o111
    assert {entry.uid for entry in entries.values()} == {0}
    assert not [name for name in entries if "__pycache__" in name]
