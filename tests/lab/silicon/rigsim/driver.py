"""The life of the kernel driver: loaded, unloaded, and what the kernel shows of it."""

import os
import shutil
import stat

from . import (
    cuda_conf,
    inforom,
    kernel_files,
    kernel_log,
    modules,
    paths,
    pci_tree,
    secure_boot,
    settings,
)
from .rig import Gpu, Rig

_SYS_MODULES = ("nvidia", "nvidia_modeset", "nvidia_drm", "nvidia_uvm")
_PARAMETERS = {
    "ResmanDebugLevel": "4294967295", "RmLogonRC": "1", "ModifyDeviceFiles": "1",
    "DeviceFileUID": "0", "DeviceFileGID": "0", "DeviceFileMode": "438",
    "InitializeSystemMemoryAllocations": "1", "UsePageAttributeTable": "4294967295",
    "EnableMSI": "1", "EnablePCIeGen3": "0", "MemoryPoolSize": "0", "KMallocHeapMaxSize": "0",
    "VMallocHeapMaxSize": "0", "IgnoreMMIOCheck": "0", "TCEBypassMode": "0",
    "EnableStreamMemOPs": "0", "EnableUserNUMAManagement": "1", "NvLinkDisable": "0",
    "RmProfilingAdminOnly": "1", "PreserveVideoMemoryAllocations": "0",
    "EnableS0ixPowerManagement": "0", "S0ixPowerManagementVideoMemoryThreshold": "256",
    "DynamicPowerManagement": "3", "DynamicPowerManagementVideoMemoryThreshold": "200",
    "RegisterPCIDriver": "1", "EnablePCIERelaxedOrdering": "0", "EnableResizableBar": "0",
    "EnableGpuFirmware": "18", "EnableGpuFirmwareLogs": "2", "EnableDbgBreakpoint": "0",
    "OpenRmEnableUnsupportedGpus": "1", "DmaRemapPeerMmio": "1", "RegistryDwords": '""',
    "RegistryDwordsPerDevice": '""', "RmMsg": '""', "GpuBlacklist": '""',
    "TemporaryFilePath": '""', "ExcludedGpus": '""',
}  # fmt: skip
_BUILT = {
    "535.183.01": "Sun May 12 19:39:15 UTC 2024",
    "535.261.03": "Fri Jun 20 17:15:51 UTC 2025",
    "545.29.06": "Thu Nov 16 01:59:08 UTC 2023",
    "550.163.01": "Tue Apr  8 12:41:17 UTC 2025",
}
_CHARACTER_MAJOR, _UVM_MAJOR = 195, 511


def loaded() -> str:
    return paths.read(paths.DRIVER)


def _information(gpu: Gpu) -> str:
    return (
        f"Model: \t\t {gpu.model.product}\nIRQ:   \t\t {80 + gpu.number}\n"
        f"GPU UUID: \t {gpu.uuid}\nVideo BIOS: \t {gpu.vbios}\nBus Type: \t PCIe\n"
        f"DMA Size: \t 47 bits\nDMA Mask: \t 0x7fffffffffff\nBus Location: \t {gpu.address}\n"
        f"Device Minor: \t {gpu.number}\nGPU Firmware: \t N/A\nGPU Excluded:\t No\n"
    )


def banner(version: str) -> str:
    built = _BUILT.get(version, "Wed Jul  2 18:06:33 UTC 2025")
    if modules.is_open():
        return f"NVIDIA UNIX Open Kernel Module for x86_64  {version}  Release Build  {built}"
    return f"NVIDIA UNIX x86_64 Kernel Module  {version}  {built}"


def _write_proc(rig: Rig, version: str) -> None:
    base = paths.PROC / "driver/nvidia"
    base.mkdir(parents=True, exist_ok=True)
    (base / "version").write_text(
        f"NVRM version: {banner(version)}\nGCC version:  gcc version 12.2.0 (Debian 12.2.0-14) \n"
    )
    asked = modules.options("nvidia") | modules.options("nvidia-current")
    values = dict(_PARAMETERS)
    for name, value in asked.items():
        short = name.removeprefix("NVreg_")
        text = values.get(short, "").startswith('"')
        values[short] = '"' + value.strip('"') + '"' if text else value
    (base / "params").write_text("".join(f"{name}: {value}\n" for name, value in values.items()))
    for gpu in rig.gpus:
        folder = base / "gpus" / gpu.address
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "information").write_text(_information(gpu))


def _write_modules(version: str) -> None:
    for name in _SYS_MODULES:
        folder = paths.SYS / "module" / name
        (folder / "parameters").mkdir(parents=True, exist_ok=True)
        (folder / "initstate").write_text("live\n")
        (folder / "refcnt").write_text("0\n")
        (folder / "taint").write_text("POE\n")
        (folder / "version").write_text(version + "\n")
    hidden = modules.options("nvidia_uvm").get("uvm_disable_hmm", "0")
    disabled = "Y" if hidden in ("1", "y", "Y") else "N"
    (paths.SYS / "module/nvidia_uvm/parameters/uvm_disable_hmm").write_text(disabled + "\n")


def _node(name: str, major: int, minor: int) -> None:
    path = paths.DEV / name
    path.unlink(missing_ok=True)
    try:
        os.mknod(path, stat.S_IFCHR | 0o666, os.makedev(major, minor))
    except OSError:
        # A container that may not make device nodes: the name is what matters.
        path.touch()
    path.chmod(0o666)


def _nodes(rig: Rig) -> list[tuple[str, int, int]]:
    cards = [(f"nvidia{gpu.number}", _CHARACTER_MAJOR, gpu.number) for gpu in rig.gpus]
    common = [("nvidiactl", _CHARACTER_MAJOR, 255), ("nvidia-modeset", _CHARACTER_MAJOR, 254)]
    return [*cards, *common, ("nvidia-uvm", _UVM_MAJOR, 0), ("nvidia-uvm-tools", _UVM_MAJOR, 1)]


def load(rig: Rig, version: str) -> None:
    paths.write(paths.DRIVER, version + "\n")
    settings.forget_all(rig)
    _write_proc(rig, version)
    _write_modules(version)
    paths.DEV.mkdir(parents=True, exist_ok=True)
    for name, major, minor in _nodes(rig):
        _node(name, major, minor)
    pci_tree.bind_cards(rig, "nvidia")
    kernel_files.driver_loaded(version, is_open=modules.is_open())
    kernel_log.driver_loaded(rig, banner(version))
    inforom.activate(rig)
    cuda_conf.write(rig)


def unload(rig: Rig) -> None:
    paths.DRIVER.unlink(missing_ok=True)
    settings.forget_all(rig)
    shutil.rmtree(paths.PROC / "driver/nvidia", ignore_errors=True)
    for name in _SYS_MODULES:
        shutil.rmtree(paths.SYS / "module" / name, ignore_errors=True)
    for name, _, _ in _nodes(rig):
        (paths.DEV / name).unlink(missing_ok=True)
    pci_tree.bind_cards(rig, "")
    kernel_files.driver_unloaded()
    cuda_conf.write(rig)


def at_boot(rig: Rig) -> str:
    """The version that loads by itself; empty for none."""
    if modules.refused():
        return ""
    module = modules.path()
    if rig.has_secure_boot and module and not secure_boot.takes(module):
        return ""
    return modules.on_disk()
