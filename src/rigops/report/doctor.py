"""What doctor found, as text: worst first, host by host, with evidence and a way out."""

from __future__ import annotations

from textwrap import fill
from typing import TYPE_CHECKING

import click

from rigops.doctor.finding import HOST, WORST_FIRST
from rigops.doctor.judge import WORST_FIRST as WORST_HOST_FIRST

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rigops.doctor.finding import Finding, Remedy
    from rigops.doctor.host_report import HostReport

_COLORS = {"fail": "red", "unknown": "magenta", "warn": "yellow", "info": "cyan", "ok": "green"}
_QUIET = ("ok", "skipped")
_MARGIN = " " * 4
_MOST_EVIDENCE = 8


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
    ordered = sorted(host.findings, key=lambda finding: WORST_FIRST.index(finding.status))
    for finding in ordered:
        if finding.status not in _QUIET:
            yield from _finding(finding, width)
    for status_word in _QUIET:
        quiet = [finding for finding in ordered if finding.status == status_word]
        if quiet:
            names = ", ".join(dict.fromkeys(finding.id for finding in quiet))
            word = click.style(f"{status_word:<7}", fg=_COLORS.get(status_word))
            yield f"  {word} {names}"


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


def _finding(finding: Finding, width: int) -> Iterator[str]:
    word = click.style(f"{finding.status:<7}", fg=_COLORS[finding.status])
    subject = "" if finding.subject == HOST else f"{plain(finding.subject)}: "
    yield f"  {word} {click.style(finding.id, bold=True)}  {subject}{plain(finding.summary)}"
    for one in finding.evidence[:_MOST_EVIDENCE]:
        yield _wrapped(f"{one.section}: {plain(one.line)}", width)
    more = len(finding.evidence) - _MOST_EVIDENCE
    if more > 0:
        yield f"{_MARGIN}and {more} lines more (--json has them all)"
    if finding.why:
        yield _wrapped(f"why: {plain(finding.why)}", width)
    if finding.remedy:
        yield from _fix(finding.remedy, width)


def _fix(remedy: Remedy, width: int) -> Iterator[str]:
    by = "" if remedy.by_apply else " by hand:" if remedy.kind == "hands" else f" {remedy.kind}:"
    yield _wrapped(f"fix:{by} {plain(remedy.text)}", width)
    for key, value in (remedy.declare or {}).items():
        yield f'{_MARGIN}     in the inventory: "{key}": {_python(value)},'


def _python(value: object) -> str:
    """As a person would write it, with double quotes."""
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(_python, value))}]"
    if isinstance(value, str) and "'" not in value:
        return '"' + repr(value)[1:-1].replace('"', '\\"') + '"'
    return repr(value)


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
