"""Elements of HTML and SVG. Whatever is no `Html` is escaped here, and shows what it hides."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

from rigops.report.terminal import visible


class Html(str):
    """Made by this module alone."""

    __slots__ = ()


def element(name: str, *children: str | None, **attributes: str | float | None) -> Html:
    """Attributes in Python's spelling: `class_`, `stroke_width`. None is left out."""
    written = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{_text(_number(value))}"'
        for key, value in attributes.items()
        if value is not None
    )
    return Html(f"<{name}{written}>{joined(*children)}</{name}>")


def joined(*children: str | None) -> Html:
    return Html("".join(_text(child) for child in children if child))


def prose(text: str) -> Html:
    """On one line, with what is between backticks as code."""
    parts = text.replace("\n", " ").split("`")
    if len(parts) % 2 == 0:
        return joined("`".join(parts))
    return joined(*(element("code", one) if at % 2 else one for at, one in enumerate(parts)))


def badge(status: str, word: str = "") -> Html:
    return element("span", word or status, class_=f"badge {status}")


def table(titles: Iterable[str], rows: Iterable[Iterable[str]], label: str) -> Html:
    """It scrolls by itself where it is too wide. The first cell of a row names it."""
    head = element("tr", *(element("th", title, scope="col") for title in titles))
    body = (
        element("tr", element("th", first, scope="row"), *(element("td", one) for one in cells))
        for first, *cells in rows
    )
    return scrolling(element("table", element("thead", head), element("tbody", *body)), label)


def scrolling(child: Html, label: str) -> Html:
    return element("div", child, class_="scroll", role="region", aria_label=label, tabindex=0)


def folded(title: str, *children: str | None, is_open: bool = False, class_: str = "") -> Html:
    opened = {"open": ""} if is_open else {}
    return element("details", element("summary", title), *children, class_=class_ or None, **opened)


def _text(text: str) -> str:
    return text if isinstance(text, Html) else escape(visible(text))


def _number(value: str | float) -> str:
    return value if isinstance(value, str) else f"{value:g}"
