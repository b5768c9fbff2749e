"""What a plan changes, as the journal has it: settings with their values, files by their names."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from rigops.plan.change import Change, Plan
from rigops.record.journal import MADE, Value

_SHOWN: Final = frozenset({"setting", "argument", "module"})  # others may hold a secret
_MOST_TEXT: Final = 200
_MOST: Final = 100
_NAMED: Final = 4


def values_of(plan: Plan, state: Callable[[str], str] = lambda _: MADE) -> tuple[Value, ...]:
    """`state`: how far a concern came."""
    found = [*_packages(plan, state), *(_value(one, state) for one in plan.changes)]
    return tuple(dict.fromkeys(found))[:_MOST]


def _value(change: Change, state: Callable[[str], str]) -> Value:
    before, after = (
        text and " ".join(text.split())[:_MOST_TEXT] if change.kind in _SHOWN else text and ""
        for text in (change.before, change.after)
    )
    return Value(
        concern=change.concern,
        subject=change.subject,
        before=before,
        after=after,
        state=state(change.concern),
    )


def _packages(plan: Plan, state: Callable[[str], str]) -> Iterator[Value]:
    """Those that change alike are one."""
    for concern, packages in plan.packages_by.items():
        alike: dict[tuple[str | None, str | None], list[str]] = {}
        for one in sorted(packages.every, key=lambda one: one.name):
            alike.setdefault((one.before, one.after), []).append(one.name)
        for (before, after), names in alike.items():
            more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
            yield Value(
                concern=concern,
                subject=", ".join(names[:_NAMED]) + more,
                before=before,
                after=after,
                state=state(concern),
            )
