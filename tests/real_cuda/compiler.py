"""gcc, with NVIDIA's headers at hand."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING, Final

from tests.real_cuda import nvidia

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

CUDA_H: Final = "#include <cuda.h>\n"
# Without types of numbers that no prototype here uses, and for which it takes further wheels.
NCCL_H: Final = """\
#define __CUDA_FP16_H__
#define __CUDA_BF16_H__
#define __CUDA_FP8_H__
#include <nccl.h>
"""


def preprocess(text: str) -> str:
    command = ["gcc", "-E", "-P", *_folders(), "-x", "c", "-"]
    return subprocess.run(command, input=text, text=True, check=True, capture_output=True).stdout


def complaints(text: str) -> str:
    """Of the compiler about this text; empty: there are none."""
    return _complaints("-x", "c", "-", given=text)


def complaints_about(source: Path, *options: str) -> str:
    return _complaints(*options, str(source))


def false_ones(conditions: Iterable[str]) -> str:
    """The complaints about those that do not hold for the constants and types of both headers."""
    lines = [f'_Static_assert({one}, "{one}");\n' for one in conditions]
    return complaints("".join([CUDA_H, NCCL_H, *lines]))


def _complaints(*words: str, given: str = "") -> str:
    command = ["gcc", "-std=gnu11", "-fsyntax-only", *_folders(), *words]
    return subprocess.run(command, input=given, text=True, check=False, capture_output=True).stderr


def _folders() -> list[str]:
    return [f"-isystem{folder}" for folder in nvidia.includes()]
