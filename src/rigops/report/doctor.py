"""What doctor found, as text: worst first, host by host, with evidence and a way out."""

from __future__ import annotations

from textwrap import fill
from typing import TYPE_CHECKING, Final

import click

from rigops.doctor.finding import HOST
from rigops.doctor.judge import WORST_FIRST as WORST_HOST_FIRST
from rigops.python_literal import literal

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rigops.doctor.finding import Finding, Remedy, Status
    from rigops.doctor.host_report import HostReport

_COLORS = {"fail": "red", "unknown": "magenta", "warn": "yellow", "info": "cyan", "ok": "green"}
_QUIET: Final[tuple[Status, ...]] = ("ok", "skipped")
_MARGIN = " " * 4
_MOST_EVIDENCE = 8
_LEAST_EVIDENCE = 2


def doctor_text(hosts: Sequence[HostReport], width: int) -> str:
    worst_first = sorted(hosts, key=lambda host: WORST_HOST_FIRST.index(host.status))
    lines = [line for host in worst_first for line in (*_host(host, width), "")]
    return "\n".join([*lines, _last_line(hosts)])


def plain(text: str) -> str:
    """What a host said, on one line and without anything that a terminal would obey."""
    return "".join(letter if letter.isprintable() else " " for letter in text).strip()


def _host(host: HostReport, width: int) -> Iterator[str]:
    status = click.style(host.status, fg=_COLORS[host.status], bold=True)
    about = _about(host)
    yield f"{click.style(plain(host.host), bold=True)}  {status}" + (f"  {about}" if about else "")
    if host.error:
        yield _wrapped(f"{host.error.kind}: {plain(host.error.message)}", width)
        if host.error.cure:
            yield _wrapped(f"cure: {plain(host.error.cure)}", width)
    for note in host.notes:
        yield _wrapped(f"note: {plain(note)}", width)
    if host.unread:
        pieces = ", ".join(f"{count} of {name}" for name, count in host.unread.items())
        yield _wrapped(f"note: not understood, so not judged: {plain(pieces)}", width)
    told = [finding for finding in host.findings if finding.status not in _QUIET]
    for alike in _folded(told):
        yield from _finding(alike, width)
    for status_word in _QUIET:
        ids = [finding.id for finding in host.findings if finding.status == status_word]
        if ids:
            yield _summed_up(status_word, list(dict.fromkeys(ids)), width)


def _folded(findings: Sequence[Finding]) -> list[list[Finding]]:
    """What is said of several cards in the same words is said once."""
    alike: dict[tuple[str, str, str, str], list[Finding]] = {}
    for finding in findings:
        text = finding.remedy.text if finding.remedy else ""
        alike.setdefault((finding.id, finding.status, finding.summary, text), []).append(finding)
    return list(alike.values())


def _summed_up(status: Status, ids: list[str], width: int) -> str:
    line = f"{len(ids)} checks: {', '.join(ids)}" if len(ids) > 1 else ids[0]
    room = width - len(f"  {status:<7} ")
    if len(line) > room:
        line = line[: room - 1].rpartition(", ")[0] + ", …"
    return f"  {click.style(f'{status:<7}', fg=_COLORS.get(status))} {line}"


def _about(host: HostReport) -> str:
    facts = host.facts
    parts = [
        str(facts["os"]) if facts.get("os") else "",
        f"kernel {facts['kernel']}" if facts.get("kernel") else "",
        f"driver {facts['driver']}" if facts.get("driver") else "",
        _cards(facts.get("gpus")),
    ]
    return ", ".join(plain(part) for part in parts if part)


def _cards(gpus: object) -> str:
    if not isinstance(gpus, list) or not gpus:
        return ""
    models = [str(gpu.get("model") or "unknown GPU") for gpu in gpus]
    return ", ".join(f"{models.count(model)}x {model}" for model in dict.fromkeys(models))


def _finding(alike: Sequence[Finding], width: int) -> Iterator[str]:
    finding = alike[0]
    word = click.style(f"{finding.status:<7}", fg=_COLORS[finding.status])
    subjects = ", ".join(plain(one.subject) for one in alike if one.subject != HOST)
    about = f"{subjects}: " if subjects else ""
    yield f"  {word} {click.style(finding.id, bold=True)}  {about}{plain(finding.summary)}"
    evidence = list(dict.fromkeys(line for one in alike for line in one.evidence))
    most = _LEAST_EVIDENCE if finding.status == "info" else _MOST_EVIDENCE
    for piece in evidence[:most]:
        yield _wrapped(f"{piece.section}: {plain(piece.line)}", width)
    if len(evidence) > most:
        yield f"{_MARGIN}and {len(evidence) - most} lines more (--json has them all)"
    if finding.why:
        yield _wrapped(f"why: {plain(finding.why)}", width)
    if finding.remedy:
        yield from _fix(finding.remedy, width)


def _fix(remedy: Remedy, width: int) -> Iterator[str]:
    by = "" if remedy.by_apply else " by hand:" if remedy.kind == "hands" else f" {remedy.kind}:"
    yield _wrapped(f"fix:{by} {plain(remedy.text)}", width)
    for key, value in (remedy.declare or {}).items():
        yield f'{_MARGIN}     in the inventory: "{key}": {literal(value)},'


def _last_line(hosts: Sequence[HostReport]) -> str:
    remedies = [
        (finding, host)
        for host in hosts
        for finding in host.findings
        if finding.remedy and finding.status in {"fail", "warn", "unknown"}
    ]
    applied = [f"{f.id} on {plain(h.host)}" for f, h in remedies if f.remedy and f.remedy.by_apply]
    by_hand = [
        f"{f.id} on {plain(h.host)}" for f, h in remedies if f.remedy and not f.remedy.by_apply
    ]
    unreached = [plain(host.host) for host in hosts if host.error]
    parts = [
        f"`rigops apply` would fix {', '.join(applied)}." if applied else "",
        f"Left for hands: {', '.join(by_hand)}." if by_hand else "",
        f"Not examined: {', '.join(unreached)}." if unreached else "",
    ]
    return " ".join(part for part in parts if part) or "Nothing to fix."


def _wrapped(text: str, width: int) -> str:
    return fill(
        text,
        width,
        initial_indent=_MARGIN,
        subsequent_indent=_MARGIN + "  ",
        break_long_words=False,
        break_on_hyphens=False,
    )
