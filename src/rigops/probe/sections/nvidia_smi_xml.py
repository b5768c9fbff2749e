"""Everything that nvidia-smi says about the cards: its XML, and its -q text as well."""

from __future__ import annotations

import re

from rigops.probe.section import EVERY_WORD, Section
from rigops.probe.smi import card, failures, values, xml
from rigops.probe.smi import text as plain_text
from rigops.probe.smi.command import ask
from rigops.probe.smi.lookup import Values
from rigops.probe.smi.report import (
    THROTTLE_REASONS,
    FailureKind,
    SmiGpu,
    SmiProcess,
    SmiReport,
)
from rigops.probe.text import lines

__all__ = [
    "SECTION",
    "THROTTLE_REASONS",
    "FailureKind",
    "SmiGpu",
    "SmiProcess",
    "SmiReport",
    "parse",
]

_BYTE_ORDER_MARK = "\N{ZERO WIDTH NO-BREAK SPACE}"
_VERSION = re.compile(r"[0-9]{1,9}(?:\.[0-9]{1,9}){1,4}")


def parse(text: str) -> SmiReport:
    text = text.removeprefix(_BYTE_ORDER_MARK)
    if not text.strip():
        return SmiReport(failure="not-installed")
    clean = lines(text)
    joined = "\n".join(clean)
    said = (
        xml.read(joined)
        if xml.is_xml(joined)
        else plain_text.read(clean, ends_a_line=text.endswith("\n"))
    )
    head = Values(said.head)
    error = said.head.get("error_string")
    around = failures.read([*said.outside, *([error.value] if error else [])])
    cards = [card.read(one) for one in said.cards]
    unparsed = [*head.unparsed, *(line for _, missed in cards for line in missed), *around.unparsed]
    if not (cards or around.kind or said.is_complete or unparsed):
        unparsed = [line for line in clean if line.strip()]
    return SmiReport(
        driver=head.get(_version, "kmd_version", "driver_version"),
        cuda=head.get(_version, "cuda_umd_version", "cuda_version"),
        attached=head.get(values.count, "attached_gpus"),
        gpus=tuple(one for one, _ in cards),
        failure=around.kind,
        failure_lines=tuple(around.lines),
        warnings=tuple(around.warnings),
        lost=tuple(dict.fromkeys(around.lost)),
        is_complete=said.is_complete,
        unparsed=tuple(unparsed),
    )


def _version(value: str) -> str | None:
    """Newer ones add that the name is deprecated."""
    version = _VERSION.match(value)
    return version[0] if version else None


SECTION = Section(
    name="nvidia-smi-xml",
    snippet=ask("-q -x"),
    parse=parse,
    timeout_s=20,
    asks_driver=True,
    needs="nvidia-smi",
    technical=EVERY_WORD,
)
