"""Judges what a self-check has seen of settings, by what plan and doctor judge by."""

from __future__ import annotations

import platform
import re
from contextlib import suppress
from typing import TYPE_CHECKING, Final, NamedTuple

from rigops.concerns.cpu_tuning.state import (
    CHECK,
    NOTHING_SCALES,
    RECORD,
    Declared,
    judge_policies,
    was_set,
)
from rigops.concerns.gpu_tuning.state import Lowered, Shown, Wanted, WasSet, judge_cards
from rigops.concerns.monitoring.checking.findings import Answer, Found, clean, parse_answer, unknown
from rigops.concerns.state import LEFT_OVER, NOT_HERE, SELF_CHECK, State

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from rigops.concerns.monitoring.checking.records import Records

_NUMBER: Final = re.compile(r"[0-9]{1,9}")
_VALUES: Final = ("setting\t", "was_set\t")


def _found(source: str, states: Sequence[State]) -> list[Found]:
    return [
        Found(
            SELF_CHECK[state.status],
            state.check,
            clean(state.subject),
            clean(state.text),
            source,
        )
        for state in states
    ]


# ---- the cards


def judge_cards_answer(source: str, output: str, records: Records) -> Answer:
    """What `gpu_tuning check` prints, with findings of its values.

    A line of those has tabs between `setting CARD ADDRESS SETTING VALUE NOW MOST TROUBLE` or
    `was_set CARD ADDRESS SETTING VALUE WAS`. A program of an older rigops prints none: it judges
    itself.
    """
    lines = output.splitlines()
    values = [line.split("\t") for line in lines if line.startswith(_VALUES)]
    answer = parse_answer(source, "\n".join(one for one in lines if not one.startswith(_VALUES)))
    if "gpu_settings" not in answer.metrics:
        return parse_answer(source, output)
    try:
        states = _states(values, records)
        # Of a table that was not read to its end, nothing is left over.
        found = [one for one in states if one.status != LEFT_OVER or answer.is_whole]
        answer.findings += _found(source, found)
    except (TypeError, ValueError, KeyError) as error:
        return unknown(source, f"its check printed no values: {type(error).__name__}")
    if answer.is_whole:
        answer.metrics["limit_drift"] = float(sum(one.is_to_change for one in states))
    answer.is_whole = answer.is_whole and all(one.status != "unknown" for one in answer.findings)
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


# ---- the CPU


class _Policy(NamedTuple):
    number: int
    driver: str
    governor: str
    governors: tuple[str, ...]
    max_khz: int | None
    least_khz: int | None
    most_khz: int | None
    steps_khz: tuple[int, ...]
    line: str = ""


def judge_cpu(source: str, root: Path, words: Sequence[str]) -> Answer:
    """`words`: of the command that sets it: its program, `check`, governor and kHz, or `-`."""
    try:
        governor, khz = words[2:4]
        declared = Declared(None if governor == "-" else governor, None if khz == "-" else int(khz))
        policies = list(_policies(root))
        boot_id = (root / "proc/sys/kernel/random/boot_id").read_text().strip()
        record = root / RECORD.lstrip("/")
        was = was_set(record.read_text() if record.exists() else "", boot_id)
        states = judge_policies(declared, policies, was, _loadable(root))
    except (OSError, ValueError) as error:
        return unknown(source, f"the CPU policies cannot be read: {type(error).__name__}")
    if not policies:
        states = [State(CHECK, "host", "CPU policies", "", "", NOT_HERE, NOTHING_SCALES)]
    found = _found(source, states)
    return Answer(found, is_whole=all(one.status != "unknown" for one in found))


def _policies(root: Path) -> Iterator[_Policy]:
    """Those with a CPU online."""
    for folder in sorted((root / "sys/devices/system/cpu/cpufreq").glob("policy[0-9]*")):
        governor, driver = _word(folder / "scaling_governor"), _word(folder / "scaling_driver")
        if not (governor and driver):
            continue
        highest, least, most = (
            int(value) if _NUMBER.fullmatch(value) else None
            for value in (
                _word(folder / name)
                for name in ("scaling_max_freq", "cpuinfo_min_freq", "cpuinfo_max_freq")
            )
        )
        governors = _word(folder / "scaling_available_governors").split()
        steps = filter(_NUMBER.fullmatch, _word(folder / "scaling_available_frequencies").split())
        yield _Policy(
            int(folder.name[len("policy") :]),
            driver,
            governor,
            tuple(governors),
            highest,
            least,
            most,
            tuple(map(int, steps)),
        )


def _word(path: Path) -> str:
    with suppress(OSError):
        return path.read_text().strip()
    return ""


def _loadable(root: Path) -> set[str]:
    modules = root / "lib/modules" / platform.release() / "kernel/drivers/cpufreq"
    return {
        path.name[len("cpufreq_") :].partition(".")[0] for path in modules.glob("cpufreq_*.ko*")
    }
