"""Sections asked under every shell of this machine, of a tree of our own instead of the host's."""

from __future__ import annotations

import re
import shutil
import subprocess
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from rigops.probe import reading
from rigops.probe.script import script

if TYPE_CHECKING:
    from pathlib import Path

    from rigops.probe.bundle import Collected
    from rigops.probe.section import Section

SHELLS = (("dash",), ("bash",), ("mksh",), ("busybox", "sh"))

_PATH = re.compile(r"(?<![\w.*$}/-])/(?=(?:etc|run|usr|lib|boot|sys|var)\b)")


def ask(section: Section[Any], shell: tuple[str, ...], root: Path) -> Collected:
    """What the section answers where / is the folder `root`."""
    if shutil.which(shell[0]) is None:
        pytest.skip(f"{shell[0]} is not installed")
    snippet = _PATH.sub(f"{root}/", section.snippet)
    text = script([replace(section, snippet=snippet)], root=False)
    done = subprocess.run(
        [*shell, "-s"], input=text.encode(), capture_output=True, check=True, timeout=60
    )
    assert done.stderr == b""
    bundle = reading.read(done.stdout, host="here")
    assert bundle is not None
    answer = bundle.sections[section.name]
    return replace(answer, text=answer.text.replace(str(root), ""))
