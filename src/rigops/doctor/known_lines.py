"""Findings by known lines: what the catalog says of a line of a log, a program or a paste."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice, pairwise
from string import ascii_lowercase
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from rigops.catalog.known_lines import compiled
from rigops.concerns.registry import concern_of
from rigops.doctor import views
from rigops.doctor.examined import once
from rigops.doctor.finding import HOST, Evidence, Finding, Fix, fix_by_hand
from rigops.doctor.views.cards import subject_of
from rigops.probe.address import normal
from rigops.probe.kernel_log import stamps
from rigops.probe.sections.kernel_log import KERNEL_LOG_PREVIOUS
from rigops.probe.sections.kernel_log import SECTION as KERNEL_LOG
from rigops.probe.sections.nccl_log import SECTION as NCCL_LOG
from rigops.probe.sections.nvidia_smi_xml import SECTION as SMI
from rigops.probe.sections.pasted import SECTION as PASTED

if TYPE_CHECKING:
    from rigops.catalog import Catalog
    from rigops.catalog.known_lines import KnownLine, SoughtLine
    from rigops.catalog.model import Severity
    from rigops.doctor.check import Check
    from rigops.doctor.examined import Examined
    from rigops.probe.section import Section
    from rigops.probe.snapshot import HostSnapshot

SOURCES: Final[tuple[Section[Any], ...]] = (
    KERNEL_LOG,
    KERNEL_LOG_PREVIOUS,
    SMI,
    NCCL_LOG,
)

_KEPT: Final = frozenset({"warn", "info"})  # beside a known line; the rest it contradicts
_MOST_HITS: Final = 200  # of one row
_SHOWN: Final = 3
_LETTERS: Final = bytes(one if chr(one) in ascii_lowercase else ord(" ") for one in range(256))
_LONGER_IN_SMALL: Final = "\u0130"
_NOT_ASCII: Final = re.compile(r"[^\x00-\x7f]+")
_GROUP: Final = re.compile(r"\{([a-z]+)\}")
_NARROWEST: Final = 60  # columns of a terminal whose lines were wrapped
_LONGEST_WRAPPED: Final = 400  # lines: people wrap what they write, not logs
_REBOOTS: Final = frozenset({"kernel_args", "driver"})  # keys that take a boot
# States of the driver, which the next boot shows again if they last.
_OF_A_BOOT: Final = frozenset(
    f"drv.{name}"
    for name in ("dkms", "flavor", "hang", "loaded", "mismatch", "nouveau", "secureboot")
)
_LESS: Final[Mapping[Severity, Severity]] = {"fail": "warn", "warn": "info", "info": "info"}


class _Hit(NamedTuple):
    section: str
    found: re.Match[str]
    line: str


@once
def known_lines(examined: Examined) -> Mapping[str, tuple[Finding, ...]]:
    """By the id of their check."""
    snapshot = examined.snapshot
    texts, hits = _texts(snapshot), _hits_by_row(snapshot, examined.catalog)
    earlier = _earlier_lines(snapshot) if hits else frozenset()
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
    it does not know; without a card none does.
    """
    found = check.findings(examined)
    failed = [one for one in found if one.status == "fail"]
    judged = {
        cited.line.strip() for one in found if one.status != "unknown" for cited in one.evidence
    }
    told = [
        replace(one, id=check.id)
        for one in known_lines(examined).get(check.id, ())
        if not any(cited.line in judged for cited in one.evidence)
    ]
    is_note = all(one.status == "info" for one in told)
    is_without_card = [one.summary for one in found] == [views.NO_GPU]
    if (is_note or is_without_card) and examined.snapshot.bundle.paste is None:
        return found
    if not told or any(map(_is_of_now, failed)):
        return found
    if failed:
        return [*filter(_is_of_now, told), *found]
    has_failed = any(one.status == "fail" for one in told)
    hangs = [one for one in found if one.status == "unknown" and one.essential and not has_failed]
    return [*(one for one in found if one.status in _KEPT), *hangs, *told]


def _is_of_now(finding: Finding) -> bool:
    return {one.section for one in finding.evidence} != {KERNEL_LOG_PREVIOUS.name}


def explaining(examined: Examined, *checks: str) -> Finding | None:
    """A failure by known lines that explains one which has no cause of its own."""
    told = known_lines(examined)
    failures = (one for check in checks for one in told.get(check, ()) if one.status == "fail")
    return next(failures, None)


def has_known_lines(snapshot: HostSnapshot, catalog: Catalog) -> bool:
    return bool(_hits_by_row(snapshot, catalog))


def _hits_by_row(
    snapshot: HostSnapshot, catalog: Catalog
) -> dict[str, tuple[KnownLine, list[_Hit]]]:
    texts = _texts(snapshot)
    wrapped = [_Text(one.section, _joined(one.text)) for one in texts if one.section == PASTED.name]
    letters = _letters_in((*texts, *wrapped))
    hits = {}
    for sought in catalog.sought_lines:
        near = [word for word in sought.words if word in letters]
        found = near and (_hits(sought, near, texts) or _hits(sought, near, wrapped))
        if found:
            row = sought.read()
            if not any(_is_in(one, texts) for one in row.unless):
                hits[row.name] = (row, found)
    return hits


class _Text:
    """`small`: in small letters, as long as the text itself."""

    def __init__(self, section: str, text: str) -> None:
        self.section, self.text = section, text.replace(_LONGER_IN_SMALL, "I")
        self.small = self.text.lower()


def _texts(snapshot: HostSnapshot) -> list[_Text]:
    """A paste is searched as it is: its recognized outputs are pieces of it."""
    sections = (PASTED,) if PASTED.name in snapshot.bundle.sections else SOURCES
    answers = ((one.name, snapshot.bundle.sections.get(one.name)) for one in sections)
    return [_Text(name, answer.text) for name, answer in answers if answer]


def _joined(text: str) -> str:
    """Lines that may go on in the next one, with it."""
    lines = text.split("\n")
    if len(lines) > _LONGEST_WRAPPED:
        return ""
    return "".join(
        f"{line} {after.lstrip()}\n{line}{after}\n"
        for line, after in pairwise(lines)
        if len(line) >= _NARROWEST and after.strip() and stamps.read(after).form is None
    )


def _letters_in(texts: Iterable[_Text]) -> str:
    """Each run of letters once, in small letters."""
    found: dict[bytes, None] = {}
    others: dict[str, None] = {}
    for one in texts:
        found |= dict.fromkeys(one.small.encode("ascii", "replace").translate(_LETTERS).split())
        if not one.small.isascii():
            others |= dict.fromkeys(_NOT_ASCII.findall(one.small))
    return " ".join((b" ".join(found).decode(), *others))


def _hits(sought: SoughtLine, words: Sequence[str], texts: Iterable[_Text]) -> list[_Hit]:
    pattern = compiled(sought.pattern)
    lines = ((one.section, line) for one in texts for line in _lines_with(words, one))
    hits = ((section, pattern.search(line), line) for section, line in lines)
    return list(islice((_Hit(at, found, line) for at, found, line in hits if found), _MOST_HITS))


def _lines_with(words: Sequence[str], text: _Text) -> Iterator[str]:
    """In their order, but for a row of several words."""
    seen: set[int] = set()
    for word in words:
        at = text.small.find(word)
        while at >= 0:
            begin, end = text.small.rfind("\n", 0, at) + 1, text.small.find("\n", at)
            end = len(text.small) if end < 0 else end
            if begin not in seen:
                seen.add(begin)
                yield text.text[begin:end]
            at = text.small.find(word, end)


def _is_in(pattern: str, texts: Iterable[_Text]) -> bool:
    return any(compiled(pattern).search(one.text) for one in texts)


def _in_context(row: KnownLine, texts: Sequence[_Text]) -> KnownLine:
    context = next((one for one in row.when if _is_in(one.beside, texts)), None)
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
    examined: Examined, row: KnownLine, hits: Sequence[_Hit], earlier: frozenset[str]
) -> Iterator[Finding]:
    """One of each subject."""
    by_subject: dict[str, list[_Hit]] = defaultdict(list)
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
        yield Finding(
            row.status if now else _LESS[row.status],
            _filled(row.meaning, values) + times + ("" if now else " (in an earlier boot)"),
            tuple(Evidence(one.section, one.line.strip()) for one in shown[:_SHOWN]),
            subject=subject,
            why=_filled(row.why, values),
            fix=_fix(row, values),
        )


def _filled(text: str, values: Mapping[str, str]) -> str:
    return _GROUP.sub(lambda group: values.get(group[1], group[0]), text)


def _subject(examined: Examined, row: KnownLine, hit: _Hit) -> str:
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


def _is_of_before(hit: _Hit, earlier: frozenset[str]) -> bool:
    return hit.section == KERNEL_LOG_PREVIOUS.name or hit.line.strip() in earlier


def _without_repeats(findings: Sequence[Finding]) -> Iterable[Finding]:
    """Several rows of one cause say the same of one card."""
    return {(one.subject, one.summary): one for one in reversed(findings)}.values()
