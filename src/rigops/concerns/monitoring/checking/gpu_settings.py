"""Judges what `gpu_tuning check` prints, by what plan and doctor judge by.

A line has tabs between `setting CARD ADDRESS SETTING VALUE NOW MOST TROUBLE` or
`was_set CARD ADDRESS SETTING VALUE WAS`.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Final

from rigops.concerns.gpu_tuning.state import (
    CHECKS,
    Lowered,
    Shown,
    Wanted,
    WasSet,
    describe,
    judge_cards,
)
from rigops.concerns.monitoring.checking.findings import Answer, Found, clean, parse_answer, unknown
from rigops.concerns.state import AS_DECLARED, DIFFERS, HELD, LEFT_OVER, UNKNOWN

if TYPE_CHECKING:
    from rigops.concerns.monitoring.checking.records import Records
    from rigops.concerns.state import State

_VALUES: Final = ("setting\t", "was_set\t")
_STATUSES: Final = {
    AS_DECLARED: "ok",
    DIFFERS: "warn",
    HELD: "ok",
    UNKNOWN: "unknown",
    LEFT_OVER: "warn",
}


def judge_answer(source: str, output: str, records: Records) -> Answer:
    """With findings of its values. A program of an older rigops prints none: it judges itself."""
    lines = output.splitlines()
    values = [line.split("\t") for line in lines if line.startswith(_VALUES)]
    answer = parse_answer(source, "\n".join(one for one in lines if not one.startswith(_VALUES)))
    if "gpu_settings" not in answer.metrics:
        return parse_answer(source, output)
    try:
        states = _states(values, records)
        found = [
            Found(
                _STATUSES[one.status],
                CHECKS[one.key],
                clean(f"gpu {one.subject}"),
                clean(describe(one)),
                source,
            )
            for one in states
            # Of a table that was not read to its end, nothing is left over.
            if one.status != LEFT_OVER or answer.is_whole
        ]
    except (TypeError, ValueError, KeyError) as error:
        return unknown(source, f"its check printed no values: {type(error).__name__}")
    answer.findings += found
    if answer.is_whole:
        answer.metrics["limit_drift"] = float(sum(one.is_to_change for one in states))
    answer.is_whole = answer.is_whole and all(one.status != "unknown" for one in found)
    return answer


def _states(lines: list[list[str]], records: Records) -> list[State]:
    shown, was_set = [], []
    for kind, card, address, setting, value, *more in lines:
        if kind == "setting":
            shown.append((Wanted(card, address, setting, value), Shown(*more)))
        else:
            (was,) = more
            was_set.append(WasSet(card, address, setting, value, "" if was == "-" else was))
    return judge_cards(shown, was_set, _lowered(records))


def _lowered(records: Records) -> dict[str, Lowered]:
    """By UUID and by address."""
    with suppress(OSError, ValueError, KeyError, TypeError):
        state = records.read("thermal_guard.json", "run/rigops") or {"cards": []}
        return {
            str(one[key]): Lowered(float(one["watts"]), clean(str(one["why"])))
            for one in state["cards"]
            if one["watts"] is not None
            for key in ("uuid", "address")
        }
    return {}
