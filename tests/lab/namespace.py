"""Commands with a mount namespace of their own: nothing they mount shows on the machine."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


def overlay(lower: tuple[Path, ...], upper: Path, work: Path, root: Path) -> str:
    """`volatile`: a tree that is thrown away need not reach the disk."""
    layers = ":".join(str(path) for path in lower)
    options = f"lowerdir={layers},upperdir={upper},workdir={work},volatile"
    return shlex.join(["mount", "-t", "overlay", "-o", options, "rigops-lab", str(root)])


def enter(steps: list[str]) -> list[str]:
    return ["unshare", "--mount", "--propagation", "private", "sh", "-euc", "\n".join(steps)]


def joining(group: Path) -> str:
    return f"echo $$ > {shlex.quote(str(group / 'cgroup.procs'))}"
