"""Pages in a real browser: on a phone and a desk, light and dark, by keyboard, in print."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from rigops.report.html.doctor import ExaminedHost, doctor_page
from rigops.report.html.power import power_page
from rigops.report.html.preflight import preflight_page
from tests.pages.browser import Tab, chromium
from tests.shards import PAGES
from tests.unit import recorded
from tests.unit.doctor.examining import spec
from tests.unit.report.html import budgets, proofs, rigs

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.shard(PAGES)

EXAMINE = (Path(__file__).parent / "examining.js").read_text()
UNFOLD = "document.querySelectorAll('details').forEach((one) => { one.open = true; })"
WIDTHS = (400, 860, 1400)
TAB, ENTER = ("Tab", 9), ("Enter", 13)
FAULTY = (
    """<!doctype html><html><body><p style="color:#999">pale</p><h3>deep</h3>
<svg width="50" viewBox="0 0 50 10"><rect width="50" height="10" fill="#000"></rect>
<text x="0" y="8" fill="#222">dark, and over the edge of it</text></svg>
<a href="#x"></a><div class="scroll"></div><table><tr><th>x</th></tr></table>
<pre>"""
    + "wide " * 200
)


def switched() -> ExaminedHost:
    return rigs.examined_host(rigs.switched(), spec(**rigs.FEEDS))


def fleet() -> list[ExaminedHost]:
    return [switched(), *(rigs.examined_host(recorded.rig(name)) for name in recorded.NAMES)]


MADE = {
    "doctor": lambda: doctor_page([switched()]),
    "fleet": lambda: doctor_page(fleet()),
    "preflight": lambda: preflight_page(proofs.EVERY),
    "power": lambda: power_page(*budgets.reports()),
}


@pytest.fixture(scope="module")
def tab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tab]:
    with chromium(tmp_path_factory.mktemp("profile")) as tab:
        yield tab


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("pages")
    made = {name: folder / f"{name}.html" for name in MADE}
    for name, path in made.items():
        path.write_text(MADE[name]())
    return made


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", MADE)
def test_it_fits_can_be_read_and_has_names(
    tab: Tab, pages: dict[str, Path], name: str, width: int, scheme: str
) -> None:
    tab.open(pages[name], width, scheme=scheme)

    folded = tab.evaluate(EXAMINE)
    tab.evaluate(UNFOLD)

    assert folded == tab.evaluate(EXAMINE) == []


@pytest.mark.parametrize("name", MADE)
def test_the_console_is_quiet_and_nothing_is_fetched(
    tab: Tab, pages: dict[str, Path], name: str
) -> None:
    tab.troubles.clear()
    tab.requests.clear()

    tab.open(pages[name], WIDTHS[-1])

    assert tab.troubles == []
    assert tab.requests == [pages[name].as_uri()]


def test_one_drawing_is_shown_by_the_width(tab: Tab, pages: dict[str, Path]) -> None:
    shown = "[...document.querySelectorAll('svg.topology')].map((one) => one.checkVisibility())"

    tab.open(pages["doctor"], 400)
    assert tab.evaluate(shown) == [False, True]
    tab.open(pages["doctor"], 1400)
    assert tab.evaluate(shown) == [True, False]


def test_findings_open_by_keyboard(tab: Tab, pages: dict[str, Path]) -> None:
    tab.open(pages["doctor"], 1400)
    focused = "document.activeElement.parentElement.open"

    tab.press(*TAB)
    assert tab.evaluate("document.activeElement.tagName") == "SUMMARY"
    assert tab.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    before = tab.evaluate(focused)
    tab.press(*ENTER)

    assert tab.evaluate(focused) is not before


def test_a_link_of_the_fleet_unfolds_its_host(tab: Tab, pages: dict[str, Path]) -> None:
    tab.open(pages["fleet"], 1400)
    part = "document.querySelector('#host-2 .part').checkVisibility()"
    assert tab.evaluate(part) is False

    tab.evaluate("document.querySelector('a[href=\"#host-2\"]').click()")

    assert tab.evaluate(part)


def test_print_shows_what_is_folded(tab: Tab, pages: dict[str, Path]) -> None:
    tab.open(pages["doctor"], 1000)
    shown = "[...document.querySelectorAll('details pre')].map((one) => one.checkVisibility())"
    assert False in tab.evaluate(shown)

    tab.emulate(media="print")

    assert False not in tab.evaluate(shown)
    assert tab.evaluate(EXAMINE) == []


def test_the_examination_sees_faults(tab: Tab, tmp_path: Path) -> None:
    faulty = tmp_path / "faulty.html"
    faulty.write_text(FAULTY)
    tab.open(faulty, 400)

    found = " | ".join(tab.evaluate(EXAMINE))

    for fault in (
        "contrast 2.85: pale",
        "heading 3 below 0",
        ": dark, and over",
        "drawn over the edge",
        "a drawing without a name",
        "without a name: <a",
        "not by keyboard",
        "without scope",
        "no language",
        "pixels in 400",
    ):
        assert fault in found
