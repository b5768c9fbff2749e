"""One value as nvidia-smi writes it, into one that can be reckoned with."""

from __future__ import annotations

import re

_ABSENT = frozenset(
    ("", "-", "n/a", "none", "not found", "no data", "unknown", "function not found",
     "insufficient permissions", "no permission")
)  # fmt: skip
_ABSENT_BEGINNINGS = ("not supported", "not available", "requested functionality has been")
_TROUBLE = re.compile(
    r"err!|unknown error|gpu is lost\b.{0,80}|gpu requires reset|corrupted inforom|timeout"
    r"|insufficient external power|interrupt request issue|gpu access blocked.{0,80}"
)
_LONGEST = 200  # of a value that can mean anything
_NUMBER = re.compile(r"(?P<number>-?[0-9]{1,15}(?:\.[0-9]{1,9})?)\s?(?P<unit>[a-z%]{0,4})")
_SWITCH = {
    "enabled": True, "disabled": False, "yes": True, "no": False,
    "active": True, "not active": False, "on": True, "off": False,
}  # fmt: skip


def bare(value: str) -> str:
    """Without the brackets of `[N/A]`."""
    value = value.strip()
    bracketed = value.startswith("[") and value.endswith("]")
    return value[1:-1].strip() if bracketed else value


def is_absent(value: str) -> bool:
    plain = bare(value)[:_LONGEST].lower()
    return plain in _ABSENT or plain.startswith(_ABSENT_BEGINNINGS)


def is_trouble(value: str) -> bool:
    plain = bare(value)
    return len(plain) <= _LONGEST and _TROUBLE.fullmatch(plain.lower()) is not None


def words(value: str) -> str:
    return value.strip()


def switch(value: str) -> bool | None:
    return _SWITCH.get(bare(value).lower())


def count(value: str) -> int | None:
    number = _number(value, ("",))
    return int(number) if number and number.isdecimal() else None


def lanes(value: str) -> int | None:
    number = _number(value, ("x", ""))
    return int(number) if number and number.isdecimal() else None


def percent(value: str) -> int | None:
    number = _number(value, ("%",))
    return int(number) if number and number.isdecimal() else None


def mebibytes(value: str) -> int | None:
    number = _number(value, ("mib", "mb"))
    return int(number) if number and number.isdecimal() else None


def megahertz(value: str) -> int | None:
    number = _number(value, ("mhz",))
    return int(number) if number and number.isdecimal() else None


def celsius(value: str) -> float | None:
    number = _number(value, ("c",))
    return float(number) if number else None


def watts(value: str) -> float | None:
    number = _number(value, ("w",))
    return float(number) if number and not number.startswith("-") else None


def _number(value: str, units: tuple[str, ...]) -> str | None:
    shape = _NUMBER.fullmatch(value.strip()[:_LONGEST].lower())
    return shape["number"] if shape and shape["unit"] in units else None
