"""The kernel's messages of this boot, and their way into the journal."""

import fcntl
import subprocess
import time
from pathlib import Path

from . import kernel_arguments, paths, topology
from .rig import Gpu, Rig

_IMPORTER = "/lib/systemd/systemd-journal-remote"
_INFO, _NOTICE, _WARNING = 6, 5, 4


def _now() -> int:
    """Microseconds on the clock that the journal orders a boot by."""
    return time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000


def add(*messages: str, priority: int = _INFO) -> None:
    paths.KERNEL_LOG.parent.mkdir(parents=True, exist_ok=True)
    now = _now()
    with paths.KERNEL_LOG.open("a") as file:
        for number, message in enumerate(messages):
            file.write(f"{now + number} {priority} {message}\n")


def _iommu(rig: Rig, mode: str, command_line: str) -> list[str]:
    asked = kernel_arguments.mode_was_asked_for(command_line)
    how = " (set via kernel command line)" if asked else ""
    # Printed whether or not there is an IOMMU; only "Adding to iommu group" proves one.
    kind = "Passthrough" if mode == "passthrough" else "Translated"
    lines = [f"iommu: Default domain type: {kind}{how}"]
    if mode == "translated":
        lines.append("iommu: DMA domain TLB invalidation policy: lazy mode")
    if mode == "off":
        return lines
    if rig.is_intel:
        lines.insert(0, "DMAR: IOMMU enabled")
    else:
        lines.append("pci 0000:00:00.2: AMD-Vi: IOMMU performance counters supported")
    groups = topology.groups(topology.functions(rig, ""))
    lines += [f"pci {address}: Adding to iommu group {group}" for address, group in groups.items()]
    if not rig.is_intel:
        lines.append("pci 0000:00:00.2: AMD-Vi: Found IOMMU cap 0x40")
        lines.append("AMD-Vi: Interrupt remapping enabled")
    return lines


def boot(rig: Rig, mode: str, command_line: str) -> None:
    board, version = rig.board.get("name", ""), rig.board.get("bios_version", "")
    lines = [
        f"Command line: {command_line}",
        f"Kernel command line: {command_line}",
        f"DMI: {rig.board.get('vendor', '')} {board}/{board}, BIOS {version} 04/20/2023",
        f"smpboot: Allowing {rig.threads} CPUs, 0 hotplug CPUs",
        f"smpboot: CPU0: {rig.cpu.get('model', '')}",
        "acpi PNP0A08:00: _OSC: OS now controls [PCIeHotplug PME AER PCIeCapability LTR]",
    ]
    for function in topology.functions(rig, ""):
        identity = function.identity
        lines.append(
            f"pci {function.address}: [{identity.vendor:04x}:{identity.device:04x}] type"
            f" {'01' if function.buses else '00'} class 0x{identity.pci_class:06x}"
        )
    add(*lines, *_iommu(rig, mode, command_line))


def driver_loaded(rig: Rig, banner: str) -> None:
    add(
        "nvidia: loading out-of-tree module taints kernel.",
        "nvidia: module license 'NVIDIA' taints kernel.",
        "nvidia: module verification failed: signature and/or required key missing"
        " - tainting kernel",
        "nvidia-nvlink: Nvlink Core is being initialized, major device number 241",
    )
    add(
        *(f"nvidia {gpu.address}: enabling device (0000 -> 0003)" for gpu in rig.gpus),
        f"NVRM: loading {banner}",
        f"nvidia-modeset: Loading {banner.replace('Kernel Module', 'Kernel Mode Setting Driver')}",
        *(
            f"[drm] Initialized nvidia-drm 0.0.0 20160202 for {gpu.address} on minor {gpu.number}"
            for gpu in rig.gpus
        ),
        "nvidia-uvm: Loaded the UVM driver, major device number 511.",
    )


def card_lost(gpu: Gpu) -> None:
    slot = gpu.address.rpartition(".")[0]
    add(
        f"NVRM: GPU at PCI:{slot}: {gpu.uuid}",
        f"NVRM: Xid (PCI:{slot}): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.",
        f"NVRM: GPU {gpu.address}: GPU has fallen off the bus.",
        priority=_NOTICE,
    )


def row_marked(gpu: Gpu) -> None:
    slot = gpu.address.rpartition(".")[0]
    add(
        f"NVRM: GPU at PCI:{slot}: {gpu.uuid}",
        f"NVRM: Xid (PCI:{slot}): 63, pid=0, name=<unknown>, Row Remapper: New row"
        " (0x0000000002e1e8b3) marked for remapping, reset gpu to activate.",
        priority=_NOTICE,
    )


def corrected_errors(address: str, identity: str, *, is_root: bool) -> None:
    who = f"pcieport {address}" if is_root else f"nvidia {address}"
    add(
        f"{who}: AER: Corrected error message received from {address}",
        f"{who}: PCIe Bus Error: severity=Corrected, type=Data Link Layer, (Receiver ID)",
        f"{who}:   device [{identity}] error status/mask=00000040/00006000",
        f"{who}:    [ 6] BadTLP                ",
        priority=_WARNING,
    )


def other_client(client: str, loaded: str) -> None:
    add(
        f"NVRM: API mismatch: the client has the version {client}, but",
        f"NVRM: this kernel module has the version {loaded}.  Please",
        "NVRM: make sure that this kernel module and all NVIDIA driver",
        "NVRM: components have the same version.",
        priority=_WARNING,
    )


def module_rejected() -> None:
    add("Loading of module with unavailable key is rejected", priority=_NOTICE)


def held_by_nouveau(rig: Rig) -> None:
    add(*(f"nouveau {gpu.address}: enabling device (0000 -> 0003)" for gpu in rig.gpus))


def _export(lines: list[str], boot: str, machine: str) -> str:
    offset = time.time_ns() // 1000 - _now()
    entries = []
    for line in lines:
        moment, priority, message = line.split(" ", 2)
        entries.append(
            f"__REALTIME_TIMESTAMP={int(moment) + offset}\n__MONOTONIC_TIMESTAMP={moment}\n"
            f"_BOOT_ID={boot}\n_MACHINE_ID={machine}\n_HOSTNAME={paths.read(paths.at('/etc/hostname'))}\n"
            f"_TRANSPORT=kernel\nSYSLOG_FACILITY=0\nSYSLOG_IDENTIFIER=kernel\n"
            f"_SOURCE_MONOTONIC_TIMESTAMP={moment}\nPRIORITY={priority}\nMESSAGE={message}\n\n"
        )
    return "".join(entries)


def _journal(machine: str, boot: str) -> Path:
    persistent = paths.at("/var/log/journal") / machine
    folder = persistent if persistent.is_dir() else paths.at("/run/log/journal") / machine
    folder.mkdir(parents=True, exist_ok=True)
    return folder / f"rigsim-{boot}.journal"


def import_new() -> None:
    """Hands to the journal what it has not got yet."""
    paths.RUN.mkdir(parents=True, exist_ok=True)
    with (paths.RUN / "kernel-log.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        _import_new()


def _import_new() -> None:
    done_file = paths.RUN / "kernel-log.imported"
    done = int(paths.read(done_file) or 0)
    lines = paths.read(paths.KERNEL_LOG).splitlines()
    if len(lines) <= done or not Path(_IMPORTER).exists():
        return
    boot = paths.read(paths.PROC / "sys/kernel/random/boot_id").replace("-", "")
    machine = paths.read(paths.at("/etc/machine-id"))
    paths.write(done_file, f"{len(lines)}\n")
    subprocess.run(
        [_IMPORTER, "-o", str(_journal(machine, boot)), "-"],
        input=_export(lines[done:], boot, machine).encode(),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        check=False,
    )
