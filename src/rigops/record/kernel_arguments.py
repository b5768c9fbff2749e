"""Two records about kernel arguments, for what no file of rigops' own can say.

`Arguments`: those to be tried, which nothing that a bootloader's tools read has before a boot with
them was verified, and those that rigops wrote into somebody else's file.

Leaving arguments are gone from the boot menu while the kernel still runs with them. That record is
written before the menu changes, so that neither a crash nor a refused reboot loses the reboot
reason. It is about one boot: after the next it means nothing.
"""

from __future__ import annotations

import json
from typing import Final

from rigops import json_fields
from rigops.dataclass import dataclass
from rigops.errors import RigopsError

UNREADABLE_FIX: Final = (
    "repair it from a backup; where there is none, remove by hand the kernel arguments that rigops "
    "added, and move it away"
)

_SCHEMA: Final = "rigops.kernel_args/1"
LEAVING_SCHEMA: Final = "rigops.leaving/1"


@dataclass(frozen=True)
class Arguments:
    """`armed_in`: the boot id of the boot in which the trial was ordered; empty where it is not.

    `cards`: the addresses of those that were there then.
    `is_unsettled`: files of others were about to be changed, and no run saw the end of it; then
    `written` has all that may be in them.
    """

    trying: tuple[str, ...] = ()
    written: tuple[str, ...] = ()
    armed_in: str = ""
    is_unsettled: bool = False
    cards: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.trying or self.written)


def parse_arguments(text: str) -> Arguments:
    """Raises RigopsError: an unreadable record is not an empty one."""
    fields = json_fields.parse(text, place="the record of kernel arguments")
    fields.require_schema(_SCHEMA)
    return Arguments(
        trying=fields.texts("trying"),
        written=fields.texts("written"),
        armed_in=fields.text("armed_in"),
        is_unsettled=fields.raw("unsettled") is True,
        cards=fields.texts("cards"),
    )


def read_arguments(text: str | None) -> Arguments:
    """For what is only shown: an unreadable record counts as none."""
    try:
        return Arguments() if text is None else parse_arguments(text)
    except RigopsError:
        return Arguments()


def arguments_document(record: Arguments) -> str:
    return (
        json.dumps({
            "schema": _SCHEMA,
            "trying": list(record.trying),
            "written": list(record.written),
            "armed_in": record.armed_in,
            "unsettled": record.is_unsettled,
            "cards": list(record.cards),
        })
        + "\n"
    )  # fmt: skip


def read_leaving(text: str | None, boot_id: str | None) -> tuple[str, ...]:
    """An unreadable record counts as none."""
    if text is None or boot_id is None:
        return ()
    try:
        fields = json_fields.parse(text, place="the record of leaving arguments")
        fields.require_schema(LEAVING_SCHEMA)
        return fields.texts("arguments") if fields.text("boot_id") == boot_id else ()
    except RigopsError:
        return ()


def leaving_document(arguments: tuple[str, ...], boot_id: str) -> str:
    return (
        json.dumps({"schema": LEAVING_SCHEMA, "boot_id": boot_id, "arguments": list(arguments)})
        + "\n"
    )
