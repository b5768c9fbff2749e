"""Doctor's findings for a forum or an issue."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from rigops import __version__
from rigops.doctor.finding import Finding
from rigops.report.doctor_details import about_host, host_status, not_checked
from rigops.report.doctor_findings import by_urgency, is_grave
from rigops.report.html.findings import evidence_of, fix_lines, grouped_findings, subjects
from rigops.report.stories import Told
from rigops.report.terminal import visible

if TYPE_CHECKING:
    from rigops.doctor.host_report import HostReport

_SPECIAL: Final = re.compile(r"([\\`*{}\[\]<>|~$&]|(?<![A-Za-z0-9])_|_(?![A-Za-z0-9]))")
_MENTION: Final = re.compile(r"@(?=[A-Za-z0-9])")
_MOST_EVIDENCE: Final = 20  # lines of a finding
_FENCE: Final = re.compile(r"`{3,}")


def doctor_markdown(hosts: Sequence[HostReport]) -> str:
    lines = [line for host in hosts for line in _host(host)]
    return "\n".join([*lines, f"rigops {__version__}, names replaced"])


def prose(text: str) -> str:
    """What is between backticks stays code; all else is as it reads, and calls nobody."""
    parts = visible(text.replace("\n", " ")).split("`")
    if len(parts) % 2 == 0:
        parts = ["`".join(parts)]
    return "".join(
        f"`{part}`" if at % 2 and part else _escaped(part) for at, part in enumerate(parts)
    )


def _host(host: HostReport) -> Iterator[str]:
    yield f"### {_escaped(visible(host.host))}: {host_status(host)}"
    yield ""
    about = not_checked(host) or about_host(host)
    for text in (about, *host.notes):
        if text:
            yield from (prose(text), "")
    told = Told(host)
    for story in host.stories:
        cause = host.findings[story.cause]
        yield f"- **{prose(story.title)}.** {prose(story.text)}"
        yield f"  Cause: `{cause.id}`. It explains {prose(told.explained([cause]))}."
    if host.stories:
        yield ""
    shown = [
        one for one in by_urgency(host) if one.status in {"fail", "warn", "info"} or is_grave(one)
    ]
    for alike in grouped_findings(shown):
        yield from _finding(alike)
    ids = {one.id for one in shown}
    counts = {
        status: len({one.id for one in host.findings if one.status == status} - ids)
        for status in ("unknown", "ok", "skipped")
    }
    rest = ", ".join(f"{count} {status}" for status, count in counts.items() if count)
    if rest:
        yield from (f"Also: {rest}.", "")


def _finding(alike: Sequence[Finding]) -> Iterator[str]:
    one = alike[0]
    yield f"- **{one.status}** `{one.id}` {prose(subjects(alike) + one.summary)}"
    for text, declared in fix_lines(one.fix) if one.fix else ():
        yield f"  - {prose(text)}"
        yield from _fenced(declared)
    if one.status != "info":
        evidence = evidence_of(alike)
        more = len(evidence) - _MOST_EVIDENCE
        rest = [f"and {more} more"] if more > 0 else []
        yield from _fenced([*evidence[:_MOST_EVIDENCE], *rest])
    yield ""


def _fenced(lines: Sequence[str]) -> Iterator[str]:
    """In a fence that is longer than any in them."""
    if not lines:
        return
    longest = max((len(run) for line in lines for run in _FENCE.findall(line)), default=2)
    fence = "`" * (longest + 1)
    yield from ("", f"  {fence}text", *(f"  {visible(line)}" for line in lines), f"  {fence}")


def _escaped(text: str) -> str:
    return _MENTION.sub("@<!-- -->", _SPECIAL.sub(r"\\\1", text))
