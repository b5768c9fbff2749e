"""Facts of the host without CUDA: board, cards on the bus, and nvidia-smi."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from rigops.hostside.p2p.answers import BusAnswer, JobAnswer, PortAnswer
    from rigops.hostside.p2p.watched import Job, Say

_NVIDIA: Final = "0x10de"
_DISPLAY: Final = "0x03"
PCI_FUNCTION: Final = re.compile(r"[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")
_NODE: Final = re.compile(r"[0-9]{1,4}")  # -1: not known
ALL_BITS: Final = 63  # lanes of a card that answers nothing
_JOB: Final = re.compile(r"^([0-9A-Fa-f]+:[0-9A-Fa-f:]+\.[0-9]) *, *([0-9]{1,10}) *$", re.MULTILINE)


def pci_address(text: str) -> str:
    """Make it 0000:0a:00.0, however many digits and capitals the driver likes."""
    found = re.fullmatch(r"(?:([0-9a-f]+):)?([0-9a-f]+:[0-9a-f]+\.[0-9a-f])", text.strip().lower())
    return f"{int(found[1] or '0', 16):04x}:{found[2]}" if found else text


def smi_job(*words: str) -> Job:
    """Make the job of a watched child, which becomes nvidia-smi."""

    def job(say: Say) -> None:
        say(step=" ".join(("nvidia-smi", *words)), ready=True)
        try:
            os.execvp("nvidia-smi", ("nvidia-smi", *words))  # noqa: S606 - no shell is needed
        except OSError as error:
            say(answer=str(error))

    return job


def find_jobs(text: str) -> list[JobAnswer]:
    """The processes on each card. By short names only: a command line may hold secrets."""
    return [
        {"address": pci_address(address), "pid": int(pid), "name": _process_name(pid)}
        for address, pid in _JOB.findall(text)
    ]


def _process_name(pid: str) -> str:
    return file_text(Path("/proc") / pid / "comm") or "a process"


def nvidia_gpus(system: Path) -> list[BusAnswer]:
    """Cards on the bus, with the kernel driver that each is bound to.

    `max_links`: what the card and the port above it can do, such as `16.0 GT/s PCIe x16`.
    """
    found: list[BusAnswer] = []
    for device in sorted(system.glob("bus/pci/devices/*")):
        if file_text(device / "vendor") == _NVIDIA and file_text(device / "class").startswith(
            _DISPLAY
        ):
            driver = device / "driver"
            bound = driver.resolve().name if driver.exists() else ""
            links = [_max_link(device), _max_link(device.resolve().parent)]
            node = file_text(device / "numa_node")
            found.append(
                {
                    "address": device.name.lower(),
                    "driver": bound,
                    "max_links": [link for link in links if link],
                    "is_gone": file_text(device / "current_link_width") == str(ALL_BITS),
                    "ports": _ports_above(device.resolve()),
                    "node": int(node) if _NODE.fullmatch(node) else None,
                }
            )
    return found


def _ports_above(device: Path) -> list[PortAnswer]:
    above = [path for path in reversed(device.parents) if PCI_FUNCTION.fullmatch(path.name)]
    return [{"address": path.name, "id": _identity(path)} for path in above]


def _identity(device: Path) -> str:
    ids = (file_text(device / name) for name in ("vendor", "device"))
    return ":".join(text[len("0x") :] for text in ids)


def _max_link(device: Path) -> str:
    speed, width = (file_text(device / f"max_link_{name}") for name in ("speed", "width"))
    return f"{speed} x{width}" if speed and width else ""


def describe_machine(system: Path) -> dict[str, str]:
    board = (file_text(system / "class/dmi/id" / f"board_{name}") for name in ("vendor", "name"))
    return {
        "board": " ".join(filter(None, board)),
        "kernel": os.uname().release,
        "driver": file_text(system / "module/nvidia/version"),
    }


def shared_memory() -> int | None:
    """Bytes that /dev/shm may have; None: there is none."""
    try:
        found = os.statvfs("/dev/shm")  # noqa: S108 - no file is made
    except OSError:
        return None
    return found.f_blocks * found.f_frsize


def processor() -> str:
    for line in file_text(Path("/proc/cpuinfo")).split("\n"):
        if line.startswith("vendor_id"):
            return line.partition(":")[2].strip()
    return ""


def file_text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""
