"""The cards as their driver names them, and the firmware of the board: what a proof is about."""

from __future__ import annotations

import re
from typing import Final

from rigops.dataclass import dataclass
from rigops.probe import address
from rigops.probe.section import Section
from rigops.probe.text import blocks
from rigops.record import Bios, ProvenGpu

_BIOS: Final = "/sys/class/dmi/id/bios_"
_CARDS: Final = "/proc/driver/nvidia/gpus/"
_ON_BUS: Final = "/sys/bus/pci/devices/"
_ALL_BITS: Final = "63"  # lanes of a card that answers nothing
_FIELD = re.compile(r"(?P<name>[A-Za-z ]{1,30}):\s*(?P<value>.*)")


@dataclass(frozen=True)
class Silicon:
    bios: Bios
    gpus: tuple[ProvenGpu, ...]
    has_cards: bool  # of NVIDIA's, with a driver or without
    has_gone: bool = False  # one of them answers nothing on the bus, unless it sleeps


def parse(text: str) -> Silicon:
    found = blocks(text)
    cards = [_card(body) for head, body in found.items() if head.startswith(_CARDS)]
    lanes = [body.strip() for head, body in found.items() if head.startswith(_ON_BUS)]
    return Silicon(
        bios=Bios(
            found.get(f"{_BIOS}vendor", "").strip(), found.get(f"{_BIOS}version", "").strip()
        ),
        gpus=tuple(sorted(filter(None, cards), key=lambda card: card.address)),
        has_cards=bool(lanes or cards),
        has_gone=_ALL_BITS in lanes,
    )


def _card(body: str) -> ProvenGpu | None:
    shapes = map(_FIELD.fullmatch, body.splitlines())
    fields = {shape["name"].strip(): shape["value"].strip() for shape in shapes if shape}
    place = address.normal(fields.get("Bus Location", ""))
    uuid = fields.get("GPU UUID", "")
    return ProvenGpu(uuid, place, fields.get("Model", ""), None) if place and uuid else None


SECTION: Final = Section(
    name="silicon",
    snippet=f"""
show {_BIOS}vendor {_BIOS}version {_CARDS}*/information
for function in {_ON_BUS}*; do
    read -r vendor <"$function/vendor" && read -r class <"$function/class" || continue
    case "$vendor $class" in "0x10de 0x03"*) ;; *) continue ;; esac
    block "$function"
    cat "$function/current_link_width"
done 2>/dev/null
return 0
""",
    parse=parse,
    lane="files",
)
