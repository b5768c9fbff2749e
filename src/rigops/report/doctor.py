"""Doctor's findings on a screen: one line a finding and one for its fix, the worst first."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from rigops.dataclass import dataclass
from rigops.doctor.finding import HOST
from rigops.doctor.host_report import WORST_FIRST as WORST_HOST_FIRST
from rigops.python_literal import literal
from rigops.report.closing import MOST_IN_FULL, Again, Row, Step, closing_lines, step_after
from rigops.report.doctor_details import colored, detail_lines, head_lines, host_status, not_checked
from rigops.report.words import clipped, grouped, wrapped

if TYPE_CHECKING:
    from rigops.doctor.finding import Finding, Status
    from rigops.doctor.host_report import HostReport

_MOST_UNKNOWN: Final = 2  # of more, only the ids
_MOST_NOTE: Final = 2  # lines
_WIDEST_ID: Final = 16
_TAG_COLUMN: Final = 46  # after the start of a summary
_GPU: Final = "gpu "
_QUIET: Final[tuple[Status, ...]] = ("ok", "skipped")
_ROW_STATUS: Final = {"fail": "fail", "unknown": "unknown", "warn": "warn"}
_TO_FIX: Final[tuple[Status, ...]] = ("fail", "warn", "unknown")
# Up to a full stop or semicolon between words, but for those in a command, brackets or a name.
_FIRST_SENTENCE: Final = re.compile(
    r"(?:`[^`]*`|\([^()]*\)|\b(?:Co|Corp|Inc|Ltd)\.|[.;](?! |$)|[^.;])*"
)
_BY: Final = {
    "apply": "apply",
    "apply+reboot": "apply, reboot",
    "hands": "by hand",
    "bios": "BIOS",
    "buy": "to buy",
    "accept": "to accept",
}


@dataclass(frozen=True)
class NextSteps:
    """`first`: a command that comes before any plan; empty where there can be none.

    None: the hosts are declared.
    """

    again: Again
    first: str | None = None


def doctor_lines(
    hosts: Sequence[HostReport],
    width: int,
    steps: NextSteps,
    *,
    notes: Iterable[str] = (),
    verbose: bool = False,
) -> list[str]:
    """`notes`: lines that concern no host."""
    worst_first = sorted(hosts, key=lambda host: WORST_HOST_FIRST.index(host.status))
    is_table = len(hosts) > MOST_IN_FULL and not verbose
    lines = []
    if not is_table:
        show = detail_lines if verbose else _host
        lines += [line for host in worst_first for line in (*show(host, width), "")]
    counts = wrapped(_counts(hosts), width, "")
    if len(hosts) > 1:
        rows = [
            _row(host, is_shown=not is_table, has_plan=steps.first is None) for host in worst_first
        ]
        lines += closing_lines(rows, width, steps.again, counts)
    else:
        lines += counts
    lines += notes
    reached = [host for host in worst_first if host.findings]
    found = [one for host in reached for one in _by_urgency(host) if one.status in _TO_FIX]
    applied = [one.fix for one in found if one.fix and one.fix.by_apply]
    offered = []
    if not is_table and applied:
        step = Step("plan" if all(fix.is_declared for fix in applied) else "fix")
        if command := steps.again.command(step) if steps.first is None else steps.first:
            offered.append(f"Next: {command}")
    if not verbose and not is_table and reached:
        explained = f", or --explain {found[0].id}" if found else ""
        offered.append(f"Details: add -v{explained}")
    on_one_line = (" " * 4).join(offered)
    for line in [on_one_line] if len(on_one_line) <= width else offered:
        lines += wrapped(line, width, "")
    return lines


def _by_urgency(host: HostReport) -> list[Finding]:
    """Findings that leave the whole host unknown come before warnings."""
    return sorted(
        host.findings,
        key=lambda one: 0 if one.status == "fail" else 1 if _is_grave(one) else 2,
    )


def _is_grave(finding: Finding) -> bool:
    return finding.status == "unknown" and finding.essential


def _row(host: HostReport, *, is_shown: bool, has_plan: bool) -> Row:
    """`is_shown`: its findings are above, so that it is not to be asked for them."""
    status, result = _ROW_STATUS.get(host.status, "ok"), host_status(host)
    if host.error is not None:
        return Row(host.host, status, result, not_checked(host), step_after(host.error, "doctor"))
    if status == "ok":
        return Row(host.host, status, result)
    fixes = [one.fix for one in host.findings if one.fix and one.status in _TO_FIX]
    step = Step("doctor", ("-v",) if is_shown else ())
    applied = [fix for fix in fixes if fix.by_apply]
    if is_shown and has_plan and applied:
        step = Step("plan" if all(fix.is_declared for fix in applied) else "fix")
    return Row(host.host, status, result, _worst(host, has_summary=not is_shown), step)


def _worst(host: HostReport, *, has_summary: bool) -> str:
    """By id, the first with its summary."""
    findings = [
        one for one in _by_urgency(host) if one.status in {"fail", "warn"} or _is_grave(one)
    ]
    if not findings:
        return ""
    first, *others = dict.fromkeys(one.id for one in findings)
    named = f"{first} ({_about(findings[0])}{findings[0].summary})" if has_summary else first
    return ", ".join((named, *others))


def _host(host: HostReport, width: int) -> Iterator[str]:
    yield from head_lines(host, width)
    if host.error and host.error.fix:
        yield from wrapped(f"fix: {host.error.fix}", width, "  ", hanging="     ")
    yield from _notes(host, width)
    brief = [one for one in host.findings if one.status == "unknown" and not one.essential]
    if len(brief) <= _MOST_UNKNOWN:
        brief = []
    infos = [one for one in host.findings if one.status == "info"]
    if len(infos) == 1:
        infos = []
    shown = _folded_checks(
        one
        for one in _by_urgency(host)
        if one.status not in _QUIET and one not in brief and one not in infos
    )
    statuses = {one.status for one in (*shown, *brief, *infos)}
    columns = (
        max(map(len, statuses), default=0),
        min(max((len(one.id) for one in shown), default=0), _WIDEST_ID),
    )
    cards = host.facts.get("gpus")
    in_all = len(cards) if isinstance(cards, list) else 0
    fixed_by: dict[str, str] = {}  # by fix: the check below which it is shown
    for alike in grouped(shown, lambda one: (one.id, one.status, _fix(one, alone=False))).values():
        same_as = fixed_by.setdefault(_fix_key(alike[0]), alike[0].id)
        yield from _findings(alike, in_all, columns, width, same_as)
    for status, few in (("unknown", brief), ("info", infos)):
        ids = list(dict.fromkeys(one.id for one in few))
        if ids:
            line = clipped(f"  {status:<{columns[0]}}  {len(ids)}: {', '.join(ids)}", width)
            yield line.replace(status, colored(status, status), 1)
    worse = {one.id for one in host.findings if one.status not in _QUIET}
    counts = [
        (len({one.id for one in host.findings if one.status == quiet} - worse), quiet)
        for quiet in _QUIET
    ]
    if any(count for count, _ in counts):
        yield "  " + ", ".join(f"{count} {quiet}" for count, quiet in counts if count)


def _folded_checks(findings: Iterable[Finding]) -> list[Finding]:
    """What several checks say in the same words has one cause, and is one line."""
    alike = grouped(
        findings, lambda one: (one.status, one.subject, one.summary, one.fix and _fix_key(one))
    )
    shown = []
    for first, *others in alike.values():
        ids = ", ".join(dict.fromkeys(one.id for one in others if one.id != first.id))
        same = f"{first.summary} (and {ids})"
        shown.append(replace(first, summary=same) if ids else first)
    return shown


def _notes(host: HostReport, width: int) -> Iterator[str]:
    notes = []
    for words, same in grouped(host.notes, lambda note: note.partition(" ")[2]).items():
        others = f" and {len(same) - 1} more" if len(same) > 1 else ""
        notes.append(f"{same[0].partition(' ')[0]}{others} {words}")
    if host.unparsed:
        pieces = ", ".join(f"{count} of {name}" for name, count in host.unparsed.items())
        notes.append(f"unparsed lines, not checked: {pieces}")
    for note in notes:
        what, _, fix = note.partition("; fix: ")
        lines = wrapped(f"note: {what}", width, "  ", hanging="      ")
        if len(lines) > _MOST_NOTE:
            lines[_MOST_NOTE - 1 :] = [clipped(f"{lines[_MOST_NOTE - 1]} …", width)]
        yield from lines
        if fix:
            yield from wrapped(f"fix: {fix}", width, "        ", hanging="     ")


def _findings(
    alike: Sequence[Finding], in_all: int, columns: tuple[int, int], width: int, same_as: str
) -> Iterator[str]:
    """Those of one check with one fix: a line for each summary, and one for the fix.

    `same_as`: the check that has this fix first.
    """
    status, check = alike[0].status, alike[0].id
    margin = " " * (sum(columns) + 6)
    lead = f"  {status:<{columns[0]}}  {check:<{columns[1]}}"
    for same in grouped(alike, lambda one: _without_address(one, one.summary)).values():
        text = _folded(same, in_all)
        first, *rest = wrapped(f"{lead}  {text}", width, "", hanging=margin)
        yield first.replace(status, colored(status, status), 1)
        yield from rest
    is_alone = len({one.subject for one in alike}) == 1
    if fix := _fix(alike[0], alone=is_alone):
        shown = fix if same_as == check else (f"as for {same_as}", "")
        yield from _fix_lines(*shown, width, margin)


def _fix_lines(text: str, tag: str, width: int, margin: str) -> list[str]:
    lines = wrapped(f"fix: {text}", width, margin, hanging=" " * len("fix: "))
    column = len(margin) + _TAG_COLUMN
    if tag and len(lines) == 1 and column + len(tag) <= width:
        lines[0] = lines[0].ljust(column - 1)
    if tag and len(lines[-1]) + 1 + len(tag) > width:
        lines.append(f"{margin}    ")
    if tag:
        lines[-1] += f" {tag}"
    return lines


def _folded(same: Sequence[Finding], in_all: int) -> str:
    subjects = list(dict.fromkeys(one.subject for one in same if one.subject != HOST))
    if len(subjects) <= 1:
        return _about(same[0]) + same[0].summary
    summary = _without_address(same[0], same[0].summary)
    if not all(subject.startswith(_GPU) for subject in subjects):
        return f"{summary} ({', '.join(subjects)})"
    named = "" if len(subjects) == in_all else f": {', '.join(map(_short, subjects))}"
    return f"{summary} ({len(subjects)} of {in_all or '?'} GPUs{named})"


def _about(finding: Finding) -> str:
    subject = finding.subject
    if subject == HOST:
        return ""
    return f"GPU {_short(subject)}: " if subject.startswith(_GPU) else f"{subject}: "


def _short(subject: str) -> str:
    return subject.removeprefix(_GPU).removeprefix("0000:")


def _without_address(finding: Finding, text: str) -> str:
    is_card = finding.subject.startswith(_GPU)
    return text.replace(finding.subject.removeprefix(_GPU), "GPU") if is_card else text


def _fix(finding: Finding, *, alone: bool) -> tuple[str, str] | None:
    """The fix, and its kind; not `alone`: as for any card."""
    if finding.fix is None:
        return None
    fix = finding.fix
    if fix.by_apply and fix.is_declared:
        return "rigops apply", "(reboot)" if fix.kind == "apply+reboot" else ""
    if fix.by_apply and fix.declare:
        text = ", ".join(f'"{key}": {literal(value)}' for key, value in fix.declare.items())
    else:
        text = _first_sentence(fix.text)
    return text if alone else _without_address(finding, text), f"({_BY[fix.kind]})"


def _fix_key(finding: Finding) -> str:
    """Findings with the same key are mended by the same act."""
    fix = finding.fix
    return f"{fix.text} {fix.declare}" if fix and fix.text else finding.id


def _acts(finding: Finding) -> tuple[str, ...]:
    """The keys to declare, of which several findings may have one; else the fix itself."""
    fix = finding.fix
    return tuple(fix.declare) if fix and fix.by_apply and fix.declare else (_fix_key(finding),)


def _first_sentence(text: str) -> str:
    sentence = text[: _FIRST_SENTENCE.match(text).end()]  # type: ignore[union-attr]  # of any text
    return sentence if len(sentence) >= len(text.rstrip(".")) else f"{sentence} …"


def _counts(hosts: Sequence[HostReport]) -> str:
    statuses = [host.status for host in hosts]
    counts = ", ".join(f"{statuses.count(one)} {one}" for one in dict.fromkeys(sorted(statuses)))
    by_check = {
        (host.host, one.id): one
        for host in hosts
        for one in host.findings
        if one.fix and one.status in _TO_FIX
    }
    fixes = {
        (host, key): one.fix is not None and one.fix.by_apply
        for (host, _), one in by_check.items()
        for key in _acts(one)
    }
    applied, by_hand = sum(fixes.values()), len(fixes) - sum(fixes.values())
    pieces = [
        f"{applied} with rigops apply" if applied else "",
        f"{by_hand} by hand" if by_hand else "",
    ]
    to_fix = ", ".join(piece for piece in pieces if piece)
    unknown = sum(one.status == "unknown" for host in hosts for one in host.findings)
    parts = [
        f"1 host: {statuses[0]}." if len(hosts) == 1 else f"{len(hosts)} hosts: {counts}.",
        f"To fix: {to_fix}." if to_fix else "",
        "" if to_fix or any(host.error for host in hosts) else "Nothing to fix.",
        f"{unknown} check{'s' * (unknown != 1)} could not be judged." if unknown else "",
    ]
    return " ".join(part for part in parts if part)
