"""What the program on the host said, read without trust: any text there may be anything."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from rigops.preflight.document import GpuSeen, PairFound
from rigops.preflight.verdict import VERDICTS

if TYPE_CHECKING:
    from collections.abc import Iterator

SCHEMA: Final = "rigops.preflight-payload/1"
_LEVELS: Final = ("L0", "L1")
_MOST: Final = 4096  # of anything in a list: 64 cards have fewer ordered pairs
_LONGEST: Final = 500


@dataclass(frozen=True)
class Trouble:
    kind: str
    message: str


@dataclass(frozen=True, kw_only=True)
class Answer:
    boot_id: str = ""
    processor: str = ""
    topology: str = ""
    gpus: tuple[GpuSeen, ...] = ()
    driven: tuple[str, ...] = ()  # addresses of cards that are bound to NVIDIA's driver
    on_bus: int = 0
    pairs: tuple[PairFound, ...] = ()
    troubles: tuple[Trouble, ...] = ()
    needs_reboot: bool = False


def read_answer(output: bytes) -> Answer | None:
    """None where the program did not come to its end."""
    for line in reversed(output.splitlines()):
        try:
            said = json.loads(line)
        except (ValueError, RecursionError):
            continue
        result = said.get("result") if isinstance(said, dict) else None
        if isinstance(result, dict) and result.get("schema") == SCHEMA:
            return _answer(result)
    return None


def _answer(result: dict[str, Any]) -> Answer:
    on_bus = list(_each(result, "on_bus"))
    topology = result.get("topology")
    return Answer(
        boot_id=_text(result, "boot_id"),
        processor=_text(result, "processor"),
        topology=topology if isinstance(topology, str) else "",
        gpus=tuple(
            GpuSeen(_text(gpu, "address"), _text(gpu, "name")) for gpu in _each(result, "gpus")
        ),
        driven=tuple(_text(c, "address") for c in on_bus if _text(c, "driver") == "nvidia"),
        on_bus=len(on_bus),
        pairs=tuple(_pair(pair) for pair in _each(result, "pairs")),
        troubles=tuple(
            Trouble(_text(trouble, "kind"), _text(trouble, "message"))
            for trouble in _each(result, "troubles")
        ),
        needs_reboot=result.get("needs_reboot") is True,
    )


def _pair(said: dict[str, Any]) -> PairFound:
    verdict, level = _text(said, "verdict"), _text(said, "level")
    evidence = said.get("evidence")
    lines = evidence if isinstance(evidence, list) else []
    return PairFound(
        source=_text(said, "from"),
        target=_text(said, "to"),
        verdict=verdict if verdict in VERDICTS else "unknown",
        level=level if level in _LEVELS else "L0",
        gb_per_s=_number(said, "gb_per_s"),
        both_ways_gb_per_s=_number(said, "both_ways_gb_per_s"),
        staged_gb_per_s=_number(said, "staged_gb_per_s"),
        latency_us=_number(said, "latency_us"),
        evidence=tuple(plain(line) for line in lines[:_MOST] if isinstance(line, str)),
    )


def _each(said: dict[str, Any], name: str) -> Iterator[dict[str, Any]]:
    found = said.get(name)
    for item in found[:_MOST] if isinstance(found, list) else ():
        if isinstance(item, dict):
            yield item


def _text(said: dict[str, Any], name: str) -> str:
    found = said.get(name)
    return plain(found) if isinstance(found, str) else ""


def plain(text: str) -> str:
    """One line that is safe to print."""
    words = "".join(c if c.isprintable() else " " for c in text)
    shown = " ".join(words.split())
    return shown if len(shown) <= _LONGEST else shown[:_LONGEST] + "…"


def _number(said: dict[str, Any], name: str) -> float | None:
    found = said.get(name)
    if isinstance(found, bool) or not isinstance(found, (int, float)) or not math.isfinite(found):
        return None
    return float(found)
