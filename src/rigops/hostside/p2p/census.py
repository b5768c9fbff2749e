"""Rung L0: which GPUs there are, and which of them the driver lets reach each other."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Any, Final

from rigops.hostside.p2p.cuda import (
    NATIVE_ATOMICS,
    NO_DEVICE,
    PERFORMANCE_RANK,
    Cuda,
    CudaError,
    NoLibraryError,
)

if TYPE_CHECKING:
    from pathlib import Path

    from rigops.hostside.p2p.watched import Say

_NVIDIA: Final = "0x10de"
_DISPLAY: Final = "0x03"
_TOPOLOGY: Final = ("nvidia-smi", "topo", "-m")


def take_census(say: Say) -> None:
    """Job of a watched child."""
    say(step="loading libcuda.so.1")
    try:
        cuda = Cuda()
        say(step="cuInit")
        cuda.do("cuInit", 0)
        say(step="looking at the devices", ready=True)
        say(answer=_census(cuda))
    except NoLibraryError as error:
        say(answer={"trouble": ["no_library", str(error)]})
    except CudaError as error:
        kind = "no_device" if error.code == NO_DEVICE else "error"
        say(answer={"trouble": [kind, str(error)]})


def _census(cuda: Cuda) -> dict[str, Any]:
    devices = [cuda.number("cuDeviceGet", i) for i in range(cuda.number("cuDeviceGetCount"))]
    gpus = [
        {
            "address": pci_address(cuda.device_text("cuDeviceGetPCIBusId", device)),
            "name": cuda.device_text("cuDeviceGetName", device),
            "memory": cuda.size("cuDeviceTotalMem_v2", device),
        }
        for device in devices
    ]
    peers = [
        [_peer(cuda, one, other) if one != other else None for other in devices] for one in devices
    ]
    return {"cuda": cuda.number("cuDriverGetVersion"), "gpus": gpus, "peers": peers}


def _peer(cuda: Cuda, one: int, other: int) -> dict[str, int | None]:
    return {
        "granted": cuda.number("cuDeviceCanAccessPeer", one, other),
        "rank": _attribute(cuda, PERFORMANCE_RANK, one, other),
        "atomics": _attribute(cuda, NATIVE_ATOMICS, one, other),
    }


def _attribute(cuda: Cuda, attribute: int, one: int, other: int) -> int | None:
    try:
        return cuda.number("cuDeviceGetP2PAttribute", attribute, one, other)
    except CudaError:
        return None


def pci_address(text: str) -> str:
    """Make it 0000:0a:00.0, however many digits and capitals the driver likes."""
    found = re.fullmatch(r"(?:([0-9a-f]+):)?([0-9a-f]+:[0-9a-f]+\.[0-9a-f])", text.strip().lower())
    return f"{int(found[1] or '0', 16):04x}:{found[2]}" if found else text


def read_topology(say: Say) -> None:
    """Job of a watched child, which becomes nvidia-smi."""
    say(step="nvidia-smi topo -m", ready=True)
    try:
        os.execvp(_TOPOLOGY[0], _TOPOLOGY)  # noqa: S606 - there is no shell to want
    except OSError as error:
        say(answer=str(error))


def nvidia_gpus(system: Path) -> list[dict[str, str]]:
    """Cards on the bus, with the kernel driver that each is bound to."""
    found = []
    for device in sorted(system.glob("bus/pci/devices/*")):
        if _line(device / "vendor") == _NVIDIA and _line(device / "class").startswith(_DISPLAY):
            driver = device / "driver"
            bound = driver.resolve().name if driver.exists() else ""
            found.append({"address": device.name.lower(), "driver": bound})
    return found


def _line(path: Path) -> str:
    try:
        return path.read_text().strip()
    except (OSError, ValueError):
        return ""
