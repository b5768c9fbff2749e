"""What the simulated kernel shows in /sys and /proc, and the life of its driver."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

import pytest

from tests.lab import rigs
from tests.shards import LAB_ITSELF
from tests.unit.lab.rigsim_tree import Tree, booted

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.shard(LAB_ITSELF)

ACS = 0x000D


def devices(tree: Tree) -> list[str]:
    return sorted(path.name for path in (tree.root / "sys/bus/pci/devices").iterdir())


def group_types(tree: Tree) -> set[str]:
    return {
        path.read_text().strip() for path in (tree.root / "sys/kernel/iommu_groups").glob("*/type")
    }


def bound(tree: Tree, address: str) -> str:
    link = tree.root / "sys/bus/pci/devices" / address / "driver"
    return link.readlink().name if link.is_symlink() else ""


def acs_control(tree: Tree, address: str) -> int:
    """Found as a program without lspci finds it: through the list of extended capabilities."""
    data = (tree.root / "sys/bus/pci/devices" / address / "config").read_bytes()
    at = 0x100
    while at:
        header = struct.unpack_from("<I", data, at)[0]
        if header & 0xFFFF == ACS:
            return int(struct.unpack_from("<H", data, at + 6)[0])
        at = header >> 20
    raise AssertionError("no ACS capability")


@pytest.mark.parametrize("name", rigs.names())
def test_every_rig_boots_with_whole_trees(tmp_path: Path, name: str) -> None:
    tree = booted(tmp_path, name)
    facts = rigs.load(name)
    cards = {gpu.address for gpu in facts.gpus}
    assert cards < set(devices(tree))
    links = [path for path in (tree.root / "sys").rglob("*") if path.is_symlink()]
    bus = tree.root / "sys/bus/pci"
    assert [path for path in links if not path.exists()] == []
    for address in devices(tree):
        folder = (bus / "devices" / address).resolve()
        assert folder.name == address
        assert len((folder / "config").read_bytes()) == 4096
        assert (folder / "vendor").read_text().startswith("0x")
    policies = list((tree.root / "sys/devices/system/cpu/cpufreq").glob("policy*"))
    assert len(policies) == facts.cpu.threads
    assert tree.read("sys/class/dmi/id/board_name") == facts.board.name


def test_the_parents_of_a_card_are_in_its_path(tmp_path: Path) -> None:
    tree = booted(tmp_path, "threadripper-3x3090")
    path = (tree.root / "sys/bus/pci/devices/0000:42:00.0").resolve()
    assert path.relative_to(tree.root.resolve() / "sys/devices").parts == (
        "pci0000:40", "0000:40:01.3", "0000:42:00.0",
    )  # fmt: skip


def test_links_say_generation_and_width(tmp_path: Path) -> None:
    tree = booted(tmp_path, "desktop-3060-1060")
    values = {
        name: tree.read(f"sys/bus/pci/devices/0000:22:00.0/{name}")
        for name in ("current_link_width", "max_link_width", "max_link_speed", "class", "numa_node")
    }
    assert values["current_link_width"] == "1"
    assert values["max_link_width"] == "16"
    assert values["max_link_speed"] == "8.0 GT/s PCIe"
    assert values["class"] == "0x030000"


@pytest.mark.parametrize(
    ("config", "default", "mode", "types"),
    [
        ("plain", "translated", "translated", {"DMA-FQ"}),
        ("saved", "translated", "passthrough", {"identity"}),
        ("plain", "off", "off", set()),
    ],
)
def test_the_iommu_is_what_the_bootloader_files_make_it(
    tmp_path: Path, config: str, default: str, mode: str, types: set[str]
) -> None:
    tree = booted(tmp_path, "threadripper-3x3090", config=config, iommu=default)
    assert tree.read("run/rigsim/iommu") == mode
    assert group_types(tree) == types
    assert acs_control(tree, "0000:40:01.3") == (0 if mode == "off" else 0x1D)
    assert ("Adding to iommu group" in tree.read("run/rigsim/kernel-log")) == (mode != "off")


def test_an_unreadable_grub_cfg_is_not_silent(tmp_path: Path) -> None:
    tree = Tree(tmp_path, "threadripper-3x3090")
    config = tree.root / "boot/grub/grub.cfg"
    config.write_text(config.read_text()[:-9] + "\nif [ x ; then\n")
    tree.rigsim("boot")
    assert tree.read("run/rigsim/boot-failure").startswith("grub.cfg: line")
    assert tree.read("run/rigsim/cmdline").endswith("ro quiet")


def test_the_module_on_disk_is_what_loads(tmp_path: Path) -> None:
    tree = booted(tmp_path, "threadripper-3x3090", "545.29.06")
    assert tree.read("run/rigsim/driver") == "545.29.06"
    assert tree.read("sys/module/nvidia/version") == "545.29.06"
    assert "Kernel Module  545.29.06  " in tree.read("proc/driver/nvidia/version")
    assert bound(tree, "0000:0a:00.0") == "nvidia"
    information = tree.read("proc/driver/nvidia/gpus/0000:0a:00.0/information")
    assert "Model: \t\t NVIDIA GeForce RTX 3090\n" in information
    assert "NVRM: loading NVIDIA UNIX x86_64 Kernel Module  545.29.06" in tree.read(
        "run/rigsim/kernel-log"
    )


def test_an_open_module_says_so(tmp_path: Path) -> None:
    tree = Tree(tmp_path, "threadripper-3x3090")
    tree.install("580.95.05", {"license": "Dual MIT/GPL"})
    tree.rigsim("boot")
    assert "NVIDIA UNIX Open Kernel Module for x86_64  580.95.05  Release Build" in tree.read(
        "proc/driver/nvidia/version"
    )


def test_options_of_modprobe_arrive_in_the_parameters(tmp_path: Path) -> None:
    tree = Tree(tmp_path, "threadripper-3x3090")
    options = tree.root / "etc/modprobe.d/x.conf"
    options.parent.mkdir(parents=True)
    options.write_text('options nvidia NVreg_RegistryDwords="A=1;B=2" NVreg_EnableGpuFirmware=0\n')
    tree.install("535.261.03")
    tree.rigsim("boot")
    lines = tree.read("proc/driver/nvidia/params").splitlines()
    assert {'RegistryDwords: "A=1;B=2"', "EnableGpuFirmware: 0"} <= set(lines)


def test_a_fresh_machine_has_nouveau(tmp_path: Path) -> None:
    tree = booted(tmp_path, "fresh-install", driver="")
    assert not (tree.root / "run/rigsim/driver").exists()
    assert {bound(tree, gpu.address) for gpu in rigs.load("fresh-install").gpus} == {"nouveau"}


@pytest.mark.parametrize("text", ["blacklist nvidia\n", "install nvidia /bin/false\n"])
def test_a_blacklisted_driver_stays_away(tmp_path: Path, text: str) -> None:
    tree = Tree(tmp_path, "threadripper-3x3090")
    (tree.root / "etc/modprobe.d").mkdir(parents=True)
    (tree.root / "etc/modprobe.d/no.conf").write_text(text + "blacklist nouveau\n")
    tree.install("535.261.03")
    tree.rigsim("boot")
    assert not (tree.root / "run/rigsim/driver").exists()
    assert bound(tree, "0000:0a:00.0") == ""
    tree.rigsim("driver", "load")
    assert bound(tree, "0000:0a:00.0") == "nvidia"


def test_unloading_takes_everything_away(tmp_path: Path) -> None:
    tree = booted(tmp_path, "threadripper-3x3090")
    tree.smi("-pm", "1")
    tree.smi("-i", "0", "-pl", "200")
    tree.rigsim("driver", "unload")
    for path in ("run/rigsim/driver", "sys/module/nvidia", "proc/driver/nvidia", "dev/nvidia0"):
        assert not (tree.root / path).exists(), path
    assert bound(tree, "0000:0a:00.0") == ""
    assert "driver" not in tree.read("run/rigsim/cuda.conf")
    tree.rigsim("driver", "load")
    assert not list((tree.root / "run/rigsim/gpu").glob("*/*"))


def test_no_module_no_driver(tmp_path: Path) -> None:
    tree = booted(tmp_path, "threadripper-3x3090", driver="")
    done = tree.run("rigsim", "driver", "load")
    assert (done.returncode, done.stderr) == (
        1, "modprobe: FATAL: Module nvidia not found.\n",
    )  # fmt: skip


def test_cuda_conf_has_every_card_and_pair(tmp_path: Path) -> None:
    tree = booted(tmp_path, "threadripper-3x3090", "545.29.06")
    lines = tree.read("run/rigsim/cuda.conf").splitlines()
    uuid = rigs.load("threadripper-3x3090").gpus[0].uuid
    assert lines[:2] == [
        "driver 545.29.06",
        f"gpu 0 0000:0a:00.0 {uuid} 8.6 25769803776 ok NVIDIA GeForce RTX 3090",
    ]
    pairs = [line for line in lines if line.startswith("pair ")]
    assert len(pairs) == 6
    assert all(" granted=1 copy=hang rate=" in line for line in pairs)


def test_refresh_follows_the_rig(tmp_path: Path) -> None:
    tree = booted(tmp_path, "threadripper-3x3090")
    assert "granted=1" not in tree.read("run/rigsim/cuda.conf")
    tree.set_rig(p2p="mirror")
    tree.rigsim("refresh")
    assert tree.read("run/rigsim/cuda.conf").count("granted=1 copy=mirror") == 6


def test_a_card_that_leaves_the_bus(tmp_path: Path) -> None:
    tree = booted(tmp_path, "threadripper-3x3090")
    tree.set_rig(lost=["0000:42:00.0"])
    tree.rigsim("refresh")
    tree.rigsim("refresh")
    log = tree.read("run/rigsim/kernel-log")
    assert log.count("NVRM: Xid (PCI:0000:42:00): 79, pid='<unknown>', name=<unknown>, GPU") == 1
    folder = tree.root / "sys/bus/pci/devices/0000:42:00.0"
    assert set((folder / "config").read_bytes()) == {0xFF}
    assert (folder / "device").read_text() == "0x2204\n"
    assert " lost NVIDIA GeForce RTX 3090" in tree.read("run/rigsim/cuda.conf")


def test_a_card_falls_with_the_copy_that_it_is_to_fall_with(tmp_path: Path) -> None:
    tree = booted(tmp_path, "threadripper-3x3090")
    tree.set_rig(falls=["0000:42:00.0+3"], corrupt=["0000:0a:00.0"])
    tree.rigsim("refresh")
    copies = tree.root / "run/rigsim/copies/0000:42:00.0"
    assert f"falls 1 3 {copies}\n" in tree.read("run/rigsim/cuda.conf")
    assert " corrupt NVIDIA GeForce RTX 3090" in tree.read("run/rigsim/cuda.conf")
    copies.write_text("xx")
    tree.rigsim("refresh")
    assert " lost " not in tree.read("run/rigsim/cuda.conf")
    copies.write_text("xxx")
    tree.rigsim("refresh")
    assert tree.read("run/rigsim/cuda.conf").count(" lost ") == 1
    assert "NVRM: Xid (PCI:0000:42:00): 79," in tree.read("run/rigsim/kernel-log")


def test_what_hangs_in_cuda_is_in_its_configuration(tmp_path: Path) -> None:
    tree = booted(tmp_path, "threadripper-3x3090")
    tree.set_rig(p2p="unkillable", cuda="init-hang")
    tree.rigsim("refresh")
    lines = tree.read("run/rigsim/cuda.conf").splitlines()
    assert "init hang" in lines
    assert f"unkillable {tree.root}/run/rigsim/frozen/cuda" in lines
    assert sum(" granted=1 copy=hang " in line for line in lines) == 6


def step(tree: Tree) -> int:
    tree.set_rig(load="step")
    tree.rigsim("refresh")
    return tree.read("run/rigsim/cuda.conf").count(" lost ")


@pytest.mark.parametrize(
    ("changes", "lost"),
    [
        ([], 1),
        ([["-pl", "200"]], 1),
        ([["-ac", "877,1005"]], 0),
        ([["-lgc", "135,1005"]], 0),
        ([["-ac", "877,1012"]], 1),
        ([["-ac", "877,1005"], ["-i", "2", "-rac"]], 1),
    ],
)
def test_all_cards_at_full_power_without_a_clock_cap_throw_one_off(
    tmp_path: Path, changes: list[list[str]], lost: int
) -> None:
    tree = booted(tmp_path, "t180-4xv100")
    for change in changes:
        tree.smi(*change)
    assert step(tree) == lost
    assert tree.read("run/rigsim/kernel-log").count(": 79, pid=") == lost


def test_other_rigs_stand_full_power(tmp_path: Path) -> None:
    assert step(booted(tmp_path, "epyc-8x4090")) == 0


def test_device_nodes_come_with_the_driver(tmp_path: Path) -> None:
    tree = booted(tmp_path, "nvlink-2x3090")
    assert {"nvidia0", "nvidia1", "nvidiactl", "nvidia-uvm"} <= {
        path.name for path in (tree.root / "dev").iterdir()
    }
