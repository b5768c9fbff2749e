"""Kernel arguments of rigops' that no file of its own can tell of.

Those that are to be tried stand in this record and in nothing that a bootloader's tools read, until
a boot with them was verified. Those that were written into somebody else's file are told by it from
the words around them.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Final

from rigops import json_fields
from rigops.errors import RigopsError

SCHEMA: Final = "rigops.kernel_args/1"


@dataclass(frozen=True)
class Arguments:
    """`armed_in`: the boot id of the boot in which the trial was ordered; empty where it is not.

    `cards`: the addresses of those that were there then.
    `is_unsettled`: somebody else's files were about to be changed, and nobody saw the end of it.
    Then `written` has all that may be in them.
    """

    trying: tuple[str, ...] = ()
    written: tuple[str, ...] = ()
    armed_in: str = ""
    is_unsettled: bool = False
    cards: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.trying or self.written)


def arguments(text: str | None) -> Arguments:
    """A record that cannot be read tells of none, as none does."""
    if text is None:
        return Arguments()
    try:
        fields = json_fields.parse(text, place="the record of kernel arguments")
        fields.require_schema(SCHEMA)
        return Arguments(
            trying=fields.texts("trying"),
            written=fields.texts("written"),
            armed_in=fields.text("armed_in"),
            is_unsettled=fields.raw("unsettled") is True,
            cards=fields.texts("cards"),
        )
    except RigopsError:
        return Arguments()


def document(record: Arguments) -> str:
    return (
        json.dumps({
            "schema": SCHEMA,
            "trying": list(record.trying),
            "written": list(record.written),
            "armed_in": record.armed_in,
            "unsettled": record.is_unsettled,
            "cards": list(record.cards),
        })
        + "\n"
    )  # fmt: skip
