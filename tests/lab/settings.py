"""KEY=VALUE words: what may be laid over a rig, at `up` and while it runs."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.lab.errors import LabError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

Settings = dict[str, str]


@dataclass(frozen=True)
class _Key:
    accepted: str
    accepts: Callable[[str], bool]
    normal: str = ""  # what an empty value means


def _one_of(*values: str, normal: str) -> _Key:
    return _Key(", ".join(values), lambda value: value in values, normal)


def _matching(pattern: str, accepted: str) -> _Key:
    return _Key(accepted, lambda value: re.fullmatch(pattern, value) is not None)


_ADDRESS = r"[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]"
_HEAT = rf"{_ADDRESS}\+(\d{{2,3}}|fan|na|error|memory-\d{{2,3}})"

KEYS: Mapping[str, _Key] = {
    "p2p": _one_of(
        "default", "granted", "refused", "hang", "wrong", "mirror", "stale", "slow", "one-way",
        "kernel-hang", "loads-wrong", "no-flags", "map-fails", "ipc-refused",
        "crowd-wrong", "crowd-hang", "crowd-slow", "wraps", "unkillable",
        normal="default",
    ),
    "iommu": _one_of("translated", "passthrough", "off", normal=""),
    "cuda": _one_of("ok", "init-hang", normal="ok"),
    "driver": _matching(r"none|\d{3}\.\d+(\.\d+)?", "a version such as 535.261.03, or none"),
    "smi": _one_of("ok", "wedged", "unkillable", normal="ok"),
    "lost": _matching(
        rf"{_ADDRESS}(,{_ADDRESS})*",
        "addresses of the rig's cards such as 0000:0a:00.0, with commas; or nothing",
    ),
    "corrupt": _matching(
        rf"{_ADDRESS}(,{_ADDRESS})*",
        "addresses of the rig's cards such as 0000:0a:00.0, with commas; or nothing",
    ),
    "falls": _matching(
        rf"{_ADDRESS}\+[1-9]\d{{0,4}}(,{_ADDRESS}\+[1-9]\d{{0,4}})*",
        "a number of copies at cards such as 0000:0a:00.0+20, with commas; or nothing",
    ),
    "waits": _one_of(
        "", "init", "copy", "rigops_store", "rigops_load", "rigops_ping_pong", "crowd", "ipc",
        "all-reduce", "all-reduce-p2p",
        normal="",
    ),
    "load": _one_of("idle", "step", normal="idle"),
    "remap": _matching(
        rf"{_ADDRESS}(,{_ADDRESS})*",
        "addresses of the rig's cards such as 0000:01:00.0, with commas; or nothing",
    ),
    "aer": _matching(
        rf"{_ADDRESS}\+\d{{1,9}}(,{_ADDRESS}\+\d{{1,9}})*",
        "errors at cards or ports such as 0000:00:03.1+250, with commas; or nothing",
    ),
    "heat": _matching(
        rf"{_HEAT}(,{_HEAT})*",
        "what cards have such as 0000:0a:00.0+95 (degrees at the default limit), +fan, +na, +error"
        " or +memory-90, with commas; or nothing",
    ),
    "latency": _matching(r"\d{1,5}(\.\d+)?", "milliseconds of a round trip, or nothing"),
    "cut": _matching(r"[1-9]\d*", "bytes after which a connection is dropped, or nothing"),
    "secure_boot": _one_of("on", "off", normal="off"),
    "pocket": _one_of("on", "off", normal="on"),
    "suite": _one_of("bookworm", "trixie", normal="bookworm"),
    "containers": _one_of("on", "off", normal="off"),
}  # fmt: skip


def parse(words: Iterable[str]) -> Settings:
    settings: Settings = {}
    for word in words:
        name, sign, value = word.partition("=")
        key = KEYS.get(name)
        if key is None or not sign:
            raise LabError(f"{word!r}: not KEY=VALUE with a KEY of {', '.join(KEYS)}")
        if value and not key.accepts(value):
            raise LabError(f"{word}: {name} takes {key.accepted}")
        settings[name] = value or key.normal
    return settings
