"""Pseudonyms: the same for the same name, and in the shape that a parser expects."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from itertools import count
from typing import Final, Literal

WordKind = Literal["host", "user", "serial", "wifi", "path"]

_DOCUMENTATION: Final = tuple(
    IPv4Network(one)
    for one in ("192.0.2.0/24", "198.51.100.0/24", "203.0.113.0/24", "198.18.0.0/15")
)
_DOCUMENTATION_6: Final = IPv6Network("2001:db8::/32")
_WORD: Final = re.compile(r"(?:host|user|serial|wifi|path)-[0-9]{1,9}")
_UUID: Final = re.compile(r"0{20}[0-9]{12}")
_HARDWARE: Final = re.compile(r"02(?:00)*[0-9]{6}")
# A text that already looks like a pseudonym stays, and its number is not given to another name.
_TAKEN: Final = re.compile(
    r"(?<![0-9A-Za-z])(?:(?:host|user|serial|wifi|path)-[0-9]{1,9}"
    r"|0{8}-?0{4}-?0{4}-?0{4}-?[0-9]{12}|02(?:[:-]?00){2,16}(?:[:-]?[0-9]{2}){3}"
    r"|(?:192\.0\.2|198\.51\.100|203\.0\.113|198\.1[89]\.[0-9]{1,3})\.[0-9]{1,3}"
    r"|2001:db8::[0-9]{1,4})(?![0-9A-Za-z])"
)


class Pseudonyms:
    def __init__(self, texts: Iterable[str]) -> None:
        self._taken = {found.lower() for text in texts for found in _TAKEN.findall(text)}
        self._given: dict[tuple[str, str], str] = {}
        self._numbers: dict[str, Iterator[int]] = defaultdict(lambda: count(1))

    def word(self, kind: WordKind, value: str) -> str:
        return value if is_pseudonym(value) else self._of(kind, value, lambda n: f"{kind}-{n}")

    def same(self, kind: WordKind, value: str, other: str) -> None:
        """`other` is one more name of the same thing."""
        if not is_pseudonym(other):
            self._given.setdefault((kind, other), self.word(kind, value))

    def uuid(self, value: str) -> str:
        digits = _digits(value)
        if _UUID.fullmatch(digits):
            return value
        return _shaped(value, self._of("uuid", digits, lambda n: f"{n:032d}"))

    def hardware(self, value: str) -> str:
        """A MAC address, or a longer one of its kind, with or without separators."""
        digits = _digits(value)
        if _HARDWARE.fullmatch(digits) or set(digits) <= {"0"} or set(digits) <= {"f"}:
            return value
        length = len(digits)

        def spelled(number: int) -> str:
            text = "02" + "0" * (length - 8) + f"{number:06d}"
            return ":".join(text[at : at + 2] for at in range(0, length, 2))

        given = self._of(f"hardware {length}", digits, spelled)
        return _shaped(value, given.replace(":", ""))

    def short(self, value: str) -> str:
        """An identifier of any other length: as many digits, in the same groups."""
        digits = _digits(value)
        if digits.startswith("0") and digits.isdigit():
            return value
        return _shaped(value, self._of("short", digits, lambda n: f"{n:0{len(digits)}d}"))

    def address(self, value: str) -> str:
        address = ip_address(value)
        if not is_identifying(address):
            return value
        if isinstance(address, IPv4Address):
            return self._of("ipv4", str(address), _spelled_ipv4)
        return self._of("ipv6", str(address), lambda n: f"2001:db8::{n}")

    def _of(self, kind: str, value: str, spelled: Callable[[int], str]) -> str:
        key = (kind, value)
        if key not in self._given:
            free = (one for one in map(spelled, self._numbers[kind]) if one not in self._taken)
            self._given[key] = next(free)
        return self._given[key]


def is_pseudonym(word: str) -> bool:
    return _WORD.fullmatch(word) is not None


def is_identifying(address: IPv4Address | IPv6Address) -> bool:
    """Whether it identifies a host: no loopback, netmask or documentation address."""
    if address.is_loopback or address.is_unspecified or address.is_multicast:
        return False
    if isinstance(address, IPv6Address):
        return address not in _DOCUMENTATION_6
    is_mask = address.packed[0] in {0, 255}
    return not is_mask and not any(address in network for network in _DOCUMENTATION)


def _spelled_ipv4(number: int) -> str:
    for network in _DOCUMENTATION:
        usable = network.num_addresses - 2
        if number <= usable:
            return str(network[number])
        number -= usable
    return str(_DOCUMENTATION[-1][-2])


def _digits(value: str) -> str:
    return re.sub(r"[^0-9a-z]", "", value.lower())


def _shaped(value: str, digits: str) -> str:
    source = iter(digits)
    return "".join(next(source) if one.isalnum() else one for one in value)
