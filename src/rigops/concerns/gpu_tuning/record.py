"""Values that the host-side program has set since the boot, by its own record."""

from __future__ import annotations

from typing import Final

from rigops import json_fields
from rigops.concerns.gpu_tuning.state import WORDS, WasSet
from rigops.errors import RigopsError
from rigops.probe.sections.rigops_state import STATE

PATH: Final = f"{STATE}/gpu_tuning.json"
_SCHEMA: Final = "rigops.gpu_tuning/1"
_UNKNOWN: Final = "-"


def parse(text: str) -> tuple[str, tuple[WasSet, ...]]:
    """The boot in which it was set, and what."""
    fields = json_fields.parse(text, place=PATH)
    fields.require_schema(_SCHEMA)
    found = []
    for one in fields.each("settings"):
        setting = one.text("setting")
        if setting not in WORDS:
            raise one.wrong("setting", setting, ", ".join(WORDS))
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


def in_this_boot(text: str, boot_id: str) -> tuple[WasSet, ...]:
    """Nothing where the record is damaged: then nothing can be undone by it."""
    try:
        of, found = parse(text)
    except RigopsError:
        return ()
    return found if of == boot_id else ()
