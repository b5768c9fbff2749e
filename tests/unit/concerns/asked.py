"""Plan, doctor and the self-check, each asked whether a host is as declared."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

import pytest

from rigops.concerns import live_settings
from rigops.hostside.packing import pack
from tests.shards import SHELLS
from tests.unit.hostside.waiting import PATIENCE_S

if TYPE_CHECKING:
    from pathlib import Path
    from types import ModuleType

    from rigops.concerns.live_settings import LiveSettings
    from rigops.doctor.finding import Finding
    from rigops.plan.change import Change

Status = Literal[
    "as declared", "differs", "held", "unknown", "left over", "refused", "absent", "not here"
]
Answer = tuple[str, str, str]
Facts = Mapping[type[Any], object]

BOOT: Final = "7b2f6d0e-54e1-4d3c-9a65-2f3f8d3e5b11"
# What plan, doctor and the self-check say of each.
ANSWERS: Final[Mapping[Status, Answer]] = {
    "as declared": ("no change", "ok", "ok"),
    "differs": ("change", "warn, fix: apply", "warn"),
    "held": ("no change", "info", "ok"),
    "unknown": ("no change", "unknown", "unknown"),
    "left over": ("change", "warn, fix: apply undoes it", "warn"),
    "refused": ("blocked", "fail, fix: hands", "not asked"),
    "absent": ("no change", "ok", "not asked"),
    "not here": ("no change", "ok", "ok"),
}


def one_of_a_kind(rows: Mapping[str, Any], kind: Callable[[Any], object]) -> list[Any]:
    """Their names. `make test` asks the self-check, whose judge is the same, of one a kind."""
    first = {kind(row): name for name, row in reversed(list(rows.items()))}.values()
    in_shard = pytest.mark.shard(SHELLS)
    return [name if name in first else pytest.param(name, marks=in_shard) for name in rows]


@dataclass(frozen=True)
class FakeHost:
    facts: Facts

    def get_fact(self, fact: type[Any]) -> object:
        return self.facts[fact]

    def noop(self, _: str) -> None:
        pass


def collected(patch: pytest.MonkeyPatch, operations: ModuleType, facts: Facts) -> None:
    """Have the operations of a concern find these on their host."""
    host = FakeHost(facts)
    patch.setattr(operations, "host", host)
    patch.setattr(operations, "notice", lambda *_: None)
    patch.setattr(live_settings, "host", host)


def announced(patch: pytest.MonkeyPatch, settings: LiveSettings, **undone: bool) -> list[Change]:
    """By the operation that sets them, or with `declared=` by the one that undoes."""
    found: list[Change] = []
    for name in ("headline", "housekeeping"):
        patch.setattr(live_settings, name, lambda *_: None)
    patch.setattr(live_settings, "may_undo", lambda *_: False)
    patch.setattr(live_settings, "announce", lambda _, change: found.append(change))
    live: Any = live_settings.settings_live
    back: Any = live_settings.settings_undone
    if undone:
        list(back._inner(settings=settings, verb="back", **undone))
    else:
        list(live._inner(settings=settings, command="true", unit=""))
    return found


def by_plan(found: list[Change] | None) -> str:
    return "blocked" if found is None else "change" if found else "no change"


def by_doctor(found: Finding) -> str:
    if found.fix:
        undoes = " undoes it" if found.fix.text.endswith(" undoes it") else ""
        return f"{found.status}, fix: {found.fix.kind}{undoes}"
    return "ok" if found.status == "skipped" else found.status


def by_self_check(root: Path, check: str, subject: str) -> str:
    """Of the packed program, for the host below `root`."""
    said = subprocess.run(
        [sys.executable, "-I", "-c", pack("self_check").text, str(root)],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert said.stderr == ""
    rows = [re.split(" {2,}", line, maxsplit=3) for line in said.stdout.splitlines()]
    assert "rigops.selfcheck" not in {one[1] for one in rows}, said.stdout
    found = [one[0] for one in rows if one[1] == check and one[2].startswith(subject)]
    return found[0] if found else "not asked"
