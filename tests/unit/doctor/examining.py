"""A rig in texts, examined."""

from __future__ import annotations

from functools import cache
from types import MappingProxyType
from typing import TYPE_CHECKING

from rigops.catalog import Catalog, load
from rigops.concerns.registry import read
from rigops.doctor.registry import CHECKS, examine
from rigops.probe.bundle import Bundle, Collected
from rigops.probe.section import Section
from rigops.probe.snapshot import Answer, HostSnapshot
from tests.unit.probe import answers

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from rigops.doctor.check import Check
    from rigops.doctor.finding import Finding
    from rigops.inventory.spec import RigSpec

NOTHING: Mapping[str, str | None] = MappingProxyType({})
EVERY_CONCERN = frozenset({"nvidia_driver", "kernel_args"})


@cache
def catalog() -> Catalog:
    return load()


def snapshot_of(
    base: HostSnapshot | None = None,
    *,
    cut: Collection[str] = (),
    timed_out: Collection[str] = (),
    **values: object,
) -> HostSnapshot:
    """A snapshot with values for sections, spelled with _ for -. None: not collected."""
    named = {name.replace("_", "-"): value for name, value in values.items()}
    sections = dict(base.bundle.sections) if base else {}
    parsed = dict(base.answers) if base else {}
    for name, value in named.items():
        parsed.pop(name, None)
        sections.pop(name, None)
        if value is not None:
            sections[name] = Collected("", root=True)
            section = Section(name=name, snippet="", parse=lambda _, value=value: value)  # type: ignore[misc]  # a default
            parsed[name] = Answer(section, sections[name])
    for name in cut:
        sections[name] = Collected("cut", rc=141, root=True)
        if name in parsed:
            parsed[name] = Answer(parsed[name].section, sections[name])
    for name in timed_out:
        sections[name] = Collected("", rc=124, timed_out=True)
    return HostSnapshot(Bundle("rig", None, root=True, sections=sections), parsed)


def spec(**declared: object) -> RigSpec:
    return read(declared)


def judge(
    texts: Mapping[str, str | None],
    declared: RigSpec | None = None,
    *,
    checks: Iterable[Check] = CHECKS,
    concerns: frozenset[str] = EVERY_CONCERN,
    codes: Mapping[str, int] = MappingProxyType({}),
    timed_out: Collection[str] = (),
    root: bool = True,
    without_root: Collection[str] = (),
) -> list[Finding]:
    """What checks find on a rig of these sections, of which those with None are lost.

    A section ended with its code of `codes`, and was collected as root where `root` was had.
    """
    sections = {
        name: Collected(
            text,
            rc=codes.get(name, 124 if name in timed_out else 0),
            root=root and name not in without_root,
            timed_out=name in timed_out,
        )
        for name, text in texts.items()
        if text is not None
    }
    bundle = Bundle("rig", "2026-01-31T18:00:00Z", root=root, sections=sections)
    return examine(HostSnapshot(bundle), declared, catalog(), checks=checks, concerns=concerns)


def checks_of(*names: str) -> tuple[Check, ...]:
    by_id = {one.id: one for one in CHECKS}
    return tuple(by_id[name] for name in names)


def check_of(name: str) -> Check:
    return checks_of(name)[0]


def changed_from(
    base: Mapping[str, str | None], changed: Mapping[str, str | None]
) -> dict[str, str | None]:
    """`changed` spells sections with _ for -."""
    return {**base, **{name.replace("_", "-"): text for name, text in changed.items()}}


def look(
    check: str,
    declared: RigSpec | None = None,
    *,
    concerns: frozenset[str] = EVERY_CONCERN,
    cut: Mapping[str, int] = MappingProxyType({}),
    instead: Mapping[str, str | None] = NOTHING,
    **changed: str | None,
) -> Finding:
    """The one finding of a check on the broken rig, with sections changed, or lost where None."""
    texts = changed_from({**answers.BROKEN, **instead}, changed)
    codes = {name.replace("_", "-"): code for name, code in cut.items()}
    (found,) = judge(texts, declared, checks=[check_of(check)], concerns=concerns, codes=codes)
    return found
