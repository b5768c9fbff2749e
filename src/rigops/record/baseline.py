"""The baseline of a host: the facts that doctor compares later visits with.

On the machine that rigops runs on. A fact that is None was not collected or not reported then,
which is neither equal to anything nor different.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from pathlib import Path
from typing import Final

from rigops.dataclass import dataclass
from rigops.json_dataclass import Time, document, parse
from rigops.record import host_file

FOLDER: Final = "baselines"
_SCHEMA: Final = "rigops.baseline/1"


@dataclass(frozen=True, kw_only=True)
class BaselineCard:
    """`generation`: of PCIe, the highest that the card and its slot have together."""

    address: str
    name: str
    uuid: str | None = None
    lanes: int | None = None
    generation: int | None = None
    bar1_mib: int | None = None
    vbios: str | None = None
    nvlinks: int | None = None  # that are up
    watts_limit: float | None = None
    watts_default: float | None = None
    mhz_application: int | None = None  # of graphics
    watts: float | None = None
    celsius: float | None = None
    utilization_percent: int | None = None


@dataclass(frozen=True)
class MemoryModule:
    place: str
    mib: int


@dataclass(frozen=True, kw_only=True)
class Baseline:
    """`machine`: its network cards and GPUs; another machine has none of them.

    `cards`: of a bus that was read to its end. `counters`: of errors by kind and place; a kind that
    is absent was not collected.
    """

    host: str
    at: Time
    by: str  # the command
    who: str
    machine: tuple[str, ...] = ()
    board: str | None = None
    boot_id: str | None = None
    driver: str | None = None
    bios: str | None = None
    cards: tuple[BaselineCard, ...] | None = None
    modules: tuple[MemoryModule, ...] | None = None
    channels: int | None = None  # with a memory module
    memory_kib: int | None = None  # that the kernel has
    counters: Mapping[str, Mapping[str, int]] = field(default_factory=dict)

    @property
    def day(self) -> str:
        return self.at[:10]

    def to_json(self) -> str:
        return document(_SCHEMA, self)

    @classmethod
    def from_json(cls, text: str, *, place: str = "the baseline") -> Baseline:
        return parse(cls, text, schema=_SCHEMA, place=place, fix=host_file.FIX)


def path_of(host: str) -> Path:
    return host_file.path_of(FOLDER, host)


def read(host: str) -> Baseline | None:
    text = host_file.read(FOLDER, host)
    return Baseline.from_json(text, place=str(path_of(host))) if text is not None else None


def write(baseline: Baseline) -> Path:
    return host_file.write(FOLDER, baseline.host, baseline.to_json())
