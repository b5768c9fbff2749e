"""NVIDIA's own files, fetched once: ptxas, headers and NCCL of wheels, libcuda of Debian's driver.

Nothing of it is installed, and nothing needs root or a GPU.
"""

from __future__ import annotations

import os
import subprocess
import sys
from hashlib import sha256
from pathlib import Path
from typing import Final

from tests.lab import bootstrap, cache, image

# What runs a program that loads the driver's libraries: as root, cuInit makes /dev/nvidiactl where
# there is none, and leaves it.
WITHOUT_NODES: Final = ("setpriv", "--bounding-set=-mknod") if os.geteuid() == 0 else ()

NCCL: Final = (2, 27, 5)
# CUDA 12 is the last that still compiles for sm_50, and 12.8 the first that does for sm_120.
_WHEELS: Final = (
    "nvidia-cuda-nvcc-cu12==12.9.86",
    "nvidia-cuda-runtime-cu12==12.9.79",
    f"nvidia-nccl-cu12=={'.'.join(map(str, NCCL))}",
)
_KEYRING: Final = "/usr/share/keyrings/debian-archive-keyring.gpg"


def ptxas() -> Path:
    return _wheels() / "cuda_nvcc/bin/ptxas"


def includes() -> tuple[Path, ...]:
    """The folders of cuda.h, of nccl.h, and of what both include."""
    return tuple(_wheels() / name / "include" for name in ("cuda_runtime", "cuda_nvcc", "nccl"))


def libnccl() -> Path:
    return _wheels() / "nccl/lib/libnccl.so.2"


def libcuda() -> Path:
    """Of the driver of Debian 12."""
    tree = cache.built("libcuda1", bootstrap.SUITE, _fetch_libcuda) / "tree"
    return tree / "usr/lib/x86_64-linux-gnu/nvidia/current/libcuda.so.1"


def _wheels() -> Path:
    digest = sha256(" ".join(_WHEELS).encode()).hexdigest()[:16]
    return cache.built("nvidia-wheels", digest, _fetch_wheels) / "nvidia"


def _fetch_wheels(new: Path) -> None:
    image.tell("fetching NVIDIA's compiler, headers and NCCL, once: 370 MB")
    words = ["--quiet", "--no-deps", "--no-compile", "--no-cache-dir", "--only-binary=:all:"]
    _run(sys.executable, "-m", "pip", "install", *words, "--target", str(new), *_WHEELS)


def _fetch_libcuda(new: Path) -> None:
    image.tell(f"fetching libcuda1 of {bootstrap.SUITE}, once")
    source = f"deb [signed-by={_KEYRING}] {bootstrap.archive()} {bootstrap.SUITE} non-free\n"
    (new / "sources.list").write_text(source)
    (new / "lists/partial").mkdir(parents=True)
    options = {
        "Dir::Etc::sourcelist": new / "sources.list",
        "Dir::Etc::sourceparts": "/dev/null",
        "Dir::State::lists": new / "lists",
        "Dir::Cache": new,
        "APT::Sandbox::User": "root",  # another user may not enter the folder
    }
    apt = ["apt-get", "-qq", *(f"-o{name}={value}" for name, value in options.items())]
    _run(*apt, "update")
    _run(*apt, "download", "libcuda1:amd64", folder=new)
    (deb,) = new.glob("*.deb")
    _run("dpkg-deb", "-x", str(deb), str(new / "tree"))


def _run(*command: str, folder: Path | None = None) -> None:
    subprocess.run(command, check=True, cwd=folder, stdin=subprocess.DEVNULL)
