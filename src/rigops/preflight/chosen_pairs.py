"""The pairs of GPUs that `--pairs` names: by PCI address, or by number in the order of the bus."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final

from rigops.errors import usage_error
from rigops.numbers import whole
from rigops.preflight.found import GpuSeen
from rigops.probe import address

NOT_CHOSEN: Final = "not one of the pairs that were asked for"

_OPTION: Final = "--pairs"
_GPU: Final = r"(?:[0-9a-f]{4,8}:)?[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]|[0-9]{1,3}"
_PAIR: Final = re.compile(rf"({_GPU}):({_GPU})", re.IGNORECASE)


def parse_pairs(words: Iterable[str]) -> tuple[tuple[str, str], ...]:
    """Raises UsageError for what is no pair, whatever GPUs there are."""
    return tuple(map(_pair, words))


def _pair(word: str) -> tuple[str, str]:
    shape = _PAIR.fullmatch(word)
    if shape is None:
        raise usage_error(
            message="not a pair of GPUs",
            key=_OPTION,
            value=word,
            accepted="two GPUs with a colon between, such as 0:1 or 0a:00.0:0b:00.0",
        )
    return shape[1].lower(), shape[2].lower()


def resolve_pairs(
    named: Iterable[tuple[str, str]], gpus: Sequence[GpuSeen], host: str
) -> frozenset[tuple[str, str]]:
    """Addresses, both directions of each pair. Raises UsageError for a GPU that is absent."""
    found: set[tuple[str, str]] = set()
    for one, other in named:
        pair = _resolve(one, gpus, host), _resolve(other, gpus, host)
        if pair[0] == pair[1]:
            raise usage_error(
                message="a pair needs two different GPUs",
                host=host,
                key=_OPTION,
                value=f"{one}:{other}",
                accepted=_listed(gpus),
            )
        found.update((pair, pair[::-1]))
    return frozenset(found)


def _resolve(word: str, gpus: Sequence[GpuSeen], host: str) -> str:
    addresses = [gpu.address for gpu in gpus]
    number = whole(word)
    if number is not None:
        if number < len(addresses):
            return addresses[number]
    elif (known := address.normal(word)) in addresses and known:
        return known
    raise usage_error(
        message="CUDA lists no such GPU",
        host=host,
        key=_OPTION,
        value=word,
        accepted=_listed(gpus),
    )


def _listed(gpus: Sequence[GpuSeen]) -> str:
    return ", ".join(f"{number} or {gpu.address}" for number, gpu in enumerate(gpus))
