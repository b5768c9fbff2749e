"""Doctor's findings on a screen: one line a finding and one for its fix, the worst first."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from rigops.dataclass import dataclass
from rigops.doctor.finding import Finding, Status
from rigops.doctor.host_report import MORE, HostReport
from rigops.doctor.host_report import WORST_FIRST as WORST_HOST_FIRST
from rigops.report.closing import MOST_IN_FULL, Again, Row, Step, closing_lines, step_after
from rigops.report.doctor_details import (
    colored,
    detail_lines,
    host_status,
    not_checked,
    opening_lines,
)
from rigops.report.doctor_findings import (
    about,
    causes_by_urgency,
    columns_of,
    finding_lines,
    fix_key,
    folded_checks,
    is_grave,
)
from rigops.report.doctor_paste import MOST_COLUMNS, pages_of
from rigops.report.words import clipped, wrapped

_MOST_UNKNOWN: Final = 2  # of more, only the ids
_MOST_IDS: Final = 8  # -v names all
_QUIET: Final[tuple[Status, ...]] = ("ok", "skipped")
_ROW_STATUS: Final = {"fail": "fail", "unknown": "unknown", "warn": "warn"}
_TO_FIX: Final[tuple[Status, ...]] = ("fail", "warn", "unknown")


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
    pastes = [host for host in worst_first if host.is_paste]
    if pastes:  # the answer goes where the paste came from
        width = min(width, MOST_COLUMNS)
    lines = []
    pages = pages_of(pastes, width)
    for host in () if is_table else worst_first:
        page = next(pages) if host.is_paste else _host(host, width)
        lines += [*(detail_lines(host, width) if verbose else page), ""]
    counts = wrapped(_counts(hosts), width, "")
    if len(hosts) > max(len(pastes), 1) or is_table:
        rows = [
            row_of(host, is_shown=not is_table, has_plan=steps.first is None)
            for host in worst_first
        ]
        lines += closing_lines(rows, width, steps.again, counts)
    else:
        lines += counts
    commands = [host.decided_by for host in pastes if host.decided_by and not is_table]
    lines += [f"{MORE.capitalize()}: {command}" for command in commands[:1]]
    lines += notes
    reached = [host for host in worst_first if host.findings]
    found = [one for host in reached for one in causes_by_urgency(host) if one.status in _TO_FIX]
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


def row_of(host: HostReport, *, is_shown: bool, has_plan: bool) -> Row:
    """`is_shown`: its findings are above, so that it is not to be asked for them."""
    status, result = _ROW_STATUS.get(host.status, "ok"), host_status(host)
    if host.error is not None:
        return Row(host.host, status, result, not_checked(host), step_after(host.error, "doctor"))
    if status == "ok":
        return Row(host.host, status, result)
    fixes = [one.fix for one in host.unexplained if one.fix and one.status in _TO_FIX]
    step = Step("doctor", ("-v",) if is_shown else ())
    applied = [fix for fix in fixes if fix.by_apply]
    if is_shown and has_plan and applied:
        step = Step("plan" if all(fix.is_declared for fix in applied) else "fix")
    return Row(host.host, status, result, _worst(host, has_summary=not is_shown), step)


def _worst(host: HostReport, *, has_summary: bool) -> str:
    """By id, the first with its summary."""
    findings = [
        one for one in causes_by_urgency(host) if one.status in {"fail", "warn"} or is_grave(one)
    ]
    if not findings:
        return ""
    first, *others = dict.fromkeys(one.id for one in findings)
    named = f"{first} ({about(findings[0])}{findings[0].summary})" if has_summary else first
    return ", ".join((named, *others))


def _host(host: HostReport, width: int) -> Iterator[str]:
    yield from opening_lines(host, width)
    brief = [one for one in host.unexplained if one.status == "unknown" and not one.essential]
    if len(brief) <= _MOST_UNKNOWN:
        brief = []
    infos = [one for one in host.findings if one.status == "info"]
    if len(infos) == 1:
        infos = []
    shown = folded_checks(
        one
        for one in causes_by_urgency(host)
        if one.status not in _QUIET and one not in brief and one not in infos
    )
    columns = columns_of(
        [one.id for one in shown], {one.status for one in (*shown, *brief, *infos)}
    )
    for lines in finding_lines(host, shown, columns, width):
        yield from lines
    for status, few in (("unknown", brief), ("info", infos)):
        ids = list(dict.fromkeys(one.id for one in few))
        if ids:
            left = len(ids[_MOST_IDS:])
            named = ", ".join((*ids[:_MOST_IDS], *([f"and {left} more"] if left else [])))
            line = clipped(f"  {status:<{columns[0]}}  {len(ids)}: {named}", width)
            yield line.replace(status, colored(status, status), 1)
    worse = {one.id for one in host.findings if one.status not in _QUIET}
    counts = [
        (len({one.id for one in host.findings if one.status == quiet} - worse), quiet)
        for quiet in _QUIET
    ]
    if any(count for count, _ in counts):
        yield "  " + ", ".join(f"{count} {quiet}" for count, quiet in counts if count)


def _acts(finding: Finding) -> tuple[str, ...]:
    """The keys to declare, of which several findings may have one; else the fix itself."""
    fix = finding.fix
    return tuple(fix.declare) if fix and fix.by_apply and fix.declare else (fix_key(finding),)


def _counts(hosts: Sequence[HostReport]) -> str:
    statuses = [host.status for host in hosts]
    counts = ", ".join(f"{statuses.count(one)} {one}" for one in dict.fromkeys(sorted(statuses)))
    by_check = {
        (host.host, one.id): one
        for host in hosts
        for one in folded_checks(host.unexplained)
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
    in_all = f"{len(hosts)} hosts: {counts}."
    if len(hosts) == 1:  # of a paste, the page begins with it
        in_all = "" if hosts[0].is_paste else f"1 host: {statuses[0]}."
    is_advised = any(one.fix for host in hosts if host.is_paste for one in host.findings)
    parts = [
        in_all,
        f"To fix: {to_fix}." if to_fix else "",
        "" if to_fix or is_advised or any(host.error for host in hosts) else "Nothing to fix.",
        f"{unknown} check{'s' * (unknown != 1)} could not be judged." if unknown else "",
    ]
    return " ".join(part for part in parts if part)
