"""Two records about kernel arguments, for what no file of rigops' own can say.

`Arguments`: those to be tried, which nothing that a bootloader's tools read has before a boot with
them was verified, and those that rigops wrote into a foreign file.

Leaving arguments are gone from the boot menu while the kernel still runs with them. That record is
written before the menu changes, so that neither a crash nor a refused reboot loses the reboot
reason. It is about one boot: after the next it means nothing.
"""

from __future__ import annotations

from dataclasses import field
from typing import Final

from rigops.dataclass import dataclass
from rigops.json_dataclass import NAME, document, parse
from rigops.json_fields import readable

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
    is_unsettled: bool = field(default=False, metadata={NAME: "unsettled"})
    cards: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.trying or self.written)


def parse_arguments(text: str) -> Arguments:
    """Raises RigopsError: an unreadable record is not an empty one."""
    place, required = "the record of kernel arguments", ("trying", "written", "armed_in", "cards")
    return parse(Arguments, text, schema=_SCHEMA, place=place, required=required)


def read_arguments(text: str | None) -> Arguments:
    """For what is only shown: an unreadable record counts as none."""
    return readable(parse_arguments, text) or Arguments()


def arguments_document(record: Arguments) -> str:
    return document(_SCHEMA, record, indent=None)


@dataclass(frozen=True)
class Leaving:
    boot_id: str
    arguments: tuple[str, ...]


def read_leaving(text: str | None, boot_id: str | None) -> tuple[str, ...]:
    """An unreadable record counts as none."""
    found = readable(_parse_leaving, text)
    return found.arguments if found and found.boot_id == boot_id else ()


def leaving_document(arguments: tuple[str, ...], boot_id: str) -> str:
    return document(LEAVING_SCHEMA, Leaving(boot_id, arguments), indent=None)


def _parse_leaving(text: str) -> Leaving:
    place = "the record of leaving arguments"
    return parse(Leaving, text, schema=LEAVING_SCHEMA, place=place)
