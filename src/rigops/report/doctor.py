"""Findings of doctor in lines: the worst host and the worst finding first."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from rigops.doctor.finding import HOST
from rigops.doctor.host_report import WORST_FIRST as WORST_HOST_FIRST
from rigops.python_literal import literal
from rigops.report.terminal import styled
from rigops.report.words import MARGIN, grouped, wrapped

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from rigops.doctor.finding import Finding, Fix, Status
    from rigops.doctor.host_report import HostReport

_COLORS = {"fail": "red", "unknown": "magenta", "warn": "yellow", "info": "cyan", "ok": "green"}
_QUIET: Final[tuple[Status, ...]] = ("ok", "skipped")
_MOST_EVIDENCE = 8
_LEAST_EVIDENCE = 2
_MOST_UNKNOWN = 6
_HANGING = "  "
_wrapped = partial(wrapped, hanging=_HANGING)


def doctor_lines(hosts: Sequence[HostReport], width: int) -> list[str]:
    worst_first = sorted(hosts, key=lambda host: WORST_HOST_FIRST.index(host.status))
    lines = [line for host in worst_first for line in (*_host(host, width), "")]
    return [*lines, _last_line(hosts)]


def _host(host: HostReport, width: int) -> Iterator[str]:
    status = styled(host.status, fg=_COLORS[host.status], bold=True)
    about = _about(host)
    yield f"{styled(host.host, bold=True)}  {status}" + (f"  {about}" if about else "")
    if host.error:
        yield from _wrapped(f"{host.error.kind}: {host.error.message}", width)
        if host.error.fix:
            yield from _wrapped(f"fix: {host.error.fix}", width)
    for note in host.notes:
        yield from _wrapped(f"note: {note}", width)
    if host.unparsed:
        pieces = ", ".join(f"{count} of {name}" for name, count in host.unparsed.items())
        yield from _wrapped(f"note: unparsed lines, not checked: {pieces}", width)
    brief = [one for one in host.findings if one.status == "unknown" and not one.essential]
    if len(brief) <= _MOST_UNKNOWN:
        brief = []
    shown = [one for one in host.findings if one.status not in _QUIET and one not in brief]
    # Findings that read the same for several cards are shown once.
    same = grouped(shown, lambda one: (one.id, one.status, one.summary, one.fix and one.fix.text))
    for alike in same.values():
        yield from _finding(alike, width)
    summed: dict[Status, Sequence[Finding]] = {"unknown": brief}
    for quiet in _QUIET:
        summed[quiet] = [one for one in host.findings if one.status == quiet]
    for status_word, findings in summed.items():
        if findings:
            yield _summed_up(status_word, list(dict.fromkeys(one.id for one in findings)), width)


def _summed_up(status: Status, ids: list[str], width: int) -> str:
    line = f"{len(ids)} checks: {', '.join(ids)}" if len(ids) > 1 else ids[0]
    room = width - len(f"  {status:<7} ")
    if len(line) > room:
        line = line[: room - 1].rpartition(", ")[0] + ", …"
    return f"  {styled(f'{status:<7}', fg=_COLORS.get(status))} {line}"


def _about(host: HostReport) -> str:
    facts = host.facts
    parts = [
        str(facts["os"]) if facts.get("os") else "",
        f"kernel {facts['kernel']}" if facts.get("kernel") else "",
        f"driver {facts['driver']}" if facts.get("driver") else "",
        _cards(facts.get("gpus")),
    ]
    return ", ".join(part for part in parts if part)


def _cards(gpus: object) -> str:
    if not isinstance(gpus, list) or not gpus:
        return ""
    models = [str(gpu.get("model") or gpu.get("name") or "unknown GPU") for gpu in gpus]
    return ", ".join(f"{models.count(model)}x {model}" for model in dict.fromkeys(models))


def _finding(alike: Sequence[Finding], width: int) -> Iterator[str]:
    finding = alike[0]
    subjects = ", ".join(one.subject for one in alike if one.subject != HOST)
    about = f"{subjects}: " if subjects else ""
    head = f"  {finding.status:<7} {finding.id}  "
    first, *rest = wrapped(head + about + finding.summary, width, "", hanging=MARGIN + _HANGING)
    word = styled(f"{finding.status:<7}", fg=_COLORS[finding.status])
    yield first.replace(head, f"  {word} {styled(finding.id, bold=True)}  ", 1)
    yield from rest
    evidence = list(dict.fromkeys(line for one in alike for line in one.evidence))
    most = _LEAST_EVIDENCE if finding.status == "info" else _MOST_EVIDENCE
    for piece in evidence[:most]:
        yield from _wrapped(f"{piece.section}: {piece.line.strip()}", width)
    if len(evidence) > most:
        more = len(evidence) - most
        yield f"{MARGIN}and {more} more line{'' if more == 1 else 's'} (--json shows all)"
    if finding.why:
        yield from _wrapped(f"why: {finding.why}", width)
    if finding.fix:
        yield from _fix(finding.fix, width)


def _fix(fix: Fix, width: int) -> Iterator[str]:
    by = "" if fix.by_apply else " by hand:" if fix.kind == "hands" else f" {fix.kind}:"
    yield from _wrapped(f"fix:{by} {fix.text}", width)
    for key, value in (fix.declare or {}).items():
        yield f'{MARGIN}     in the inventory: "{key}": {literal(value)},'


def _last_line(hosts: Sequence[HostReport]) -> str:
    fixable = [
        (finding, host)
        for host in hosts
        for finding in host.findings
        if finding.fix and finding.status in {"fail", "warn", "unknown"}
    ]
    applied = _by_check((f, h) for f, h in fixable if f.fix and f.fix.by_apply)
    by_hand = _by_check((f, h) for f, h in fixable if f.fix and not f.fix.by_apply)
    unknown = sum(finding.status == "unknown" for host in hosts for finding in host.findings)
    unreached = [host.host for host in hosts if host.error]
    parts = [
        f"`rigops apply` would fix {applied}." if applied else "",
        f"To do by hand: {by_hand}." if by_hand else "",
        "" if applied or by_hand or unreached else "Nothing to fix.",
        f"{unknown} check{'' if unknown == 1 else 's'} had no data." if unknown else "",
        f"Not checked: {', '.join(unreached)}." if unreached else "",
    ]
    return " ".join(part for part in parts if part)


def _by_check(findings: Iterable[tuple[Finding, HostReport]]) -> str:
    by_check = grouped(findings, lambda found: found[0].id)
    return "; ".join(
        f"{check} on {', '.join(dict.fromkeys(host.host for _, host in found))}"
        for check, found in by_check.items()
    )
