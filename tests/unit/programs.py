"""Programs of the machine that a test needs; without one it is skipped by that name."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from tests import shards

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
