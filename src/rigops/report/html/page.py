"""The frame of a page: what a browser needs, a row for each of several hosts, and their blocks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from rigops import __version__, assets
from rigops.dataclass import dataclass
from rigops.report.closing import MOST_IN_FULL, Row
from rigops.report.html.elements import Html, badge, element, folded, joined, prose, table

_POLICY: Final = (
    "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
)
_WORST_FIRST: Final = ("fail", "unknown", "warn", "ok", "skipped")


@dataclass(frozen=True, kw_only=True)
class HostBlock:
    """`parts`: by title. `notes`: lines below its head."""

    row: Row
    about: str
    parts: tuple[tuple[str, Html], ...]
    notes: tuple[str, ...] = ()


def page(command: str, blocks: Sequence[HostBlock], shared: Html | None = None) -> str:
    """`shared`: of all hosts."""
    names = ", ".join(one.row.host for one in blocks)
    title = f"{names if len(blocks) <= MOST_IN_FULL else f'{len(blocks)} hosts'}: {command}"
    ordered = sorted(blocks, key=lambda one: _WORST_FIRST.index(one.row.status))
    style = assets.find("templates").joinpath("page.css").read_text()
    head = element(
        "head",
        Html('<meta charset="utf-8">'),
        Html(f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'),
        Html('<meta name="viewport" content="width=device-width, initial-scale=1">'),
        element("title", title),
        element("style", Html(style)),
    )
    body = element(
        "body",
        element("header", element("h1", title)),
        element(
            "main",
            _fleet(ordered) if len(ordered) > 1 else None,
            shared,
            *(_block(one, at, len(ordered)) for at, one in enumerate(ordered)),
        ),
        element("footer", element("p", f"rigops {__version__}. Read it before you publish it.")),
    )
    return f"<!doctype html>\n{element('html', head, body, lang='en')}\n"


def _fleet(blocks: Sequence[HostBlock]) -> Html:
    statuses = [one.row.status for one in blocks]
    counts = ", ".join(f"{statuses.count(one)} {one}" for one in dict.fromkeys(statuses))
    rows = (
        (
            element("a", one.row.host, href=f"#host-{at}"),
            badge(one.row.status, one.row.result),
            one.row.reason or "-",
        )
        for at, one in enumerate(blocks)
    )
    return element(
        "section",
        element("h2", f"{len(blocks)} hosts: {counts}"),
        table(("Host", "Result", "Worst"), rows, "Hosts"),
    )


def _block(block: HostBlock, at: int, count: int) -> Html:
    """Of many hosts each is folded; a link to its place unfolds it."""
    name, result = element("span", block.row.host), badge(block.row.status, block.row.result)
    heading = element("h2", name, " ", result)
    about = element("p", prose(block.about), class_="about") if block.about else None
    content = element(
        "div",
        *(element("p", prose(note), class_="note") for note in block.notes),
        *(
            element("section", element("h3", title), part, class_="part")
            for title, part in block.parts
        ),
        id=f"host-{at}",
    )
    if count > MOST_IN_FULL:
        return folded(joined(heading, about), content, class_="host")
    return element("section", heading, about, content, class_="host")
