"""How warm each card mostly is at a given power, and whether it is much warmer now. Pure.

No driver reports whether a fan turns: its speed is the one that is asked for. A fan that has failed
shows as a card that is warmer than it mostly is at the same power.
"""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rigops.concerns.thermal_guard.guard.readings import Reading

BUCKET_WATTS = 25
WARMER_CELSIUS = 10.0
LEAST_SAMPLES = 5
_MOST_SAMPLES = 40
_SETTLE_HOLDS, _SETTLE_S = 20, 600.0  # at one power, and the temperature has settled
_PAUSE_HOLDS, _PAUSE_S = 720, 6 * 3600.0  # between two samples
_BUSY_SHARE = 0.3  # of the default limit; below that, fans rest and neighbors warm a card
_BACK_CELSIUS = 3.0


class _Settled(NamedTuple):
    """At this power since then."""

    bucket: int
    since: float


class Baselines:
    """`samples`: degrees by UUID and watts."""

    def __init__(
        self, hold_s: float, samples: Mapping[str, Mapping[int, list[float]]] | None = None
    ) -> None:
        self.samples = {
            uuid: {watts: list(found) for watts, found in each.items()}
            for uuid, each in (samples or {}).items()
        }
        self.is_changed = False
        self._settle_s = min(_SETTLE_S, _SETTLE_HOLDS * hold_s)
        self._pause_s = min(_PAUSE_S, _PAUSE_HOLDS * hold_s)
        self._settled: dict[str, _Settled] = {}
        self._sampled: dict[tuple[str, int], float] = {}
        self._warned: dict[str, str] = {}

    def interrupt(self, uuid: str) -> None:
        """Another program changes its power."""
        self._settled.pop(uuid, None)

    def warning(self, now: float, reading: Reading) -> str:
        """The message on it as long as it is too warm."""
        draw, celsius, uuid = reading.draw, reading.celsius, reading.uuid
        if draw is None or celsius is None or draw < _BUSY_SHARE * (reading.default or 0.0):
            self.interrupt(uuid)
            self._warned.pop(uuid, None)
            return ""
        settled = self._settled.get(uuid)
        # Twice as wide as a bucket, so that a power between two of them is settled too.
        if settled is None or abs(draw - settled.bucket - BUCKET_WATTS / 2) > BUCKET_WATTS:
            settled = _Settled(int(draw // BUCKET_WATTS) * BUCKET_WATTS, now)
            self._settled[uuid] = settled
        if now - settled.since >= self._settle_s:
            self._compare(now, uuid, settled.bucket, celsius)
        return self._warned.get(uuid, "")

    def _compare(self, now: float, uuid: str, bucket: int, celsius: float) -> None:
        samples = self.samples.setdefault(uuid, {}).setdefault(bucket, [])
        usual = median(samples) if len(samples) >= LEAST_SAMPLES else None
        if usual is not None and celsius >= usual + WARMER_CELSIUS:
            self._warned.setdefault(
                uuid,
                f"it is at {celsius:g} °C with {bucket} to {bucket + BUCKET_WATTS} W, and mostly "
                f"at {usual:g} °C: look at its fan, at dust and at the air around it",
            )
            return
        if usual is None or celsius < usual + WARMER_CELSIUS - _BACK_CELSIUS:
            self._warned.pop(uuid, None)
        # A far too warm reading is no sample, or a failed fan would be normal one day.
        last = self._sampled.get((uuid, bucket))
        if last is None or now - last >= self._pause_s:
            samples.append(celsius)
            del samples[:-_MOST_SAMPLES]
            self._sampled[uuid, bucket] = now
            self.is_changed = True
