"""Readings of nvidia-smi, one call at a time, for which nobody ever waits; the guard's settings."""

from __future__ import annotations

import os
import re
import subprocess
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


NONE, NOTIFY, LOWER_POWER, STOP_JOBS, POWEROFF = 0, 1, 2, 3, 4
STEPS = ("none", "notify", "lower-power", "stop-jobs", "poweroff")

FIELDS = (
    "pci.bus_id", "uuid", "temperature.gpu", "temperature.memory", "power.draw", "power.limit",
    "power.min_limit", "power.default_limit",
)  # fmt: skip
MARGIN = "temperature.gpu.tlimit"  # asked only where a margin is declared: older ones refuse it

_BUS = re.compile(r"(?:[0-9a-f]{4})?([0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7])")
_UUID = re.compile(r"GPU-[0-9A-Za-z-]{1,80}")
_NUMBER = re.compile(r"-?[0-9]{1,5}(?:\.[0-9]{1,4})?")
_COLDEST, _HOTTEST = 0.0, 150.0  # what is outside was not measured


class GuardSettings(NamedTuple):
    """Degrees Celsius; None: not declared. `action` and `loss`: the last steps allowed."""

    gpu: float | None = None
    memory: float | None = None
    margin: float | None = None
    hold_s: float = 30.0
    action: int = LOWER_POWER
    loss: int = LOWER_POWER


class Reading(NamedTuple):
    """None: not reported, or nothing that can be believed. `raw`: the temperature as printed."""

    uuid: str
    address: str
    celsius: float | None = None
    memory: float | None = None
    margin: float | None = None
    draw: float | None = None
    limit: float | None = None
    least: float | None = None
    default: float | None = None
    raw: str = ""


def parse_settings(text: str) -> GuardSettings:
    """Of lines KEY VALUE. ValueError: it has something else."""
    found: dict[str, str] = {}
    for line in text.splitlines():
        if line.strip() and not line.startswith("#"):
            name, _, value = line.strip().partition(" ")
            found[name] = value
    degrees = {
        name: float(found.pop(name)) if name in found else None
        for name in ("gpu", "memory", "margin")
    }
    settings = GuardSettings(
        gpu=degrees["gpu"],
        memory=degrees["memory"],
        margin=degrees["margin"],
        hold_s=float(found.pop("hold")),
        action=STEPS.index(found.pop("action")),
        loss=STEPS.index(found.pop("sensor-loss")),
    )
    if found or not (settings.action and settings.loss):
        raise ValueError(", ".join(found) or "none is no last step")
    return settings


def query_fields(settings: GuardSettings) -> tuple[str, ...]:
    return FIELDS if settings.margin is None else (*FIELDS, MARGIN)


def parse_readings(text: str) -> list[Reading]:
    """The rows that name a card; what nvidia-smi says besides is no reading."""
    return [one for line in text.splitlines() for one in _rows(line)]


def _rows(line: str) -> Iterator[Reading]:
    words = [word.strip() for word in line.split(",")]
    bus = _BUS.fullmatch(words[0].lower())
    if bus is None or len(words) < len(FIELDS) or not _UUID.fullmatch(words[1]):
        return
    numbers = [_number(word) for word in words]
    margin = numbers[len(FIELDS)] if len(words) > len(FIELDS) else None
    yield Reading(
        uuid=words[1],
        address=bus[1],
        celsius=_degrees(numbers[2]),
        memory=_degrees(numbers[3]),
        draw=numbers[4],
        limit=numbers[5],
        least=numbers[6],
        default=numbers[7],
        margin=margin,
        raw=words[2][:40],
    )


def _number(word: str) -> float | None:
    return float(word) if _NUMBER.fullmatch(word) else None


def _degrees(celsius: float | None) -> float | None:
    return celsius if celsius is not None and _COLDEST < celsius < _HOTTEST else None


_MOST_BYTES = 256 * 1024
_NOT_STARTED = 127


class Answer(NamedTuple):
    """`code`: None where it did not end in time. `asked`: when it was started."""

    purpose: str
    asked: float
    code: int | None
    text: str


class _Call(NamedTuple):
    purpose: str
    asked: float
    process: subprocess.Popen[bytes]
    output: int


class Smi:
    """A call that waits in the kernel cannot be ended: until it has, no other is made."""

    def __init__(self, answer_s: float) -> None:
        self._answer_s = answer_s
        self._call: _Call | None = None
        self._failed: Answer | None = None
        self.is_stuck = False

    @property
    def is_busy(self) -> bool:
        return self._call is not None or self._failed is not None

    def start(self, now: float, purpose: str, arguments: Sequence[str]) -> None:
        output = os.memfd_create("nvidia-smi")  # no disk has to have room for it
        try:
            process = subprocess.Popen(
                ["nvidia-smi", *arguments],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd="/",
                start_new_session=True,
            )
        except OSError as error:
            os.close(output)
            text = f"nvidia-smi cannot be started: {error.strerror}"
            self._failed = Answer(purpose, now, _NOT_STARTED, text)
        else:
            self._call = _Call(purpose, now, process, output)

    def poll(self, now: float) -> Answer | None:
        """The result of the call, once."""
        call = self._call
        if call is None:
            failed, self._failed = self._failed, None
            return failed
        code = call.process.poll()
        if code is None:
            if self.is_stuck or now - call.asked < self._answer_s:
                return None
            self.is_stuck = True
            call.process.kill()
            return Answer(call.purpose, call.asked, None, "")
        was_stuck, self.is_stuck, self._call = self.is_stuck, False, None
        text = os.pread(call.output, _MOST_BYTES, 0).decode("utf-8", "replace")
        os.close(call.output)
        return None if was_stuck else Answer(call.purpose, call.asked, code, text)
