"""Rigs in texts, for the checks of the kernel module: one that is well, and broken ones."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

from tests.unit.doctor.examining import EVERY_CONCERN, checks_of, judge
from tests.unit.probe import answers

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from rigops.doctor.finding import Finding
    from rigops.inventory.spec import RigSpec

CHECKS = checks_of(
    "drv.loaded",
    "drv.dkms",
    "drv.mismatch",
    "drv.flavor",
    "drv.patched",
    "drv.headers",
    "drv.secureboot",
    "drv.nouveau",
    "drv.hang",
    "drv.uvm_nodes",
    "drv.params",
    "drv.persist",
)

KERNEL, NEXT = "6.1.0-18-amd64", "6.1.0-20-amd64"
DRIVER = "535.261.03"

_GPU = """
<gpu id="00000000:{address}:00.0">
  <product_name>NVIDIA GeForce RTX 3090</product_name>
  <persistence_mode>{persistence}</persistence_mode>
</gpu>"""


def smi(*persistence: str, driver: str = DRIVER) -> str:
    cards = (
        _GPU.format(address=address, persistence=state)
        for address, state in zip(("0A", "0B"), persistence, strict=False)
    )
    return (
        '<?xml version="1.0" ?>\n<nvidia_smi_log>\n'
        f"<driver_version>{driver}</driver_version>\n<cuda_version>12.2</cuda_version>\n"
        f"<attached_gpus>{len(persistence)}</attached_gpus>{''.join(cards)}\n</nvidia_smi_log>\n"
    )


def modinfo(
    kernel: str, *, version: str = DRIVER, license_: str = "NVIDIA", signer: str = ""
) -> str:
    signed = f"sig_id:         PKCS#7\nsigner:         {signer}\n" if signer else ""
    return (
        f"== modinfo -k {kernel} nvidia-current\n"
        f"filename:       /lib/modules/{kernel}/updates/dkms/nvidia-current.ko\n"
        f"version:        {version}\nlicense:        {license_}\n"
        "srcversion:     0123456789ABCDEF0123456\n"
        f"vermagic:       {kernel} SMP preempt mod_unload modversions \n{signed}"
    )


def without_module(kernel: str) -> str:
    return f"== modinfo -k {kernel} nvidia\nmodinfo: ERROR: Module nvidia not found.\n"


def dkms(*kernels: str, version: str = DRIVER) -> str:
    trees = "".join(f"/lib/modules/{kernel}/build\n" for kernel in (KERNEL, NEXT))
    built = "".join(f"nvidia-current/{version}, {one}, x86_64: installed\n" for one in kernels)
    return f"== ls -d /lib/modules/*/build\n{trees}== dkms status\n{built}"


def lspci(driver: str = "", modules: str = "nvidiafb, nouveau, nvidia") -> str:
    in_use = f"\tKernel driver in use: {driver}\n" if driver else ""
    return (
        "0000:01:00.0 VGA compatible controller [0300]: NVIDIA Corporation GA102 "
        "[GeForce RTX 3090] [10de:2204] (rev a1)\n"
        f"\tSubsystem: NVIDIA Corporation Device [10de:147d]\n{in_use}"
        f"\tKernel modules: {modules}\n"
    )


def uname(kernel: str) -> str:
    return f"Linux rig {kernel} #1 SMP PREEMPT_DYNAMIC x86_64 GNU/Linux\n"


NODES = """\
== /proc/devices
195 nvidia-frontend
511 nvidia-uvm
== ls -ln nvidia-modprobe
-rwsr-xr-x 1 0 0 42688 Jan  1  2024 /usr/bin/nvidia-modprobe
== ls -lnd /dev/nvidia* /dev/dri/render*
crw-rw-rw- 1 0 0 195,   0 Nov 21 10:00 /dev/nvidia0
crw-rw-rw- 1 0 0 195,   1 Nov 21 10:00 /dev/nvidia1
drwxr-xr-x 2 0 0       80 Nov 21 10:00 /dev/nvidia-caps
crw-rw-rw- 1 0 0 511,   0 Nov 21 10:00 /dev/nvidia-uvm
crw-rw-rw- 1 0 0 195, 255 Nov 21 10:00 /dev/nvidiactl
crw-rw---- 1 0 105 226, 128 Nov 21 10:00 /dev/dri/renderD128
"""
PARAMS = """\
ResmanDebugLevel: 4294967295
ModifyDeviceFiles: 1
DeviceFileMode: 438
EnableGpuFirmware: 18
EnableResizableBar: 0
RegistryDwords: "PowerMizerEnable=0x1;"
RmMsg: ""
"""
TASKS = """\
== cat /proc/[0-9]*/stat
pid=501 state=S cpu=1 wchan=irq_thread comm=irq/57-nvidia
== ls -l /proc/[0-9]*/fd
pid=913 comm=nvidia-persiste
"""
LOG = f"""\
[    0.000000] Linux version {KERNEL} (debian-kernel@lists.debian.org)
[    4.188007] nvidia: module verification failed: signature and/or required key missing - \
tainting kernel
[    4.501120] NVRM: loading NVIDIA UNIX x86_64 Kernel Module  {DRIVER}  Mon Jul 1 12:00:00 UTC 2024
"""
PACKAGES = f"""\
== dpkg-query -W
linux-image-{KERNEL}\t6.1.76-1\tamd64\tii{" "}
linux-image-{NEXT}\t6.1.85-1\tamd64\tii{" "}
libcuda1\t{DRIVER}-1\tamd64\tii{" "}
libcuda1\t470.256.02-1\ti386\tii{" "}
nvidia-kernel-dkms\t{DRIVER}-1\tamd64\tii{" "}
"""
MATRIX = answers.MATRIX.format("CNS")
TOPOLOGY = "\tGPU0\tGPU1\tCPU Affinity\nGPU0\t X \tPHB\t0-11\nGPU1\tPHB\t X \t0-11\n\nLegend:\n"
NVLINK = "GPU 0: NVIDIA GeForce RTX 3090 (UUID: GPU-1)\n"
WELL: Mapping[str, str] = MappingProxyType(
    {
        "uname": uname(KERNEL),
        "proc-cmdline": answers.CMDLINE,
        "pci": answers.PCI,
        "nvidia-version": answers.VERSION.format(DRIVER),
        "nvidia-params": PARAMS,
        "nvidia-modinfo": modinfo(KERNEL) + modinfo(NEXT),
        "dkms": dkms(KERNEL, NEXT),
        "secure-boot": "== mokutil --sb-state\nSecureBoot disabled\n",
        "dev-nodes": NODES,
        "processes": TASKS,
        "bootloader": answers.GRUB,
        "packages": PACKAGES,
        "kernel-log": LOG,
        "nvidia-smi-xml": smi("Enabled", "Enabled"),
        "nvidia-smi-topo": TOPOLOGY,
        "nvidia-smi-p2p-read": MATRIX,
        "nvidia-smi-p2p-write": MATRIX,
        "nvidia-smi-p2p-nvlink": MATRIX,
        "nvidia-smi-p2p-atomics": MATRIX,
        "nvidia-smi-nvlink": NVLINK,
    }
)

_NO_DRIVER = (
    "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make sure that "
    "the latest NVIDIA driver is installed and running.\n\n"
)
LOCKDOWN = (
    "[    3.812345] Lockdown: systemd-udevd: unsigned module loading is restricted; see man "
    "kernel_lockdown.7\n"
)
UBUNTU = "5.4.0-135-generic"
# Four machines on which nvidia-smi says the same.
REFUSED: Mapping[str, str] = MappingProxyType(
    {
        "uname": uname(UBUNTU),
        "lspci": lspci(),
        "dkms": f"nvidia, 515.86.01, {UBUNTU}, x86_64: installed\n",
        "secure-boot": "SecureBoot enabled\n",
        "kernel-log": LOCKDOWN,
    }
)
OTHER_KERNEL: Mapping[str, str] = MappingProxyType(
    {
        "uname": uname("5.4.0-132-generic"),
        "proc-cmdline": "BOOT_IMAGE=/vmlinuz-5.4.0-132-generic root=/dev/sda2 recovery nomodeset\n",
        "lspci": lspci(),
        "dkms": f"nvidia, 515.86.01, {UBUNTU}, x86_64: installed\n",
        "kernel-log": "[    1.000000] Linux version 5.4.0-132-generic\n",
    }
)
TAKEN: Mapping[str, str] = MappingProxyType(
    {
        "uname": uname(UBUNTU),
        "lspci": lspci("nouveau"),
        "dkms": f"nvidia, 515.86.01, {UBUNTU}, x86_64: installed\n",
        "kernel-log": "[    6.100000] NVRM: The NVIDIA probe routine was not called for 1 "
        "device(s).\n",
    }
)
UNBUILT: Mapping[str, str] = MappingProxyType(
    {
        "uname": uname("6.8.0-36-generic"),
        "lspci": lspci(),
        "dkms": "nvidia/545.29.06: added\n",
        "secure-boot": "SecureBoot enabled\n",
        "kernel-log": "[    0.000000] secureboot: Secure boot enabled\n",
    }
)
SILENT: Mapping[str, str] = MappingProxyType({**UNBUILT, "nvidia-smi-xml": _NO_DRIVER})


def find(
    sections: Mapping[str, str | None],
    declared: RigSpec | None = None,
    *,
    codes: Mapping[str, int] = MappingProxyType({}),
    timed_out: Collection[str] = (),
    concerns: frozenset[str] = EVERY_CONCERN,
) -> list[Finding]:
    """What all checks of the module find. A `code` is that with which a section ended."""
    return judge(
        sections, declared, checks=CHECKS, codes=codes, timed_out=timed_out, concerns=concerns
    )


def one(found: list[Finding], check: str) -> Finding:
    (finding,) = [each for each in found if each.id == check]
    return finding


def statuses(found: list[Finding]) -> dict[str, str]:
    return {each.id: each.status for each in found}
