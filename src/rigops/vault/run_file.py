"""A .run file of NVIDIA's among the kept packages: what it says of itself in its first lines."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from rigops.driver import run_file
from rigops.probe.package_names import RUN_FILE
from rigops.vault.kept import CALLED

if TYPE_CHECKING:
    from collections.abc import Mapping

LONGEST: Final = 64 * 1024  # of the shell script that it begins with

_NAME = re.compile(rf"{CALLED}(?P<version>[0-9]+(?:\.[0-9]+){{1,2}})\.run")
_LABEL = rb"NVIDIA Accelerated Graphics Driver for Linux-x86_64 (?P<version>[0-9.]+[0-9])"


def version_of(name: str) -> str:
    """Empty: it is no driver for these machines, by its name."""
    shape = _NAME.fullmatch(name)
    return shape["version"] if shape else ""


def is_one(head: bytes, version: str) -> bool:
    """By its own label: a page that says why there is no such file is often saved as one."""
    shape = re.search(_LABEL, head)
    return head.startswith(b"#!") and shape is not None and shape["version"] == version.encode()


def record(version: str) -> Mapping[str, str]:
    """The fields as a package has them. Of this architecture there is none for apt."""
    return {
        "Package": RUN_FILE,
        "Version": version,
        "Architecture": run_file.ARCHITECTURE,
    }
