"""The shared libraries inside the packages, from a C compiler."""

from __future__ import annotations

import shutil
import subprocess
from functools import cache
from typing import TYPE_CHECKING

from tests.lab.errors import LabError
from tests.lab.silicon.cuda.build import build

if TYPE_CHECKING:
    from pathlib import Path

_SILICON = {"libcuda.so.1", "libnccl.so.2"}
# Nothing of the lab talks to a card through these: they are there to be found, and to say no.
_STAND_INS = {
    "libnvidia-ml.so.1": "int nvmlInit_v2(void) { return 9; }",
    "libnvidia-cfg.so.1": "int nvCfgGetDevices(void) { return 0; }",
    "libnvidia-ptxjitcompiler.so.1": "int __cuda_CallJitEntryPoint(void) { return 1; }",
}


class Libraries:
    """Built when they are asked for, into a folder that may be thrown away afterwards."""

    def __init__(self, work: Path) -> None:
        if shutil.which("gcc") is None:
            raise LabError("gcc is not installed: the lab's libraries are written in C")
        self._work = work
        self._stand_in = cache(self._compile)
        self._silicon = cache(lambda driver: build(work, driver))

    def built(self, soname: str, upstream: str) -> bytes:
        """The library, for a driver of this version where that makes a difference."""
        if soname in _SILICON:
            return self._silicon(upstream)[soname].read_bytes()
        return self._stand_in(soname)

    def _compile(self, soname: str) -> bytes:
        out = self._work / soname
        subprocess.run(
            ["gcc", "-shared", "-fPIC", "-s", f"-Wl,-soname,{soname}", "-x", "c", "-", "-o", out],
            input=_STAND_INS[soname].encode(),
            check=True,
        )
        return out.read_bytes()
