"""Rung L0: the GPUs that CUDA lists, and which of them the driver lets reach which."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rigops.hostside.p2p.cuda import (
    NATIVE_ATOMICS,
    NO_DEVICE,
    PERFORMANCE_RANK,
    Cuda,
    CudaError,
    NoLibraryError,
)
from rigops.hostside.p2p.machine import pci_address

if TYPE_CHECKING:
    from rigops.hostside.p2p.answers import CensusAnswer, GpuAnswer, PeerAnswer
    from rigops.hostside.p2p.watched import Say


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


def _census(cuda: Cuda) -> CensusAnswer:
    devices = [cuda.number("cuDeviceGet", i) for i in range(cuda.number("cuDeviceGetCount"))]
    gpus: list[GpuAnswer] = [
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


def _peer(cuda: Cuda, one: int, other: int) -> PeerAnswer:
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
