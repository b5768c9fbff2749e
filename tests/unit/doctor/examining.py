"""A rig in texts, examined."""

from __future__ import annotations

from functools import cache
from types import MappingProxyType
from typing import TYPE_CHECKING

from rigops.catalog import Catalog, load
from rigops.doctor.registry import examine
from rigops.probe import facts
from rigops.spec import RigSpec, read
from tests.unit.probe import answers

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rigops.doctor.finding import Finding

NOTHING: Mapping[str, str | None] = MappingProxyType({})
EVERY_CONCERN = frozenset({"nvidia_driver", "kernel_args"})


@cache
def catalog() -> Catalog:
    return load()


def spec(**declared: object) -> RigSpec:
    return read(declared)


def look(
    check: str,
    declared: RigSpec | None = None,
    *,
    concerns: frozenset[str] = EVERY_CONCERN,
    cut: dict[str, int] | None = None,
    instead: Mapping[str, str | None] = NOTHING,
    **changed: str | None,
) -> Finding:
    """One finding on the broken rig, with sections changed, or lost where None.

    `changed` are the same as `instead`, with _ for - in the names.
    """
    spelled = {name.replace("_", "-"): text for name, text in changed.items()}
    sections = {**answers.BROKEN, **instead, **spelled}
    texts = {name: text for name, text in sections.items() if text is not None}
    known = facts.read(answers.bundle(texts, **(cut or {})))
    found = examine(known, declared, catalog(), concerns=concerns)
    (finding,) = [one for one in found if one.id == check]
    return finding
