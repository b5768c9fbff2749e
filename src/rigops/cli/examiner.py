"""The examiner of hosts: the chosen checks, and their reports."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rigops.catalog import Catalog
from rigops.cli.hosts import host_catalog
from rigops.concerns.nvidia_driver import from_bundle
from rigops.concerns.nvidia_driver.concern import NVIDIA_DRIVER
from rigops.concerns.nvidia_driver.from_bundle import chooser
from rigops.concerns.registry import every_section
from rigops.dataclass import make_classes
from rigops.doctor import notes
from rigops.doctor.check import Check
from rigops.doctor.host_report import HostReport, summary
from rigops.doctor.registry import CHECKS, NOTHING_KNOWN, Known, examine, sections_for
from rigops.doctor.searched import words_of
from rigops.doctor.stories import put_together
from rigops.errors import RigopsError, usage_error
from rigops.hosts.probing import CollectedHost, internal_error
from rigops.inventory.spec import RigSpec
from rigops.inventory.spec.names import did_you_mean
from rigops.probe.bundle import Bundle
from rigops.probe.section import Section
from rigops.probe.snapshot import HostSnapshot
from rigops.record import acknowledged, baseline, journal

if TYPE_CHECKING:
    from rigops.record.lockfile import LockedHost

Examination = tuple[CollectedHost, HostReport]


class Examiner:
    def __init__(self, only: Sequence[str], skip: Sequence[str]) -> None:
        wanted = {find_check(word, "--only").id for word in only}
        unwanted = {find_check(word, "--skip").id for word in skip}
        self._checks = [
            check
            for check in CHECKS
            if (not wanted or check.id in wanted) and check.id not in unwanted
        ]

    @property
    def sections(self) -> Sequence[Section[Any]]:
        """All sections for all checks: also what no check needs is reported if it is unparsed."""
        return every_section() if len(self._checks) == len(CHECKS) else sections_for(self._checks)

    def prepare(self, specs: Iterable[RigSpec | None]) -> None:
        """What is else made and read on first use: for the time in which hosts answer."""
        make_classes("rigops.probe.", "rigops.doctor.", "rigops.catalog.")
        for spec in specs:
            catalog = host_catalog(spec)
            _ = catalog.named_cards, catalog.drivers, catalog.firmware, words_of(catalog)

    def refuse_lines_of_no_check(self, catalog: Catalog) -> None:
        """Nothing would ever show them."""
        ids = {check.id for check in CHECKS}
        for row in catalog.known_lines:
            if row.finding not in ids:
                raise usage_error(
                    message="a known line is of no check",
                    file=catalog.file_of_own_lines,
                    key=f"{row.name}.finding",
                    value=row.finding,
                    fix=did_you_mean(row.finding, sorted(ids))
                    or "`rigops doctor -v` shows the ids of all checks",
                )

    def ask_for_a_driver(self, bundle: Bundle, spec: RigSpec | None) -> Sequence[Section[Any]]:
        """Only where the driver is in question: apt takes seconds for its lists."""
        checks = [one for one in self._checks if one.is_for_apply]
        findings = examine(HostSnapshot(bundle), spec, host_catalog(spec), checks=checks)
        in_question = any(one.fix and one.fix.concern == NVIDIA_DRIVER.name for one in findings)
        needed = from_bundle.sections(spec) if in_question else ()
        return [section for section in needed if section.name not in bundle.sections]

    def judge(self, collected: CollectedHost, locked: LockedHost | None) -> Examination:
        catalog = host_catalog(collected.spec)
        try:
            report = self._report(collected, catalog, locked)
        except Exception as error:  # noqa: BLE001 - logged and reported
            report = HostReport(
                host=collected.host,
                source=collected.source,
                collected_at=None,
                duration_ms=collected.duration_ms,
                error=internal_error(collected.host, error),
            )
        return collected, report

    def _report(
        self, collected: CollectedHost, catalog: Catalog, locked: LockedHost | None
    ) -> HostReport:
        began, bundle = time.monotonic(), collected.bundle
        report = HostReport(
            host=collected.host,
            source=collected.source,
            collected_at=bundle.collected_at if bundle else None,
            duration_ms=collected.duration_ms,
            error=collected.error,
            notes=collected.notes,
        )
        if bundle is None:
            return report
        snapshot = HostSnapshot(bundle)
        known, troubles = known_of(collected.known_as)
        if collected.source == "bundle" and _is_older(bundle, known.baseline):
            known = replace(known, baseline=None)
        choose_driver = chooser(bundle, catalog, collected.spec, locked)
        found = examine(
            snapshot,
            collected.spec,
            catalog,
            checks=self._checks,
            choose_driver=choose_driver,
            neighbors=collected.neighbors,
            known=known,
        )
        findings, stories = put_together(found, snapshot, catalog)
        return replace(
            report,
            duration_ms=collected.duration_ms + round((time.monotonic() - began) * 1000),
            facts=summary(snapshot, catalog),
            findings=findings,
            stories=stories,
            notes=(
                *collected.notes,
                *troubles,
                *(notes.of_paste(bundle.paste) if bundle.paste else ()),
            ),
            unparsed=notes.unparsed(snapshot),
            is_paste=bundle.paste is not None,
            decided_by=notes.command_for_more(bundle.sections, findings, self._checks)
            if bundle.paste
            else "",
            baseline_at=known.baseline.at if known.baseline else None,
        )


def _is_older(bundle: Bundle, earlier: baseline.Baseline | None) -> bool:
    return earlier is not None and (bundle.collected_at or earlier.at) < earlier.at


def known_of(name: str) -> tuple[Known, tuple[str, ...]]:
    """By the records of this machine; and those that cannot be read."""
    if not name:
        return NOTHING_KNOWN, ()
    known, troubles = Known(today=journal.now()[:10]), []
    try:
        known = replace(known, baseline=baseline.read(name))
    except RigopsError as error:
        troubles.append(f"no baseline to compare with: {error}; fix: {error.fix}")
    try:
        known = replace(known, acknowledged=acknowledged.read(name).findings)
    except RigopsError as error:
        troubles.append(f"nothing counts as acknowledged: {error}; fix: {error.fix}")
    home = str(Path.home())
    return known, tuple(one.replace(home, "~") for one in troubles)


def find_check(word: str, option: str, others: Iterable[str] = ()) -> Check:
    """`others`: words that the option takes beside the checks."""
    for check in CHECKS:
        if check.id == word:
            return check
    ids = sorted((*(check.id for check in CHECKS), *others))
    guess = did_you_mean(word, ids)
    raise usage_error(
        message="no such check",
        key=option,
        value=word,
        accepted="" if guess else ", ".join(ids),
        fix=guess,
    )
