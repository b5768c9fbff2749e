"""How libnccl is called through ctypes, against NVIDIA's nccl.h, and how preflight finds it."""

from __future__ import annotations

import json
import subprocess
import sys
from itertools import zip_longest
from pathlib import Path

import pytest

from rigops.hostside.p2p import nccl
from tests.real_cuda import compiler, headers, nvidia
from tests.real_cuda.test_prototypes import fits
from tests.shards import REAL_CUDA

pytestmark = pytest.mark.shard(REAL_CUDA)

ROOT = Path(__file__).resolve().parents[2]
FIND = "import json; from rigops.hostside.p2p.collectives import find_library; "
FIND += "find_library(lambda **words: print(json.dumps(words)))"
BEGIN = (
    "from rigops.hostside.p2p.nccl import Nccl; import sys; Nccl(sys.argv[1]).communicators([0])"
)


@pytest.mark.parametrize("call", nccl.NCCL_PROTOTYPES)
def test_arguments_are_what_nccl_h_declares(call: str) -> None:
    declared = headers.nccl_h().parameters(call)

    pairs = list(zip_longest(nccl.NCCL_PROTOTYPES[call], declared))

    assert [pair for pair in pairs if None in pair or not fits(*pair)] == []


def test_constants_are_those_of_the_enums() -> None:
    conditions = [f"ncclUint32 == {nccl.UINT32}", f"ncclSum == {nccl.SUM}", "ncclSuccess == 0"]

    assert compiler.false_ones(conditions) == ""


def test_the_library_of_a_wheel_is_found_and_answers_its_version(tmp_path: Path) -> None:
    home = tmp_path / "home"
    folder = home / "venv/lib/python3.11/site-packages/nvidia/nccl/lib"
    folder.mkdir(parents=True)
    (folder / "libnccl.so.2").symlink_to(nvidia.libnccl())
    (home / "venv/bin").mkdir()
    (home / "venv/bin/python3").touch()

    found = json.loads(run(FIND, HOME=str(home)).stdout.splitlines()[-1])["answer"]

    assert found == {
        "library": str(nvidia.libnccl().resolve()),
        "version": ".".join(map(str, nvidia.NCCL)),
    }


def test_without_a_gpu_it_says_so() -> None:
    done = run(
        BEGIN,
        str(nvidia.libnccl()),
        LD_LIBRARY_PATH=str(nvidia.libcuda().parent),
        NCCL_DEBUG="INFO",
        NCCL_DEBUG_FILE="/dev/stderr",
    )

    assert "NcclError: ncclCommInitAll: unhandled cuda error" in done.stderr
    assert "NCCL WARN Cuda failure 'no CUDA-capable device is detected'" in done.stderr


def run(program: str, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*nvidia.WITHOUT_NODES, sys.executable, "-c", program, *words],
        cwd=ROOT,
        env={"PYTHONPATH": "src", "PATH": "/usr/bin:/bin", **environment},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
