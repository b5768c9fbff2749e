"""Output of nvidia-smi, in its XML and its text, of every driver generation."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from rigops.probe.section import EVERY_WORD, Section

Facts = TypeVar("Facts")


def smi_section(
    name: str, arguments: str, parse: Callable[[str], Facts], *, lane: str = ""
) -> Section[Facts]:
    """Nothing and 0 where there is no nvidia-smi; else its own words and its own exit code."""
    return Section(
        name=name,
        snippet=f"command -v nvidia-smi >/dev/null || return 0\nexec nvidia-smi {arguments} 2>&1",
        parse=parse,
        timeout_s=20,
        asks_driver=True,
        lane=lane,
        needs="nvidia-smi",
        technical=EVERY_WORD,
    )
