"""From power-on to a running kernel: bootloader, command line, IOMMU, buses, driver."""

from pathlib import Path

from . import (
    board,
    cuda_conf,
    driver,
    inforom,
    kernel_arguments,
    kernel_files,
    kernel_log,
    modules,
    mounts,
    paths,
    pci_tree,
    process_one,
    secure_boot,
    settings,
    topology,
)
from .grub import Boot, Grub
from .rig import Gpu, Rig, load

_DETECTOR = Path("/usr/bin/systemd-detect-virt")
_EMERGENCY = "BOOT_IMAGE=/boot/vmlinuz root=/dev/nvme0n1p2 ro"


def _start_bootloader() -> Boot:
    try:
        booted = Grub(paths.ROOT).boot()
    except (OSError, ValueError, RecursionError) as error:
        booted = Boot("", "", "", f"grub: {error}")
    paths.RUN.mkdir(parents=True, exist_ok=True)
    paths.write(paths.COMMAND_LINE, (booted.command_line or _EMERGENCY) + "\n")
    if booted.failure:
        paths.write(paths.BOOT_FAILURE, booted.failure + "\n")
    return booted


def lose(gpu: Gpu) -> None:
    """The card leaves the bus."""
    if not settings.is_lost(gpu):
        settings.put(gpu, "lost", "79")
        pci_tree.lose(gpu)
        kernel_log.card_lost(gpu)


def suffer(rig: Rig) -> None:
    """What the rig is declared to have suffered; each thing happens once."""
    for gpu in rig.gpus:
        if gpu.address in rig.lost or cuda_conf.has_fallen(rig, gpu):
            lose(gpu)
    if driver.loaded():
        inforom.remap_declared(rig)
    for function in topology.functions(rig, ""):
        if pci_tree.count_errors(function, rig.aer.get(function.address, 0)):
            identity = f"{function.identity.vendor:04x}:{function.identity.device:04x}"
            is_root = function.kind == "root"
            kernel_log.corrected_errors(function.address, identity, is_root=is_root)


def boot(*, cover: bool) -> None:
    """cover: lay the trees over /sys and /proc of a host; a test's tree is written directly."""
    _start_bootloader()
    rig = load()
    command_line = paths.read(paths.COMMAND_LINE)
    mode = kernel_arguments.iommu_mode(rig, command_line)
    paths.write(paths.IOMMU, mode + "\n")
    version = driver.at_boot(rig)
    nouveau = "" if version or modules.nouveau_refused() else "nouveau"
    trees = paths.RUN / "trees/sys" if cover else paths.SYS
    pci_tree.write(trees, rig, nouveau, mode)
    board.write(trees, rig)
    if rig.has_secure_boot:
        secure_boot.lay_out(trees)
    if cover:
        mounts.lay_out(trees)
        kernel_files.lay_out()
        mounts.bind(paths.INSTALLED / "bin" / _DETECTOR.name, _DETECTOR)
        process_one.obey(command_line)
    kernel_log.boot(rig, mode, command_line)
    if rig.has_secure_boot and modules.on_disk() and not version:
        kernel_log.module_rejected()
    if nouveau:
        kernel_log.held_by_nouveau(rig)
    if version:
        driver.load(rig, version)
        for gpu in rig.gpus if rig.persistence else ():
            settings.put(gpu, "persistence", "1")
    suffer(rig)
    cuda_conf.write(rig)
