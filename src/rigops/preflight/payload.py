"""The answer of the program on the host. Each text becomes one printable line."""

from __future__ import annotations

import json
from collections.abc import Collection
from typing import Final

from rigops.dataclass import dataclass
from rigops.hostside.p2p.verdict import VERDICTS
from rigops.json_fields import Fields
from rigops.preflight.document import GpuSeen, PairFound

SCHEMA: Final = "rigops.preflight-payload/1"
_LEVELS: Final = ("L0", "L1")
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
    """None where the program did not finish.

    Raises:
        RigopsError: a field of the result is not what the program writes.
    """
    for line in reversed(output.splitlines()):
        try:
            event = json.loads(line)
        except (ValueError, RecursionError):  # not an event: the driver prints lines too
            continue
        result = event.get("result") if isinstance(event, dict) else None
        if isinstance(result, dict) and result.get("schema") == SCHEMA:
            return _answer(Fields(result, place="the result of the preflight program"))
    return None


def _answer(result: Fields) -> Answer:
    on_bus = result.each("on_bus")
    return Answer(
        boot_id=plain(result.text("boot_id")),
        processor=plain(result.text("processor")),
        topology=result.text("topology"),
        gpus=tuple(
            GpuSeen(plain(gpu.text("address")), plain(gpu.text("name")))
            for gpu in result.each("gpus")
        ),
        driven=tuple(
            plain(card.text("address")) for card in on_bus if card.raw("driver") == "nvidia"
        ),
        on_bus=len(on_bus),
        pairs=tuple(_pair(pair) for pair in result.each("pairs")),
        troubles=tuple(
            Trouble(plain(trouble.text("kind")), plain(trouble.text("message")))
            for trouble in result.each("troubles")
        ),
        needs_reboot=result.raw("needs_reboot") is True,
    )


def _pair(pair: Fields) -> PairFound:
    return PairFound(
        source=plain(pair.text("from")),
        target=plain(pair.text("to")),
        verdict=_one_of(VERDICTS, pair, "verdict"),
        level=_one_of(_LEVELS, pair, "level"),
        gb_per_s=pair.number_or_none("gb_per_s"),
        both_ways_gb_per_s=pair.number_or_none("both_ways_gb_per_s"),
        staged_gb_per_s=pair.number_or_none("staged_gb_per_s"),
        latency_us=pair.number_or_none("latency_us"),
        evidence=tuple(map(plain, pair.texts("evidence"))),
    )


def _one_of(accepted: Collection[str], fields: Fields, name: str) -> str:
    found = fields.text(name)
    if found not in accepted:
        raise fields.wrong(name, found, ", ".join(accepted))
    return found


def plain(text: str) -> str:
    """One printable line."""
    words = "".join(c if c.isprintable() else " " for c in text)
    shown = " ".join(words.split())
    return shown if len(shown) <= _LONGEST else shown[:_LONGEST] + "…"
