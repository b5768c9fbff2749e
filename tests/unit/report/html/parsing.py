"""Reads a page as a browser would."""

from __future__ import annotations

from html.parser import HTMLParser

_FETCHES = {"src", "srcset", "poster", "data", "action", "formaction", "background", "ping"}
_VOID = {"meta"}


class Page(HTMLParser):
    """Refuses what is not nested well, runs, or is fetched."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.text = ""
        self.ids: list[str] = []
        self.targets: list[str] = []
        self.feed(page)
        assert not self.open
        assert "default-src 'none'; style-src 'unsafe-inline'" in page
        style = page[page.index("<style>") : page.index("</style>")]
        assert "url(" not in style
        assert "@import" not in style

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag not in {"script", "link", "iframe", "img", "object", "embed", "base", "form"}
        for name, value in attrs:
            assert name not in _FETCHES
            assert not name.startswith("on")
            if name in {"href", "xlink:href"}:
                assert value is not None
                assert value.startswith("#")
                self.targets.append(value[1:])
            if name == "id":
                self.ids.append(value or "")
        if tag not in _VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if "style" not in self.open:
            self.text += data
