"""rigops with one deploy, which installs packages of a demo repository."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

PROGRAM = ("program.py",)
# Of a dpkg that was interrupted: what a person is asked, and what is to be done without a yes.
ASKS = "or the numbers to allow"
BY_HAND = "sudo dpkg --configure -a"

_PROGRAM = """
import sys
import rigops.converge.early
from pathlib import Path
from rigops.cli import apply_common
from rigops.cli.main import main

apply_common.deploys = lambda _: [Path("demo.py")]
main()
"""
_DEPLOY = """
from rigops.packages.operations import packages

packages(concern="demo", install={wanted!r})
"""


def write(folder: Path, wanted: Mapping[str, str | None]) -> None:
    """PROGRAM, run in this folder, then brings hosts to these packages and versions."""
    (folder / PROGRAM[0]).write_text(_PROGRAM)
    (folder / "demo.py").write_text(_DEPLOY.format(wanted=dict(wanted)))
