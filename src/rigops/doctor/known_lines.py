"""Findings by known lines: what the catalog says of a line of a log, a program or a paste."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final, Literal

from rigops.catalog import Catalog
from rigops.catalog.known_lines import KnownLine
from rigops.catalog.model import Severity
from rigops.concerns.registry import concern_of
from rigops.doctor import views
from rigops.doctor.check import Check
from rigops.doctor.examined import Examined, once
from rigops.doctor.finding import HOST, Evidence, Finding, Fix, fix_by_hand
from rigops.doctor.line_search import hits_by_row, texts_of
from rigops.doctor.searched import Hit, Text, is_in
from rigops.doctor.views.cards import answers, subject_of
from rigops.probe.address import normal
from rigops.probe.kernel_log import stamps
from rigops.probe.sections.kernel_log import KERNEL_LOG_PREVIOUS
from rigops.probe.sections.kernel_log import SECTION as KERNEL_LOG

if TYPE_CHECKING:
    from rigops.probe.snapshot import HostSnapshot

_KEPT: Final = frozenset({"warn", "info"})  # beside a known line; the rest it contradicts
_SHOWN: Final = 3
_GROUP: Final = re.compile(r"\{([a-z]+)\}")
_REBOOTS: Final = frozenset({"kernel_args", "driver"})  # keys that take a boot
# States of the driver, which the next boot shows again if they last.
_OF_A_BOOT: Final = frozenset(
    f"drv.{name}"
    for name in ("dkms", "flavor", "hang", "loaded", "mismatch", "nouveau", "secureboot")
)
# They read on a host how it is now: a line says how it was.
_OF_STATES: Final = frozenset(
    {*_OF_A_BOOT, "drv.uvm_nodes", "gpu.count", "gpu.lost", "bar1.size"}
    - {"drv.hang", "drv.mismatch"}
)
_START: Final = "gpu.init"
_LESS: Final[Mapping[Severity, Severity]] = {"fail": "warn", "warn": "info", "info": "info"}


@once
def _texts(examined: Examined) -> Sequence[Text]:
    return texts_of(examined.snapshot)


@once
def _hits(examined: Examined) -> Mapping[str, tuple[KnownLine, Sequence[Hit]]]:
    return hits_by_row(_texts(examined), examined.catalog)


@once
def known_lines(examined: Examined) -> Mapping[str, tuple[Finding, ...]]:
    """By the id of their check."""
    texts, hits = _texts(examined), _hits(examined)
    earlier = _earlier_lines(examined.snapshot) if hits else frozenset()
    told: dict[str, list[Finding]] = defaultdict(list)
    for row, found in hits.values():
        if not hits.keys() & set(row.follows):
            told[row.finding] += _findings(examined, _in_context(row, texts), found, earlier)
    return {check: tuple(_without_repeats(findings)) for check, findings in told.items()}


def with_known_lines(examined: Examined, check: Check) -> list[Finding]:
    """Its findings, and those of known lines that it has not judged itself.

    Where it has failed itself, it says all of it; a failure of the boot before says nothing of this
    one. A hang that the check alone sees stays, unless a known line says why. On a host a check
    judges more than lines: those that mean no fault tell nothing there, and make nothing known that
    it does not know; without a card none does, nor where a check sees that all is well now.
    """
    found = check.findings(examined)
    known = known_lines(examined).get(check.id, ())
    if not known:
        return found
    failed = [one for one in found if one.status == "fail"]
    lines = (cited.line for one in found if one.status != "unknown" for cited in one.evidence)
    judged = [stamps.read(line).message or line for line in lines]
    told = [
        _shown(one, check.id)
        for one in known
        if not any(_is_of(cited.line, judged) for cited in one.evidence)
    ]
    is_note = all(one.status == "info" for one in told)
    is_without_card = [one.summary for one in found] == [views.NO_GPU]
    is_well = check.id in _OF_STATES and all(one.status == "ok" for one in found)
    if (is_note or is_without_card or is_well) and examined.snapshot.bundle.paste is None:
        return found
    if not told or any(map(_is_of_now, failed)):
        return found
    if failed:
        return [*filter(_is_of_now, told), *found]
    has_failed = any(one.status == "fail" for one in told)
    hangs = [one for one in found if one.status == "unknown" and one.essential and not has_failed]
    return [*(one for one in found if one.status in _KEPT), *hangs, *told]


def without_broad_words(
    examined: Examined, found: Sequence[tuple[Check, Finding]]
) -> list[tuple[Check, Finding]]:
    """A row of last resort adds nothing to what a check says of its line."""
    broad = {row.name for row, _ in _hits(examined).values() if row.last_resort}
    told = [one for _, one in found if one.data.get("known_line") not in broad]
    cited = {line.line for one in told if one.status in {"fail", "warn"} for line in one.evidence}
    judged = [stamps.read(line).message or line for line in cited if line]
    return [
        (check, one)
        for check, one in found
        if one.data.get("known_line") not in broad
        or not any(_is_of(line.line, judged) for line in one.evidence)
    ]


def _is_of(line: str, judged: Iterable[str]) -> bool:
    """A paste may number a line, wrap it, or have it as an entry of the journal."""
    message = stamps.read(line).message or line
    return any(message in one or one in line for one in judged)


def _is_of_now(finding: Finding) -> bool:
    return {one.section for one in finding.evidence} != {KERNEL_LOG_PREVIOUS.name}


def explaining(
    examined: Examined, *checks: str, least: Literal["warn", "fail"] = "fail"
) -> Finding | None:
    """A finding by known lines that explains a failure which has no cause of its own."""
    told = known_lines(examined)
    found = (_shown(one, check) for check in checks for one in told.get(check, ()))
    return next((one for one in found if one.status in {"fail", least}), None)


def has_known_lines(snapshot: HostSnapshot, catalog: Catalog) -> bool:
    return bool(hits_by_row(texts_of(snapshot), catalog))


def _in_context(row: KnownLine, texts: Sequence[Text]) -> KnownLine:
    context = next((one for one in row.when if is_in(one.beside, texts)), None)
    if context is None:
        return row
    status = context.status or row.status
    is_harmless = status == "info" and row.status != "info"
    return replace(
        row,
        status=status,
        meaning=context.meaning or row.meaning,
        why=context.why or row.why,
        fix=context.fix or ("" if is_harmless else row.fix),
        declares="" if context.fix or is_harmless else row.declares,
    )


def _findings(
    examined: Examined, row: KnownLine, hits: Sequence[Hit], earlier: frozenset[str]
) -> Iterator[Finding]:
    """One of each subject."""
    by_subject: dict[str, list[Hit]] = defaultdict(list)
    for hit in hits:
        by_subject[_subject(examined, row, hit)].append(hit)
    for subject, all_hits in by_subject.items():
        now = [one for one in all_hits if not _is_of_before(one, earlier)]
        if not now and row.finding in _OF_A_BOOT:
            continue
        shown = list({one.line: one for one in now or all_hits}.values())
        events = sum(stamps.read(one.line).form is not None for one in shown)
        values = {name: value or "?" for name, value in shown[0].found.groupdict().items()}
        times = f", {events} times" if events > 1 else ""
        has_started = row.finding == _START and answers(examined, subject)
        yield Finding(
            row.status if now and not has_started else _LESS[row.status],
            _filled(row.meaning, values)
            + times
            + ("" if now else " (in an earlier boot)")
            + ("; it answers now" if has_started else ""),
            tuple(Evidence(one.section, one.line.strip()) for one in shown),
            subject=subject,
            why=_filled(row.why, values),
            fix=_fix(row, values),
            data={"known_line": row.name},
        )


def _shown(finding: Finding, check: str) -> Finding:
    return replace(finding, id=check, evidence=finding.evidence[:_SHOWN])


def _filled(text: str, values: Mapping[str, str]) -> str:
    return _GROUP.sub(lambda group: values.get(group[1], group[0]), text)


def _subject(examined: Examined, row: KnownLine, hit: Hit) -> str:
    if row.subject != "gpu":
        return HOST
    address = hit.found.groupdict().get("address")
    return subject_of(examined, normal(address) if address else None)


def _fix(row: KnownLine, values: Mapping[str, str]) -> Fix | None:
    by_hand = _filled(row.fix, values)
    if not row.declares:
        return fix_by_hand(by_hand) if by_hand else None
    declare = ast.literal_eval(row.declares)
    (key,) = declare
    return Fix(
        kind="apply+reboot" if key in _REBOOTS else "apply",
        concern=concern_of(key),
        declare=declare,
        text="`rigops apply` sets it" + (" and reboots" if key in _REBOOTS else ""),
        by_hand=by_hand,
    )


def _earlier_lines(snapshot: HostSnapshot) -> frozenset[str]:
    """Of boots before this one."""
    logs = (snapshot[KERNEL_LOG].or_empty, snapshot[KERNEL_LOG_PREVIOUS].or_empty)
    now, before = ({one.line.strip() for one in log.lines if not one.boot} for log in logs)
    older = {one.line.strip() for log in logs for one in log.lines if one.boot}
    return frozenset((before | older) - now)


def _is_of_before(hit: Hit, earlier: frozenset[str]) -> bool:
    return hit.section == KERNEL_LOG_PREVIOUS.name or hit.line.strip() in earlier


def _without_repeats(findings: Sequence[Finding]) -> Iterable[Finding]:
    """Several rows of one cause say the same of one card."""
    return {(one.subject, one.summary): one for one in reversed(findings)}.values()
