"""The kernel's view of the PCI functions: /sys/devices/pci*, /sys/bus/pci, IOMMU groups."""

import os
import shutil
from pathlib import Path

from . import paths, settings, topology
from .pci_config import Bar, gone
from .rig import Gpu, Rig
from .topology import Function

_SPEEDS = {
    1: "2.5 GT/s PCIe", 2: "5.0 GT/s PCIe", 3: "8.0 GT/s PCIe",
    4: "16.0 GT/s PCIe", 5: "32.0 GT/s PCIe",
}  # fmt: skip
_CORRECTABLE = (
    "RxErr", "BadTLP", "BadDLLP", "Rollover", "Timeout", "NonFatalErr", "CorrIntErr", "HeaderOF",
)  # fmt: skip
_UNCORRECTABLE = (
    "Undefined", "DLP", "SDES", "TLP", "FCP", "CmpltTO", "CmpltAbrt", "UnxCmplt", "RxOF",
    "MalfTLP", "ECRC", "UnsupReq", "ACSViol", "UncorrIntErr", "BlockedTLP", "AtomicOpBlocked",
    "TLPBlockedErr", "PoisonTLPBlocked",
)  # fmt: skip
_FLAGS = {"memory": 0x40200, "prefetchable": 0x14220C, "io": 0x40101}
_LINES_OF_RESOURCE = 13
_GROUP_TYPES = {"translated": "DMA-FQ", "passthrough": "identity"}


def _link(path: Path, target: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    path.symlink_to(os.path.relpath(target, path.parent))


def _counters(names: tuple[str, ...], total: str, **counted: int) -> str:
    lines = [f"{name} {counted.get(name, 0)}\n" for name in names]
    return "".join(lines) + f"TOTAL_ERR_{total} {sum(counted.values())}\n"


def _resource(bars: tuple[Bar, ...]) -> str:
    lines = ["0x0000000000000000 0x0000000000000000 0x0000000000000000"] * _LINES_OF_RESOURCE
    for bar in bars:
        end = bar.address + bar.size - 1
        lines[bar.number] = f"0x{bar.address:016x} 0x{end:016x} 0x{_FLAGS[bar.kind]:016x}"
    return "\n".join(lines) + "\n"


def _cpus_of(rig: Rig, numa: int) -> str:
    nodes = len({gpu.numa for gpu in rig.gpus if gpu.numa >= 0}) or 1
    share = rig.threads // nodes
    start = share * max(numa, 0)
    return f"{start}-{start + share - 1}" if numa >= 0 else f"0-{rig.threads - 1}"


def _attributes(rig: Rig, function: Function, irq: int) -> dict[str, str]:
    identity = function.identity
    files = {
        "vendor": f"0x{identity.vendor:04x}",
        "device": f"0x{identity.device:04x}",
        "subsystem_vendor": f"0x{identity.subsystem_vendor:04x}",
        "subsystem_device": f"0x{identity.subsystem_device:04x}",
        "class": f"0x{identity.pci_class:06x}",
        "revision": f"0x{identity.revision:02x}",
        "irq": str(irq),
        "numa_node": str(function.numa),
        "local_cpulist": _cpus_of(rig, function.numa),
        "enable": "1",
        "power_state": "D0",
        "resource": _resource(function.bars).rstrip("\n"),
    }
    if function.link:
        link = function.link
        files |= {
            "current_link_speed": _SPEEDS[link.generation],
            "current_link_width": str(link.width),
            "max_link_speed": _SPEEDS[link.max_generation],
            "max_link_width": str(link.max_width),
            "aer_dev_correctable": _counters(_CORRECTABLE, "COR").rstrip("\n"),
            "aer_dev_fatal": _counters(_UNCORRECTABLE, "FATAL").rstrip("\n"),
            "aer_dev_nonfatal": _counters(_UNCORRECTABLE, "NONFATAL").rstrip("\n"),
        }
    if function.kind == "root":
        files |= dict.fromkeys(
            ("aer_rootport_total_err_cor", "aer_rootport_total_err_fatal",
             "aer_rootport_total_err_nonfatal"), "0",
        )  # fmt: skip
    if identity.pci_class == 0x030000:
        files["boot_vga"] = str(int(function.gpu is not None and function.gpu.number == 0))
    return files


def _write_function(sys: Path, rig: Rig, function: Function, number: int, mode: str) -> None:
    folder = sys / function.folder
    power = folder / "power"
    power.mkdir(parents=True, exist_ok=True)
    for name, text in _attributes(rig, function, 24 + number).items():
        (folder / name).write_text(text + "\n")
    (power / "control").write_text("on\n" if function.gpu or not function.buses else "auto\n")
    (power / "runtime_status").write_text("active\n")
    identity = function.identity
    (folder / "uevent").write_text(
        f"PCI_CLASS={identity.pci_class:X}\nPCI_ID={identity.vendor:04X}:{identity.device:04X}\n"
        f"PCI_SUBSYS_ID={identity.subsystem_vendor:04X}:{identity.subsystem_device:04X}\n"
        f"PCI_SLOT_NAME={function.address}\n"
    )
    (folder / "config").write_bytes(topology.config(function, redirect=mode != "off"))
    for bar in function.bars:
        _region(folder, bar)
    _link(folder / "subsystem", sys / "bus/pci")
    _link(sys / "bus/pci/devices" / function.address, folder)
    _bind(sys, function, function.driver)


def _region(folder: Path, bar: Bar) -> None:
    """Of the size of the region, without its content."""
    names = [f"resource{bar.number}"]
    if bar.kind == "prefetchable":
        names.append(names[0] + "_wc")
    for name in names:
        with (folder / name).open("wb") as file:
            file.truncate(bar.size)
        (folder / name).chmod(0o600)


def _bind(sys: Path, function: Function, driver: str) -> None:
    drivers = sys / "bus/pci/drivers"
    for name in ("nvidia", "nouveau", function.driver):
        if name:
            (drivers / name / function.address).unlink(missing_ok=True)
    link = sys / function.folder / "driver"
    link.unlink(missing_ok=True)
    if driver:
        _link(link, drivers / driver)
        _link(drivers / driver / function.address, sys / function.folder)


def _write_groups(sys: Path, found: list[Function], mode: str) -> None:
    base = sys / "kernel/iommu_groups"
    base.mkdir(parents=True, exist_ok=True)
    if mode == "off":
        return
    numbers = topology.groups(found)
    for function in found:
        group = base / str(numbers[function.address])
        folder = sys / function.folder
        _link(group / "devices" / function.address, folder)
        (group / "type").write_text(_GROUP_TYPES[mode] + "\n")
        (group / "reserved_regions").write_text("0x00000000fee00000 0x00000000feefffff msi\n")
        _link(folder / "iommu_group", group)


def write(sys: Path, rig: Rig, driver: str, mode: str) -> None:
    """The whole tree below sys, for the driver that holds the cards and the IOMMU's mode."""
    for folder in ("bus/pci", "kernel/iommu_groups"):
        shutil.rmtree(sys / folder, ignore_errors=True)
    (sys / "bus/pci/slots").mkdir(parents=True)
    found = topology.functions(rig, driver)
    for number, function in enumerate(found):
        _write_function(sys, rig, function, number, mode)
    _write_groups(sys, found, mode)


def bind_cards(rig: Rig, driver: str) -> None:
    for function in topology.functions(rig, driver):
        if function.gpu and not settings.is_lost(function.gpu):
            _bind(paths.SYS, function, driver)


def count_errors(function: Function, count: int) -> bool:
    """Bad packets that the function has seen until now; whether that is news."""
    folder = paths.SYS / function.folder
    names = {"aer_dev_correctable": _counters(_CORRECTABLE, "COR", BadTLP=count)}
    if function.kind == "root":
        names["aer_rootport_total_err_cor"] = f"{count}\n"
    counted = folder / "aer_dev_correctable"
    if not counted.exists() or counted.read_text() == names["aer_dev_correctable"]:
        return False
    for name, text in names.items():
        (folder / name).write_text(text)
    return count > 0


def lose(gpu: Gpu) -> None:
    """The card answers nothing any more; what the kernel read at boot stays."""
    for link in (paths.SYS / "bus/pci/devices").glob(gpu.address.rpartition(".")[0] + ".*"):
        folder = link.resolve()
        (folder / "config").write_bytes(gone())
        (folder / "current_link_speed").write_text("Unknown\n")
        (folder / "current_link_width").write_text("63\n")
