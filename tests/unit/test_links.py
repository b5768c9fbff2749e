"""Links of the pages lead to files and headings that exist, as GitHub names them."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
PAGES = [
    *(
        ROOT / name
        for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "deploys/README.md")
    ),
    *sorted(DOCS.rglob("*.md")),
]
LINK = re.compile(r"\]\((?![a-z]+:)([^)#\s]*)(?:#([^)\s]+))?\)")
BLOCK = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
LINES_OF_THE_README = 150


def anchors(page: Path) -> set[str]:
    found = Counter[str]()
    names = set()
    text = BLOCK.sub("", page.read_text(encoding="utf-8"))
    for title in re.findall(r"^#+ (.+)$", text, re.MULTILINE):
        words = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", title).lower()
        name = re.sub(r"[^\w\- ]", "", words).replace(" ", "-")
        names.add(f"{name}-{found[name]}" if found[name] else name)
        found[name] += 1
    return names


def broken(page: Path) -> list[str]:
    found = []
    for target, anchor in LINK.findall(BLOCK.sub("", page.read_text(encoding="utf-8"))):
        path = (page.parent / target).resolve() if target else page
        is_there = path.exists() and (DOCS not in page.parents or DOCS in path.parents)
        if not is_there or (anchor and anchor not in anchors(path)):
            found.append(f"{page.relative_to(ROOT)}: {target}#{anchor}")
    return found


def test_every_link_leads_somewhere_and_those_of_docs_stay_in_it() -> None:
    assert [one for page in PAGES for one in broken(page)] == []


def test_links_and_headings_are_found() -> None:
    assert LINK.findall("[a](b.md#c) [d](#e) ![f](g.webp) [h](https://example.org)") == [
        ("b.md", "c"),
        ("", "e"),
        ("g.webp", ""),
    ]
    assert "check-a-rig" in anchors(DOCS / "tour.md")


def test_every_page_of_a_folder_is_in_its_list() -> None:
    for folder in ("how-to", "explanation"):
        index = DOCS / folder / "README.md"
        listed = {target for target, _ in LINK.findall(index.read_text(encoding="utf-8"))}
        there = {page.name for page in index.parent.glob("*.md")} - {"README.md"}
        assert there - listed == set()


def test_the_readme_is_short() -> None:
    assert (ROOT / "README.md").read_text(encoding="utf-8").count("\n") <= LINES_OF_THE_README
