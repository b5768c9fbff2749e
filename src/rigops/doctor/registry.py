"""All checks, and what every finding has in common whichever check made it."""

from __future__ import annotations

import pkgutil
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from rigops.catalog import Catalog
from rigops.concerns.registry import every_section, names_in_this_version
from rigops.concerns.registry import keys as inventory_keys
from rigops.dataclass import dataclass
from rigops.doctor import acknowledging, pasted, views
from rigops.doctor import checks as folder
from rigops.doctor.check import Check
from rigops.doctor.checks import declared
from rigops.doctor.examined import Examined
from rigops.doctor.finding import Finding, Status
from rigops.doctor.host_report import SUMMARIZED
from rigops.doctor.known_lines import with_known_lines, without_broad_words
from rigops.doctor.told_once import told_once
from rigops.inventory.spec import RigSpec
from rigops.inventory.spec import examine as read
from rigops.probe.section import Section
from rigops.record.acknowledged import Acknowledgement
from rigops.record.baseline import Baseline

if TYPE_CHECKING:
    from rigops.concerns.nvidia_driver.resolver.options import Choice
    from rigops.power import Neighbor
    from rigops.probe.snapshot import HostSnapshot

# A warning is something to do, an unknown something to look at: a person wants the first first.
_WORST_FIRST: Final[tuple[Status, ...]] = ("fail", "warn", "unknown", "info", "ok", "skipped")


@dataclass(frozen=True)
class Known:
    """Of the host, from earlier: on the machine that rigops runs on. `today`: as 2026-11-28."""

    baseline: Baseline | None = None
    acknowledged: tuple[Acknowledgement, ...] = ()
    today: str = ""


NOTHING_KNOWN: Final = Known()


def _find_checks() -> tuple[Check, ...]:
    """Those of every module in the folder `checks`, by the modules' names, and of concerns."""
    names = sorted(module.name for module in pkgutil.iter_modules(folder.__path__))
    modules = [import_module(f"{folder.__name__}.{name}") for name in names]
    found = (value for module in modules for value in vars(module).values())
    return (*(value for value in found if isinstance(value, Check)), *declared.checks())


CHECKS: Final = _find_checks()


def sections_for(checks: Iterable[Check]) -> tuple[Section[Any], ...]:
    """The sections for these checks, and for the summary line."""
    needed = {section.name for check in checks for section in check.sections}
    needed |= {section.name for section in (*SUMMARIZED, *views.NAMES_CARDS)}
    return tuple(section for section in every_section() if section.name in needed)


def examine(
    snapshot: HostSnapshot,
    spec: RigSpec | None,
    catalog: Catalog,
    *,
    checks: Iterable[Check] = CHECKS,
    concerns: Collection[str] | None = None,
    choose_driver: Callable[[], Choice | None] = lambda: None,
    neighbors: tuple[Neighbor, ...] = (),
    known: Known = NOTHING_KNOWN,
) -> list[Finding]:
    """The worst first, and of those the cause before its effects.

    `concerns` are those that apply can carry out: by default those of this version.
    """
    examined = Examined(
        snapshot, spec or RigSpec(), catalog, choose_driver, neighbors, known.baseline
    )
    deployable = names_in_this_version() if concerns is None else concerns
    found = [
        (check, _completed(check, finding, examined.spec, deployable))
        for check in checks
        for finding in with_known_lines(examined, check)
    ]
    found = without_broad_words(examined, found)
    if snapshot.bundle.paste:
        found = pasted.judged(snapshot.bundle, found)
    found = told_once(examined, found)
    findings = acknowledging.outlived(examined, [finding for _, finding in found])
    findings = acknowledging.with_acknowledgements(findings, known.acknowledged, known.today)
    found = list(zip([check for check, _ in found], findings, strict=True))
    found.sort(
        key=lambda one: (
            _WORST_FIRST.index(one[1].status),
            one[0].cause_rank,
            not one[1].essential,
        )
    )
    return [finding for _, finding in found]


def _completed(
    check: Check, finding: Finding, spec: RigSpec, deployable: Collection[str]
) -> Finding:
    fix = finding.fix
    if fix and fix.by_apply and fix.concern not in deployable:
        fix = replace(fix, kind="hands", concern=None, text=fix.by_hand or fix.text)
    if fix and fix.declare:
        fix = replace(fix, is_declared=_has(spec, fix.declare))
    essential = finding.essential or check.essential or bool(check.keys & spec.declared)
    if (fix, essential) == (finding.fix, finding.essential):
        return finding
    return replace(finding, fix=fix, essential=essential)


def _has(spec: RigSpec, declare: Mapping[str, object]) -> bool:
    """A fix may declare words of the host that no inventory can have."""
    keys = inventory_keys()
    asked, problems = read(declare, keys)
    return not problems and all(asked[keys[name]] == spec[keys[name]] for name in declare)
