"""Machines whose trouble is known, rebuilt from what their owners wrote down."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from rigops.doctor.registry import examine
from rigops.doctor.stories import put_together
from rigops.probe.snapshot import HostSnapshot
from tests.unit.doctor.examining import EVERY_CONCERN, catalog
from tests.unit.probe import answers

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rigops.doctor.finding import Finding

CLOSED = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  {}  Wed Oct 26 09:12:38 UTC 2022\n"
OPEN = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  {}  Release Build  (root@rig)\n"


def cards(name: str, device: str, *addresses: str, rev: str = "a1") -> str:
    return "".join(
        f"{address} VGA compatible controller [0300]: NVIDIA Corporation {name} [10de:{device}] "
        f"(rev {rev})\n\tLnkCap:\tPort #0, Speed 16GT/s, Width x16\n"
        f"\tLnkSta:\tSpeed 2.5GT/s (downgraded), Width x16\n\tKernel driver in use: nvidia\n\n"
        for address in addresses
    )


def bridge(address: str, bus: str, acs: str, name: str) -> str:
    return (
        f"{address} PCI bridge [0604]: {name} (rev 01) (prog-if 00 [Normal decode])\n"
        f"\tBus: primary=00, secondary={bus}, subordinate={bus}, sec-latency=0\n"
        "\tCapabilities: [58] Express (v2) Root Port (Slot+), MSI 00\n"
        f"\tCapabilities: [2a0 v1] Access Control Services\n\t\tACSCtl:\t{acs}\n\n"
    )


REDIRECTING = "SrcValid+ TransBlk- ReqRedir+ CmpltRedir+ UpstreamFwd+ EgressCtrl- DirectTrans-"
AMD_PORT = "Advanced Micro Devices, Inc. [AMD] Starship/Matisse GPP Bridge [1022:1483]"
PEX = "Broadcom / LSI PEX890xx PCIe Gen 5 Switch [1000:c030]"
MATRIX = answers.MATRIX.format("OK")
FAULT = (
    "[  312.4] nvidia 0000:41:00.0: AMD-Vi: Event logged [IO_PAGE_FAULT domain=0x000e "
    "address=0xd0139068 flags=0x0030]"
)
BOOTED = "[    0.000000] Linux version 5.15.0-60-generic\n"
NO_DRIVER = (
    "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make sure that "
    "the latest NVIDIA driver is installed and running.\n"
)
TRANSLATED = "25 DMA-FQ 0000:41:00.0\n26 DMA-FQ 0000:61:00.0\n"
UNBOUND = cards("GA102 [GeForce RTX 3090]", "2204", "0000:41:00.0").replace(
    "\tKernel driver in use: nvidia\n", ""
)

MACHINES: Mapping[str, tuple[str, Mapping[str, str]]] = {
    "1: a driver that offers P2P which the 4090 does not have": (
        "drv.pin",
        {
            "lspci": cards("AD102 [GeForce RTX 4090]", "2684", "0000:41:00.0", "0000:61:00.0"),
            "nvidia-version": CLOSED.format("525.60.13"),
            "nvidia-smi-p2p-read": MATRIX,
            "kernel-log": f"{BOOTED}{FAULT}\n[  320.1] AMD-Vi: IOMMU event log overflow\n"
            "[  330.0] NVRM: GPU 0000:41:00.0: RmInitAdapter failed! (0x25:0x65:1461)\n",
            "iommu-groups": TRANSLATED,
        },
    ),
    "3: page faults under load": (
        "iommu.mode",
        {
            "lspci": cards("GA102 [GeForce RTX 3090]", "2204", "0000:41:00.0", "0000:61:00.0"),
            "nvidia-version": CLOSED.format("580.95.05"),
            "kernel-log": f"{BOOTED}{FAULT}\n[  313.0] NVRM: Xid (PCI:0000:41:00): 154, GPU "
            "recovery action changed from 0x0 (None) to 0x2 (Node Reboot Required)\n",
            "iommu-groups": TRANSLATED,
        },
    ),
    "4: root ports that redirect between professional cards": (
        "acs.path",
        {
            "lspci": bridge("0000:40:01.1", "41", REDIRECTING, AMD_PORT)
            + bridge("0000:60:01.1", "61", REDIRECTING, AMD_PORT)
            + cards("AD102GL [RTX 5880 Ada]", "26b3", "0000:41:00.0", "0000:61:00.0"),
        },
    ),
    "6: a switch that redirects": (
        "acs.path",
        {
            "lspci": bridge("0000:00:01.1", "01", REDIRECTING, AMD_PORT)
            + bridge("0000:01:00.0", "02", REDIRECTING, PEX)
            + bridge("0000:02:00.0", "03", REDIRECTING, PEX)
            + bridge("0000:02:01.0", "04", REDIRECTING, PEX)
            + cards("GB202GL [RTX PRO 6000 Blackwell]", "2bb1", "0000:03:00.0", "0000:04:00.0"),
            "nvidia-smi-p2p-read": MATRIX,
        },
    ),
    "8: the card's own firmware stops answering": (
        "drv.gsp",
        {
            "lspci": cards("GA102GL [A40]", "2235", "0000:41:00.0", "0000:61:00.0"),
            "nvidia-version": CLOSED.format("525.85.12"),
            "kernel-log": BOOTED
            + "".join(
                f"[{when}.0] NVRM: Xid (PCI:0000:41:00): 119, pid=2571, name=nvidia-smi, Timeout "
                "waiting for RPC from GSP! Expected function 76 (GSP_RM_CONTROL) (0x20801702).\n"
                for when in (100, 145, 190)
            ),
        },
    ),
    "9: one card after another falls off its riser": (
        "xid",
        {
            "lspci": cards("AD104 [GeForce RTX 4070]", "2786", "0000:0b:00.0", "0000:0c:00.0")
            .replace("Width x16", "Width x1")
            .replace("LnkCap:\tPort #0, Speed 16GT/s, Width x1", "LnkCap:\tSpeed 16GT/s, Width x16")
            + cards("AD104 [GeForce RTX 4070]", "2786", "0000:0d:00.0"),
            "nvidia-version": CLOSED.format("535.230.02"),
            "nvidia-smi-xml": "Unable to determine the device handle for GPU0000:0F:00.0: Unknown "
            "Error\n",
            "kernel-log": f"{BOOTED}[ 8812.1] NVRM: Xid (PCI:0000:0f:00): 79, pid='<unknown>', "
            "name=<unknown>, GPU has fallen off the bus.\n",
        },
    ),
    "10a: a module that Secure Boot refuses": (
        "drv.secureboot",
        {
            "lspci": UNBOUND,
            "uname": "Linux vm 5.15.0-91-generic #101-Ubuntu SMP x86_64 GNU/Linux\n",
            "secure-boot": "SecureBoot enabled\n",
            "dkms": "nvidia/535.129.03, 5.15.0-91-generic, x86_64: installed\n",
            "kernel-log": f"{BOOTED}[    5.2] Lockdown: systemd-udevd: unsigned module loading is "
            "restricted; see man kernel_lockdown.7\n",
            "nvidia-smi-xml": NO_DRIVER,
            "nvidia-version": "",
        },
    ),
    "10b: a kernel for which no module was built": (
        "drv.dkms",
        {
            "lspci": UNBOUND,
            "uname": "Linux box 5.4.0-132-generic #148-Ubuntu SMP x86_64 GNU/Linux\n",
            "proc-cmdline": "BOOT_IMAGE=/vmlinuz-5.4.0-132-generic root=/dev/sda2 ro recovery "
            "nomodeset\n",
            "dkms": "nvidia, 515.65.01, 5.4.0-135-generic, x86_64: installed\n",
            "nvidia-smi-xml": NO_DRIVER,
            "nvidia-version": "",
        },
    ),
    "10c: nouveau has the card": (
        "drv.nouveau",
        {
            "lspci": UNBOUND.replace("\n\n", "\n\tKernel driver in use: nouveau\n\n"),
            "nvidia-smi-xml": NO_DRIVER,
            "nvidia-version": "",
        },
    ),
    "10d: a driver that does not build for this kernel": (
        "drv.dkms",
        {
            "lspci": UNBOUND,
            "uname": "Linux laptop 6.8.0-36-generic #36-Ubuntu SMP x86_64 GNU/Linux\n",
            "secure-boot": "SecureBoot enabled\n",
            "dkms": "nvidia/545.29.06: added\n",
            "nvidia-smi-xml": NO_DRIVER,
            "nvidia-version": "",
        },
    ),
}

# Everything advertised, and nothing delivered: a mirror, a bus that hangs, a path of 0.29 GB/s.
SILENT_LIARS: Mapping[str, Mapping[str, str]] = {
    "2: a mirror in a virtual machine": {
        "lspci": cards("GA102 [GeForce RTX 3090]", "2204", "0000:01:00.0", "0000:02:00.0"),
        "nvidia-version": OPEN.format("610.57.04"),
        "nvidia-smi-p2p-read": MATRIX,
    },
    "5: two sockets, and copies that pass": {
        "lspci": cards("GP102 [GeForce GTX 1080 Ti]", "1b06", "0000:02:00.0", "0000:03:00.0"),
        "nvidia-smi-p2p-read": MATRIX,
    },
    "7: a patched driver": {
        "lspci": cards("GA100 [CMP 170HX]", "20b0", "0000:01:00.0", "0000:02:00.0"),
        "nvidia-version": OPEN.format("610.43.03"),
        "nvidia-smi-p2p-read": MATRIX,
    },
}


def findings(texts: Mapping[str, str]) -> tuple[Finding, ...]:
    known = HostSnapshot(answers.bundle(dict(texts)))
    found = examine(known, None, catalog(), concerns=EVERY_CONCERN)
    return put_together(found, known, catalog())[0]


@pytest.mark.parametrize("machine", MACHINES)
def test_the_cause_is_the_first_thing_that_is_told(machine: str) -> None:
    expected, texts = MACHINES[machine]

    first = findings(texts)[0]

    assert (first.id, first.status) == (expected, "fail")
    assert first.evidence
    assert first.fix is not None


def test_the_riser_machine_names_the_card_that_fell() -> None:
    first = findings(MACHINES["9: one card after another falls off its riser"][1])[0]

    assert (first.subject, first.data["xid"]) == ("gpu 0000:0f:00.0", 79)


@pytest.mark.parametrize("machine", SILENT_LIARS)
def test_what_is_only_advertised_is_never_called_healthy(machine: str) -> None:
    found = {one.id: one for one in findings(SILENT_LIARS[machine])}

    grant = found["p2p.grant"]
    assert grant.status not in {"ok", "skipped"}
    assert "advertised, not proven: run preflight" in grant.summary
