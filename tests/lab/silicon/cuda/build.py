"""Compiles the fake libcuda and libnccl out of the sources beside this file."""

from __future__ import annotations

import subprocess
import tempfile
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

HERE = Path(__file__).resolve().parent
NCCL_VERSION = (2, 18, 5)
FLAGS = (
    *("-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror"),
    *("-fPIC", "-fvisibility=hidden", "-shared", "-pthread"),
    *("-D_GNU_SOURCE", "-include", str(HERE / "older_glibc.h")),
)


@dataclass(frozen=True)
class Library:
    soname: str
    file_name: str
    exports: Path
    sources: tuple[Path, ...]
    defines: tuple[str, ...]

    def arguments(self) -> list[str]:
        exports = f"-Wl,--version-script={self.exports}"
        linked = [exports, f"-Wl,-soname,{self.soname}", "-Wl,-z,defs"]
        defines = [f"-D{define}" for define in self.defines]
        return [*FLAGS, *defines, *linked, *map(str, self.sources), "-ldl"]

    def digest(self) -> str:
        read = sorted({*HERE.glob("*.h"), self.exports, *self.sources})
        contents = [f"{path.name}\0{path.read_text(encoding='utf-8')}" for path in read]
        return sha256("\0".join([*self.arguments(), *contents]).encode()).hexdigest()


def _libraries(version: str) -> list[Library]:
    nccl = HERE / "libnccl.c"
    major, minor, patch = NCCL_VERSION
    return [
        Library(
            soname="libcuda.so.1",
            file_name=f"libcuda.so.{version}",
            exports=HERE / "libcuda.map",
            sources=tuple(sorted({*HERE.glob("*.c")} - {nccl})),
            defines=(f'VERSION="{version}"',),
        ),
        Library(
            soname="libnccl.so.2",
            file_name=f"libnccl.so.{major}.{minor}.{patch}",
            exports=HERE / "libnccl.map",
            sources=(nccl,),
            defines=(f"VERSION_CODE={major * 10000 + minor * 100 + patch}",),
        ),
    ]


def build(out: Path, version: str) -> dict[str, Path]:
    """The libraries by soname, in `out` under their full names; compiled only after a change.

    libcuda is of this driver version. Other versions may be built into the same folder.
    """
    out.mkdir(parents=True, exist_ok=True)
    built = {}
    for library in _libraries(version):
        built[library.soname] = out / library.file_name
        stamp = out / f".{library.file_name}.digest"
        digest = library.digest()
        if not (built[library.soname].exists() and _text(stamp) == digest):
            _compile(library, built[library.soname])
            stamp.write_text(digest, encoding="utf-8")
    return built


def _text(path: Path) -> str | None:
    return path.read_text(encoding="utf-8") if path.exists() else None


def _compile(library: Library, target: Path) -> None:
    with tempfile.TemporaryDirectory(dir=target.parent) as folder:
        made = Path(folder) / target.name
        subprocess.run(
            ["gcc", "-o", str(made), *library.arguments()], check=True, stdin=subprocess.DEVNULL
        )
        made.chmod(0o644)
        made.replace(target)
