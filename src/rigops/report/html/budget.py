"""The power budget as bars: what supplies and circuits carry, and what is drawn."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from rigops.power import STEADY_SHARE
from rigops.report.html.elements import Html, badge, element, joined
from rigops.report.power import fix_text, is_at_least, other_rows
from rigops.report.power_words import OVER, WORDS, cards, fed, of_supply, of_wall

if TYPE_CHECKING:
    from rigops.power.report import PowerReport, SharedCircuit


def budget(report: PowerReport) -> Html:
    rows = [*_bars(report)]
    if not rows:
        rows = [element("p", "No supply and no circuit is declared.", class_="missing")]
    about = cards(report.power.loads)
    fix = fix_text(report)
    return joined(
        element("p", badge(_shown(report.status), WORDS[report.status]), f" {about}"),
        *rows,
        element(
            "dl",
            *(
                element(name, text)
                for label, words in other_rows(report)
                for name, text in (("dt", label), ("dd", words))
            ),
        ),
        element("p", element("b", "fix: "), fix) if fix else None,
    )


def circuit(one: SharedCircuit) -> Html:
    """Of several hosts."""
    wall = one.wall
    least = "" if all(share.is_known for share in one.shares) else "at least "
    return _bar(wall.where, f"{least}{of_wall(wall)}", (wall.watts, wall.watts), wall.allowed, 1.0)


def _bars(report: PowerReport) -> Iterator[Html]:
    is_owed = report.status == "warn"
    plan = report.budget
    for supply, now in zip(plan.supplies, report.now.supplies, strict=True):
        least = "at least " if is_at_least(report, supply.loads) else ""
        texts = [f"{least}{of_supply(supply)}", fed(supply)]
        if is_owed and OVER in of_supply(now):
            texts.append(f"now {of_supply(now)}")
        yield _bar(
            supply.name, "; ".join(texts), (supply.steady, supply.peak), supply.watts, STEADY_SHARE
        )
    for wall, now_wall in zip(plan.walls, report.now.walls, strict=True):
        least = "at least " if is_at_least(report, report.power.loads) else ""
        texts = [f"{least}{of_wall(wall)}"]
        if is_owed and OVER in of_wall(now_wall):
            texts.append(f"now {of_wall(now_wall)}")
        yield _bar(wall.where, "; ".join(texts), (wall.watts, wall.watts), wall.allowed, 1.0)


def _bar(name: str, text: str, watts: tuple[float, float], full: float, mark: float) -> Html:
    """`watts`: under lasting load and in peaks. `mark`: the share of all that lasts."""
    steady, peak = watts
    scale = max(steady, peak, full) or 1.0
    is_over = OVER in text
    drawn = element(
        "svg",
        _part(full / scale, "room"),
        _part(peak / scale, "peak over" if is_over else "peak"),
        _part(steady / scale, "steady over" if is_over else "steady"),
        _mark(full * mark / scale),
        class_="bar",
        role="img",
        aria_label=f"{name}: {text}",
    )
    return element("div", element("b", name), drawn, element("p", text), class_="feed")


def _part(share: float, class_: str) -> Html:
    return element("rect", width=f"{share:.1%}", height="100%", class_=class_)


def _mark(share: float) -> Html:
    at = f"{min(share, 0.997):.1%}"
    return element("line", x1=at, x2=at, y1=0, y2="100%", class_="mark")


def _shown(status: str) -> str:
    return {"skipped": "info"}.get(status, status)
