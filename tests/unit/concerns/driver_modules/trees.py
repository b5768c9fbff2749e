"""A stub of a tree, in the layout of NVIDIA's open kernel modules."""

from __future__ import annotations

import io
import subprocess
import tarfile
from pathlib import Path

VERSION = "595.71.05"


def files(version: str = VERSION, *, kbuild: str = "", header: str = "") -> dict[str, str]:
    return {
        "version.mk": f"NVIDIA_VERSION = {version}\n",
        "Makefile": "modules:\n",
        "kernel-open/Kbuild": f'ccflags-y += -DNV_VERSION_STRING=\\"{kbuild or version}\\"\n',
        "kernel-open/conftest.sh": "#!/bin/sh\nexit 1\n",
        "kernel-open/nvidia/nv.c": "int nv;\n",
        "src/common/inc/nvUnixVersion.h": f'#define NV_VERSION_STRING "{header or version}"\n',
        "src/nvidia/Makefile": "OUT = _out\n",
    }


def written(folder: Path, contents: dict[str, str]) -> Path:
    for name, text in contents.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
        (folder / name).chmod(0o755 if name.endswith(".sh") else 0o644)
    return folder


def packed(path: Path, contents: dict[str, str], *, top: str = "tree-main/") -> Path:
    with tarfile.open(path, "w:gz") as tar:
        for name, text in contents.items():
            header = tarfile.TarInfo(f"{top}{name}")
            header.size, header.mode = len(text), 0o775 if name.endswith(".sh") else 0o664
            tar.addfile(header, io.BytesIO(text.encode()))
    return path


def committed(folder: Path) -> str:
    who = ("-c", "user.name=owner", "-c", "user.email=owner@example.org")
    for words in (("init", "-q"), ("add", "-A"), (*who, "commit", "-q", "-m", "tree")):
        subprocess.run(["git", "-C", str(folder), *words], check=True)
    done = subprocess.run(
        ["git", "-C", str(folder), "rev-parse", "HEAD"],
        check=True,
        capture_output=True,
        text=True,
    )
    return done.stdout.strip()
