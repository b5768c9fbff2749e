"""Sections asked under every shell of this machine, of a tree of our own instead of the host's."""

from __future__ import annotations

import re
import subprocess
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from rigops.probe import reading
from rigops.probe.script import script
from tests.unit.programs import shell as command

if TYPE_CHECKING:
    from pathlib import Path

    from rigops.probe.bundle import Collected
    from rigops.probe.section import Section

_PATH = re.compile(r"(?<![\w.*$}/-])/(?=(?:etc|run|usr|lib|boot|sys|var)\b)")


def ask(section: Section[Any], shell: str, root: Path) -> Collected:
    """What the section answers where / is the folder `root`."""
    snippet = _PATH.sub(f"{root}/", section.snippet)
    text = script([replace(section, snippet=snippet, timeout_s=60)], root=False)
    done = subprocess.run(
        [*command(shell), "-s"],
        input=text.encode(),
        capture_output=True,
        check=True,
        timeout=120,
    )
    assert done.stderr == b""
    bundle = reading.read(done.stdout, host="here")
    assert bundle is not None
    answer = bundle.sections[section.name]
    return replace(answer, text=answer.text.replace(str(root), ""))
