"""Hooks of mkdocs: the order of the navigation, and a search that fetches nothing."""

from __future__ import annotations

import re
from pathlib import Path, PurePosixPath
from typing import Any, Final

_LINK: Final = re.compile(r"\]\(([^)#]+)")
_FETCHED: Final = '<script src="https://unpkg.com/iframe-worker/shim"></script>'
_WORKER: Final = Path(__file__).with_name("worker_in_a_frame.js").read_text(encoding="utf-8")


def on_nav(nav: Any, config: Any, **_: Any) -> Any:
    """In each folder as its README.md has the links; what it does not link to comes last."""
    _sort(nav.items, Path(config.docs_dir))
    return nav


def on_post_page(output: str, **_: Any) -> str:
    return output.replace(_FETCHED, f"<script>{_WORKER}</script>")


def _sort(items: list[Any], docs: Path) -> None:
    for item in items:
        if item.is_section:
            _sort(item.children, docs)
    index = next((one for one in items if one.is_page and one.is_index), None)
    if index is None:
        return
    folder = PurePosixPath(index.file.src_uri).parent
    text = (docs / index.file.src_uri).read_text(encoding="utf-8")
    linked = [f"{folder / target}" for target in _LINK.findall(text)]

    def place(item: Any) -> int:
        wanted = _path(item)
        found = (at for at, one in enumerate(linked) if one.startswith(wanted))
        return -1 if item is index else next(found, len(linked))

    items.sort(key=place)


def _path(item: Any) -> str:
    """Of a page its file, of a section its folder."""
    if item.is_page:
        return str(item.file.src_uri)
    return f"{PurePosixPath(_path(item.children[0])).parent}/"
