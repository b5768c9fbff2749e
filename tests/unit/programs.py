"""Programs of the machine that a test needs; without one it is skipped by that name."""

from __future__ import annotations

import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest

from tests import shards

if TYPE_CHECKING:
    from pathlib import Path

_IN_SHARD = pytest.mark.shard(shards.SHELLS)
# What most distributions have as sh runs in `make test`, the others in the shard.
SHELLS = ("dash", "bash", *(pytest.param(one, marks=_IN_SHARD) for one in ("mksh", "busybox")))
SHELLS_WHERE_SLOW = (
    "dash",
    *(pytest.param(one, marks=_IN_SHARD) for one in ("bash", "mksh", "busybox")),
)


def needed(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"{name} is not installed")
    return found


def put_program(path: Path, text: str) -> None:
    """Never over a link: what is written to one is written to the machine's own program."""
    assert not path.is_symlink()
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


def shell(name: str) -> list[str]:
    """The command of a shell by its name; busybox has it as an applet."""
    return [needed(name), *(["sh"] if name == "busybox" else [])]


def assert_clean_shell(text: str, *, exclude: str = "") -> None:
    """Portable sh without a finding of shellcheck but those excluded."""
    done = subprocess.run(
        [needed("shellcheck"), "--shell=sh", f"--exclude={exclude}", "-"],
        input=text,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
