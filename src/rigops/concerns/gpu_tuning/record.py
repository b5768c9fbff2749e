"""What the host-side program has set since the boot, as its own record has it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal, get_args

from rigops import json_fields
from rigops.dataclass import dataclass
from rigops.errors import RigopsError
from rigops.probe.sections.rigops_state import STATE

if TYPE_CHECKING:
    from collections.abc import Mapping

Setting = Literal["persistence", "power", "graphics", "memory", "application"]

PATH: Final = f"{STATE}/gpu_tuning.json"
_SCHEMA: Final = "rigops.gpu_tuning/1"
_UNKNOWN: Final = "-"
_SETTINGS: Final[Mapping[str, Setting]] = {name: name for name in get_args(Setting)}


@dataclass(frozen=True)
class WasSet:
    """`card` as in the table. `was`: the value before; empty where the card does not report it."""

    card: str
    address: str
    setting: Setting
    value: str
    was: str


def parse(text: str) -> tuple[str, tuple[WasSet, ...]]:
    """The boot in which it was set, and what."""
    fields = json_fields.parse(text, place=PATH)
    fields.require_schema(_SCHEMA)
    found = []
    for one in fields.each("settings"):
        setting = _SETTINGS.get(one.text("setting"))
        if setting is None:
            raise one.wrong("setting", one.text("setting"), ", ".join(_SETTINGS))
        was = one.text("was")
        found.append(
            WasSet(
                one.text("card"),
                one.text("address"),
                setting,
                one.text("value"),
                "" if was == _UNKNOWN else was,
            )
        )
    return fields.text("boot_id"), tuple(found)


def in_this_boot(text: str, boot_id: str | None) -> tuple[WasSet, ...]:
    """Nothing where the record is damaged: then nothing can be undone by it."""
    try:
        of, found = parse(text)
    except RigopsError:
        return ()
    return found if of == boot_id else ()
