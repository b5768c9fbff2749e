"""What a machine is made of, as QEMU's command line, and the process that plays it."""

from __future__ import annotations

import subprocess
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.lab.errors import LabError
from tests.lab.processes import Process
from tests.lab.vm import uefi

if TYPE_CHECKING:
    from pathlib import Path

PROGRAM = "qemu-system-x86_64"
# Each card's root port and the bus behind it; the firmware numbers buses in the order of ports.
SLOTS = ("0000:00:04.0", "0000:00:05.0", "0000:00:06.0")
CARDS = ("0000:01:00.0", "0000:02:00.0", "0000:03:00.0")
SILICON = "opt/lab/silicon"
# With two, one was seen to hang in its start on a busy machine: each waits for the other.
_PROCESSORS = 1


@dataclass(frozen=True)
class Hardware:
    disk: Path
    kind: str  # of the disks' files: raw, qcow2
    console: Path
    silicon: Path  # a tar of the simulation, which the machine unpacks as it starts
    port: int  # of 127.0.0.1, where its sshd answers
    memory: int = 1024  # MiB
    cards: int = 2  # up to as many as there are slots
    clock: str = "utc"  # or the time its clock starts with
    second: Path | None = None  # another disk
    variables: Path | None = None  # of a UEFI that insists on signatures; None: a BIOS
    safe: bool = True  # False: faster, for a disk that is thrown away when anything goes wrong


def command(hardware: Hardware, direct: tuple[str, ...] = ()) -> list[str]:
    """direct: a kernel that starts without a bootloader.

    No device is of a maker that is found in virtual machines only, but for cards and ports, which
    are disguised: the machine is to pass for metal.
    """
    cache = "writeback" if hardware.safe else "unsafe"
    drive = f"file={hardware.disk},format={hardware.kind},if=none,id=disk,cache={cache}"
    forward = f"hostfwd=tcp:127.0.0.1:{hardware.port}-:22"
    words = [
        PROGRAM, "-nodefaults", "-no-user-config", "-display", "none",
        "-machine", "q35,kernel-irqchip=split,smm=on",
        "-accel", "tcg,thread=multi", "-cpu", "Nehalem",
        "-smp", str(_PROCESSORS), "-m", str(hardware.memory), "-rtc", f"base={hardware.clock}",
        "-device", "intel-iommu,intremap=on",
        "-drive", drive, "-device", "ide-hd,drive=disk,bus=ide.0",
        "-netdev", f"user,id=net,restrict=on,{forward}",
        "-device", "e1000e,netdev=net,romfile=,addr=0x3",
        "-fw_cfg", f"name={SILICON},file={hardware.silicon}",
        "-device", "i6300esb,addr=0x7", "-action", "watchdog=reset",
        "-chardev", f"file,id=console,path={hardware.console},append=on",
        "-serial", "chardev:console",
    ]  # fmt: skip
    if hardware.second:
        drive = f"file={hardware.second},format={hardware.kind},if=none,id=second,cache={cache}"
        words += ["-drive", drive, "-device", "ide-hd,drive=second,bus=ide.1,serial=SECOND"]
    if hardware.variables:
        words += [
            "-global", "driver=cfi.pflash01,property=secure,value=on",
            "-drive", f"if=pflash,format=raw,readonly=on,file={uefi.CODE}",
            "-drive", f"if=pflash,format=raw,file={hardware.variables}",
        ]  # fmt: skip
    for number, slot in enumerate(SLOTS[: hardware.cards]):
        words += _card(number, slot)
    return [*words, *direct]


def _card(number: int, slot: str) -> list[str]:
    """A device that no driver wants, with a region like a card's, behind a port of its own."""
    place = slot.split(":")[2].partition(".")[0]
    port = f"pcie-root-port,id=port{number},bus=pcie.0,addr=0x{place},chassis={number + 1}"
    memory = f"memory-backend-ram,id=region{number},size=256M,share=on,reserve=off"
    return [
        "-device", f"{port},x-speed=8,x-width=16",
        "-object", memory,
        "-device", f"ivshmem-plain,bus=port{number},memdev=region{number}",
    ]  # fmt: skip


def start(hardware: Hardware, direct: tuple[str, ...] = ()) -> Process:
    """A process in a session of its own, which outlives this one."""
    with hardware.console.with_suffix(".qemu").open("w+b") as said:
        process = subprocess.Popen(
            command(hardware, direct),
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=said,
            start_new_session=True,
        )
        time.sleep(0.3)  # what it refuses, it refuses at once
        if process.poll() is not None:
            said.seek(0)
            raise LabError(f"QEMU did not start: {said.read().decode(errors='replace')}")
        process.returncode = 0  # it is no child to wait for
    return Process.of(process.pid)


def wait(machine: Process, deadline: float) -> None:
    """Until it has switched itself off."""
    until = time.monotonic() + deadline
    while machine.lives():
        if time.monotonic() > until:
            raise LabError(f"the machine is still on after {deadline:.0f} s")
        time.sleep(0.2)
