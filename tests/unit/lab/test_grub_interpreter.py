"""The simulated firmware boots what GRUB would: real grub.cfg files, made by grub-mkconfig."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.lab import rigs
from tests.lab.silicon.rigsim import grub_environment, kernel_arguments, rig
from tests.lab.silicon.rigsim.grub import Boot, Grub
from tests.shards import LAB_ITSELF
from tests.unit.lab.rigsim_tree import with_grub

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.shard(LAB_ITSELF)

UUID = "3f5ac1de-6c1e-4f3e-9f80-2a4c1f6f0d11"
NEW, OLD = "/boot/vmlinuz-6.1.0-50-amd64", "/boot/vmlinuz-6.1.0-37-amd64"
TRIAL = """\
menuentry 'rigops trial' --id rigops-trial {
\tlinux /boot/vmlinuz-6.1.0-50-amd64 root=UUID=1 ro ${rigops_arguments} iommu=pt
\tinitrd /boot/initrd.img-6.1.0-50-amd64
}
"""


def boot(root: Path) -> Boot:
    return Grub(root).boot()


def environment(root: Path, **values: str) -> Path:
    path = root / "boot/grub/grubenv"
    assert grub_environment.change(path, dict(values))
    return path


def custom(root: Path, text: str = TRIAL) -> None:
    (root / "boot/grub/custom.cfg").write_text(text)


def test_the_first_entry_boots_when_nothing_else_is_said(tmp_path: Path) -> None:
    found = boot(with_grub(tmp_path, "plain"))
    assert found == Boot(
        f"BOOT_IMAGE={NEW} root=/dev/nvme0n1p2 ro quiet", NEW, "Debian GNU/Linux", ""
    )


def test_arguments_of_etc_default_grub_arrive(tmp_path: Path) -> None:
    line = boot(with_grub(tmp_path, "saved")).command_line
    assert line.endswith("ro amd_iommu=on iommu=pt pcie_aspm=off quiet")


def test_a_one_shot_entry_boots_once(tmp_path: Path) -> None:
    root = with_grub(tmp_path, "plain")
    custom(root)
    path = environment(root, next_entry="rigops-trial", rigops_arguments="a=1 b=2")
    assert boot(root).command_line == f"BOOT_IMAGE={NEW} root=UUID=1 ro a=1 b=2 iommu=pt"
    assert grub_environment.read(path)["next_entry"] == ""
    assert path.stat().st_size == 1024
    assert boot(root).title == "Debian GNU/Linux"


def test_a_one_shot_without_a_block_to_clear_would_boot_for_ever(tmp_path: Path) -> None:
    root = with_grub(tmp_path, "plain")
    (root / "boot/grub/grubenv").unlink()
    assert boot(root).title == "Debian GNU/Linux"


def test_the_entry_inside_a_submenu_can_be_the_default(tmp_path: Path) -> None:
    root = with_grub(tmp_path, "saved")
    chosen = f"gnulinux-advanced-{UUID}>gnulinux-6.1.0-37-amd64-advanced-{UUID}"
    path = environment(root, saved_entry=chosen)
    assert boot(root).kernel == OLD
    assert grub_environment.read(path)["saved_entry"] == chosen


def test_numbers_choose_too(tmp_path: Path) -> None:
    root = with_grub(tmp_path, "saved")
    environment(root, saved_entry="1>1")
    assert boot(root).title.endswith("(recovery mode)")


def test_an_entry_that_does_not_exist_means_the_first(tmp_path: Path) -> None:
    found = boot(with_grub(tmp_path, "named"))
    assert (found.title, found.failure) == ("Debian GNU/Linux, with Linux 6.1.0-50-amd64", "")


def test_the_default_may_be_an_entry_of_custom_cfg(tmp_path: Path) -> None:
    root = with_grub(tmp_path, "named")
    custom(root)
    assert boot(root).title == "rigops trial"


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda text: text[: text.index("submenu") + 40], "grub.cfg: line"),
        (lambda text: text.replace("\nfi\n", "\n", 1), "grub.cfg: line"),
        (lambda text: text.replace("quiet", "'quiet", 1), "grub.cfg: line"),
    ],
)
def test_a_configuration_that_grub_cannot_read_is_seen(
    tmp_path: Path, change: object, reason: str
) -> None:
    root = with_grub(tmp_path, "plain")
    config = root / "boot/grub/grub.cfg"
    assert callable(change)
    config.write_text(change(config.read_text()))
    assert boot(root).failure.startswith(reason)


def test_what_stands_before_the_error_still_boots(tmp_path: Path) -> None:
    root = with_grub(tmp_path, "plain")
    custom(root, "menuentry 'broken' {\n  linux /boot/vmlinuz\n")
    found = boot(root)
    assert (found.title, found.failure[:9]) == ("Debian GNU/Linux", "grub.cfg:")


def test_a_kernel_that_is_gone_is_not_booted(tmp_path: Path) -> None:
    root = with_grub(tmp_path, "plain")
    (root / "boot/vmlinuz-6.1.0-50-amd64").unlink()
    found = boot(root)
    assert found.failure == f"error: file `{NEW}' not found."


def test_no_configuration_at_all(tmp_path: Path) -> None:
    assert boot(tmp_path) == Boot("", "", "", "error: file `/boot/grub/grub.cfg' not found.")


def test_a_boot_partition_of_its_own_has_no_boot_in_its_paths(tmp_path: Path) -> None:
    root = with_grub(tmp_path, "plain")
    config = root / "boot/grub/grub.cfg"
    config.write_text(config.read_text().replace("\t/boot/", "\t/"))
    assert boot(root).kernel == "/vmlinuz-6.1.0-50-amd64"


def test_words_split_where_grub_splits_them(tmp_path: Path) -> None:
    root = with_grub(tmp_path, "plain")
    (root / "boot/grub/grub.cfg").write_text(
        'set two="a b" # a comment\n'
        "set empty=\n"
        'function entry { menuentry "$1" --id $2 { linux /boot/vmlinuz-6.1.0-50-amd64 x'
        ' $two "$two" ${empty} y\\ z"${two}" ; } }\n'
        "if [ ! -e /nothing -a x$two != x ] ; then entry title id ; else entry no no ; fi\n"
    )
    assert boot(root).command_line == f'BOOT_IMAGE={NEW} x a b "a b" "y za b"'


def test_a_block_on_a_file_system_that_grub_only_reads_is_never_cleared(tmp_path: Path) -> None:
    root = with_grub(tmp_path, "plain")
    custom(root)
    path = environment(root, next_entry="rigops-trial")
    (root / "etc/rigsim").mkdir(parents=True)
    (root / "etc/rigsim/disk").write_text("fs=btrfs\n")

    assert boot(root).title == boot(root).title == "rigops trial"
    assert grub_environment.read(path)["next_entry"] == "rigops-trial"


def test_a_block_on_the_efi_system_partition_can_be_cleared(tmp_path: Path) -> None:
    root = with_grub(tmp_path, "plain")
    block = root / "boot/efi/rigops/grubenv"
    block.parent.mkdir(parents=True)
    block.write_text((root / "boot/grub/grubenv").read_text())
    grub_environment.change(block, {"a": "1"})
    (root / "etc/rigsim").mkdir(parents=True)
    (root / "etc/rigsim/disk").write_text("fs=btrfs\nesp_uuid=4F2A-91C3\n")
    search = "search --fs-uuid --set=esp 4F2A-91C3\nload_env --file ($esp)/rigops/grubenv a\n"
    custom(root, search + "set default=$a\nset a=\nsave_env --file ($esp)/rigops/grubenv a\n")

    assert boot(root).title.startswith("Debian GNU/Linux, with Linux ")
    assert grub_environment.read(block) == {"a": ""}


@pytest.mark.parametrize(
    ("vendor", "default", "arguments", "mode"),
    [
        ("AMD", "translated", "quiet", "translated"),
        ("AMD", "translated", "iommu=pt", "passthrough"),
        ("AMD", "translated", "iommu.passthrough=1", "passthrough"),
        ("AMD", "passthrough", "iommu.passthrough=0", "translated"),
        ("AMD", "passthrough", "iommu=nopt", "translated"),
        ("AMD", "translated", "iommu=pt amd_iommu=off", "off"),
        ("AMD", "translated", "iommu=off", "off"),
        ("AMD", "translated", "amd_iommu=on intel_iommu=off iommu=soft", "translated"),
        ("AMD", "off", "iommu=pt", "off"),
        ("Intel", "off", "iommu=pt", "off"),
        ("Intel", "off", "intel_iommu=on", "translated"),
        ("Intel", "off", "intel_iommu=on,sm_on iommu=pt", "passthrough"),
        ("Intel", "translated", "intel_iommu=off", "off"),
    ],
)
def test_what_the_kernel_makes_of_its_arguments(
    vendor: str, default: str, arguments: str, mode: str
) -> None:
    facts = json.loads(rigs.load("threadripper-3x3090").hardware())
    facts["cpu"]["vendor"] = vendor
    facts["iommu"] = default
    assert kernel_arguments.iommu_mode(rig.from_json(json.dumps(facts)), arguments) == mode
