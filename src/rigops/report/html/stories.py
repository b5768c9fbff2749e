"""What happened: each cause with its fix, and below it what it explains."""

from __future__ import annotations

from rigops.doctor.finding import Finding
from rigops.doctor.host_report import HostReport
from rigops.doctor.stories import Story
from rigops.report.html.elements import Html, badge, element, joined, prose
from rigops.report.html.findings import fix_lines, subjects


def stories(host: HostReport) -> Html:
    return joined(*(_story(one, host.findings) for one in host.stories))


def _story(story: Story, findings: tuple[Finding, ...]) -> Html:
    cause = findings[story.cause]
    fixes = [
        " ".join((words, *(f"`{one}`" for one in declared)))
        for words, declared in (fix_lines(cause.fix) if cause.fix else ())
    ]
    return element(
        "div",
        element("h4", story.title),
        element("p", prose(story.text)),
        _line(cause),
        *(element("p", prose(one)) for one in fixes),
        element("p", "It explains:"),
        element("ul", *(element("li", _line(findings[at])) for at in story.effects)),
        class_="story",
    )


def _line(finding: Finding) -> Html:
    about = element("span", prose(f"{subjects([finding])}{finding.summary}"))
    code = element("code", finding.id)
    return element("div", badge(finding.status), code, about, class_="finding")
