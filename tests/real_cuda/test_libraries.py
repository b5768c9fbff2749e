"""The real libcuda and libnccl, as they answer on a machine without a GPU."""

from __future__ import annotations

import ctypes.util
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from rigops.hostside.p2p import cuda
from tests.lab.silicon.cuda.build import HERE
from tests.real_cuda import nvidia
from tests.shards import REAL_CUDA
from tests.tiers import ROOT

if TYPE_CHECKING:
    from tests.unit.lab.cuda_rig import Rig

pytestmark = [
    pytest.mark.shard(REAL_CUDA),
    pytest.mark.skipif(
        Path("/proc/driver/nvidia/version").exists(), reason="this machine has NVIDIA's driver"
    ),
]

NO_DEVICE = "no CUDA-capable device is detected"
# Not that it is too old: there is none.
NO_DRIVER = "CUDA driver version is insufficient for CUDA runtime version"


def answer(what: str, library: Path, *words: str, **environment: str) -> Any:
    done = subprocess.run(
        [
            *nvidia.WITHOUT_NODES,
            sys.executable,
            "-m",
            "tests.real_cuda.program",
            what,
            library,
            *words,
        ],
        cwd=ROOT,
        env={"PATH": os.environ["PATH"], "NCCL_SOCKET_IFNAME": "lo", **environment},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def exports(name: str) -> list[str]:
    """Of the simulated library."""
    return re.findall(r"\b((?:cu|nccl)\w+);", (HERE / name).read_text())


# ---- libcuda


def test_the_driver_of_debian_has_every_function_that_is_called() -> None:
    assert nvidia.libcuda().resolve().name.startswith("libcuda.so.535.")

    said = answer("driver", nvidia.libcuda(), *map(str, cuda.ERROR_NAMES))

    assert said["cuInit"] == "cuInit: CUDA_ERROR_NO_DEVICE 100"
    assert said["version"] == 12020
    names = {int(code): name for code, (name, _) in said["errors"].items()}
    assert names == cuda.ERROR_NAMES


def test_the_simulated_libcuda_has_no_function_that_the_real_one_lacks() -> None:
    names = exports("libcuda.map")
    assert len(names) > 50
    assert set(names) > set(cuda.PROTOTYPES)

    assert answer("symbols", nvidia.libcuda(), *names, "cuMemFree_v9") == ["cuMemFree_v9"]


def test_the_simulated_libcuda_names_errors_as_the_real_one(rig: Rig) -> None:
    codes = re.findall(r"\{(\d+), \"CUDA_\w+\",", (HERE / "errors.c").read_text())
    assert len(codes) > 30

    real = answer("errors", nvidia.libcuda(), *codes)

    assert answer("errors", rig.libcuda, *codes, RIGSIM_CUDA_CONF=str(rig.conf)) == real


# ---- libnccl


@pytest.fixture(scope="module")
def without_device() -> Any:
    """With a driver, as on a machine whose GPU is gone."""
    return answer("collectives", nvidia.libnccl(), LD_LIBRARY_PATH=str(nvidia.libcuda().parent))


def test_nccl_answers_the_version_of_its_wheel(without_device: Any) -> None:
    major, minor, patch = nvidia.NCCL

    assert without_device["version"] == [0, major * 10_000 + minor * 100 + patch]


def test_nccl_without_a_gpu_says_so(without_device: Any) -> None:
    assert without_device["unique_id"] == 0  # which needs no GPU
    assert without_device["init_all"] == [1, f"Cuda failure '{NO_DEVICE}'"]
    assert without_device["errors"][1].startswith("unhandled cuda error")


@pytest.mark.skipif(ctypes.util.find_library("cuda") is not None, reason="libcuda is installed")
def test_nccl_without_a_driver_blames_its_version() -> None:
    said = answer("collectives", nvidia.libnccl())

    assert said["version"][0] == said["unique_id"] == 0
    assert said["init_all"] == [1, f"Cuda failure '{NO_DRIVER}'"]


def test_the_simulated_libnccl_has_no_function_that_the_real_one_lacks() -> None:
    names = exports("libnccl.map")
    assert len(names) > 10

    assert answer("symbols", nvidia.libnccl(), *names, "ncclNone") == ["ncclNone"]


def test_the_simulated_libnccl_words_errors_as_the_real_one(rig: Rig, without_device: Any) -> None:
    assert answer("nccl_errors", rig.libnccl) == without_device["errors"]
