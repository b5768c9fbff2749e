"""The site of docs/ is built without a warning, and read from its files in a browser."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from tests.pages.browser import Tab, chromium
from tests.shards import DOCS

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.shard(DOCS)

ROOT: Final = Path(__file__).resolve().parents[2]
WIDTHS: Final = (400, 1400)
LONG_S: Final = 30
NOT_A_LIST: Final = re.compile(r"<p>[^<]*\n(?:[-*]|1\.) .*")
TYPED: Final = """
const field = document.querySelector("input.md-search__input");
field.focus();
field.value = "fallen off the bus";
for (const kind of ["focus", "keydown", "input", "keyup"]) {
  field.dispatchEvent(new Event(kind, { bubbles: true }));
}
"""
FOUND: Final = "[...document.querySelectorAll('.md-search-result__link')].map((one) => one.href)"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    words = ["mkdocs", "build", "--quiet", "--strict", "--site-dir", str(folder)]
    subprocess.run([sys.executable, "-m", *words], cwd=ROOT, env=quiet(), check=True)
    return folder


@pytest.fixture(scope="module")
def tab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tab]:
    with chromium(tmp_path_factory.mktemp("profile")) as tab:
        yield tab


def quiet() -> dict[str, str]:
    return {**os.environ, "NO_MKDOCS_2_WARNING": "1"}


def test_every_page_is_there_and_no_list_is_a_paragraph(site: Path) -> None:
    """GitHub begins a list without an empty line before it, and mkdocs does not."""
    for source in (ROOT / "docs").rglob("*.md"):
        page = site / source.relative_to(ROOT / "docs").with_suffix(".html")
        page = page.with_name("index.html") if source.name == "README.md" else page
        assert NOT_A_LIST.findall(page.read_text(encoding="utf-8")) == [], source


def test_a_broken_link_stops_the_build(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs/README.md").write_text("# Here\n\n[nowhere](nowhere.md) [no head](#none)\n")
    for name in ("mkdocs.yml", "docgen"):
        (tmp_path / name).symlink_to(ROOT / name)
    words = ["mkdocs", "build", "--strict", "--config-file", str(tmp_path / "mkdocs.yml")]

    done = subprocess.run(
        [sys.executable, "-m", *words],
        cwd=tmp_path,
        env=quiet(),
        check=False,
        capture_output=True,
        text=True,
    )

    assert done.returncode == 1
    assert "nowhere.md" in done.stderr
    assert "#none" in done.stderr


def test_pages_fit_a_phone_and_a_desk_and_nothing_is_fetched(tab: Tab, site: Path) -> None:
    tab.troubles.clear()
    tab.requests.clear()
    too_wide = []
    for page in sorted(site.rglob("*.html")):
        if page.name == "404.html" or (page.parent.name == "checks" and "." in page.stem):
            continue  # for a server alone; alike
        for width in WIDTHS:
            tab.open(page, width)
            root = "document.documentElement"
            if not tab.evaluate(f"{root}.scrollWidth <= {root}.clientWidth"):
                too_wide.append(f"{page.relative_to(site)} at {width}")

    assert too_wide == []
    assert tab.troubles == []
    assert [one for one in tab.requests if not one.startswith(("file:", "data:"))] == []


def test_the_search_finds_a_page_without_a_server(tab: Tab, site: Path) -> None:
    tab.open(site / "index.html", WIDTHS[-1])
    tab.evaluate(TYPED)
    until = time.monotonic() + LONG_S

    while not (found := tab.evaluate(FOUND)) and time.monotonic() < until:
        time.sleep(0.1)

    assert any("reference/checks/" in one for one in found), found


def test_the_navigation_is_in_the_order_of_the_lists(site: Path) -> None:
    page = (site / "index.html").read_text(encoding="utf-8")
    links = re.findall(r'<a href="([^"#]+)" class="md-nav__link', page)

    places = [
        links.index(f"{one}.html")
        for one in ("first-hour", "how-to/install", "how-to/apply", "reference/hardware")
    ]
    assert places == sorted(places)
