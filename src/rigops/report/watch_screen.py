"""The live screen, the only place that uses rich: one table a host, redrawn in place."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from rich.console import Console, Group, JustifyMethod, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from rigops.report.terminal import terminal_stream, visible
from rigops.report.watch import COLUMNS, LEFT, cells, trouble_of
from rigops.report.words import minutes

if TYPE_CHECKING:
    from typing_extensions import Self  # from Python 3.11 on in typing

    from rigops.doctor.watch.seen import HostSeen

_COLORS: Final = {"fail": "bold red", "warn": "yellow", "unknown": "yellow", "ok": "green"}
# The column that shows what a check judges.
_SHOWN_BY: Final = {
    "tmp.core": "°C",
    "tmp.outlier": "°C",
    "tmp.mem": "mem°C",
    "clk.throttle": "clocks limited by",
    "clk.lost": "MHz",
    "xid": "new",
    "pci.aer.corr": "new",
    "pci.aer.uncorr": "new",
    "gpu.lost": "card",
}
_MOST_FINDINGS: Final = 3
_OLD_S: Final = 5.0  # beyond the interval


class Screen:
    """`ages`: seconds since the last sample of each host that has one."""

    def __init__(self, hosts: Sequence[HostSeen], seconds: int) -> None:
        self._hosts = hosts
        self._old_s = seconds + _OLD_S
        # Its own width and colors; every text that it gets has been cleaned.
        self._console = Console(file=terminal_stream(), highlight=False, markup=False, emoji=False)
        self._live = Live(console=self._console, auto_refresh=False, redirect_stdout=False,
                          redirect_stderr=False)  # fmt: skip
        self._lock = threading.Lock()

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    @contextmanager
    def silent(self) -> Iterator[None]:
        """While a question is asked, by any thread."""
        with self._lock:
            self._live.stop()
            yield
            self._live.start()

    def show(self, seen: HostSeen, at: str) -> None:
        """It is drawn with the others."""

    def draw(self, elapsed_s: float, age: Callable[[str], float | None]) -> None:
        with self._lock:
            blocks = [self._block(one, age(one.host)) for one in self._hosts]
            foot = Text(f"{minutes(elapsed_s)}   Ctrl-C ends and sums up", style="dim")
            self._live.update(Group(*blocks, foot), refresh=True)

    def _block(self, seen: HostSeen, age_s: float | None) -> RenderableType:
        title = Text(visible(seen.host), style="bold")
        if seen.driver:
            title.append(f"  driver {visible(seen.driver)}", style="not bold dim")
        if seen.samples:
            title.append(f"  {seen.status}", style=_COLORS[seen.status])
        elif not seen.error:
            title.append("  connecting" if age_s is None else "  waiting", style="not bold dim")
        if age_s is not None and age_s > self._old_s:
            title.append(f"  nothing for {minutes(age_s)}", style="yellow")
        parts: list[RenderableType] = [title]
        if trouble := trouble_of(seen):
            parts.append(Text(f"  {visible(trouble)}", style="red"))
        if seen.cards:
            parts.append(_table(seen))
        for one in sorted(seen.now, key=lambda one: one.status)[:_MOST_FINDINGS]:
            about = "" if one.subject == "host" else f"{one.subject}: "
            style = _COLORS.get(one.status, "dim")
            words = f"  {one.status}  {visible(about + one.summary)}"
            parts.append(Text(words, style=style, no_wrap=True, overflow="ellipsis"))
        return Group(*parts, Text(""))


def _table(seen: HostSeen) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for name, width in COLUMNS:
        justify: JustifyMethod = "left" if name in LEFT else "right"
        table.add_column(name, justify=justify, min_width=width, no_wrap=True)
    for address, card in sorted(seen.cards.items()):
        styles = {
            _SHOWN_BY[one.id]: _COLORS[one.status]
            for one in reversed(seen.now)
            if one.subject == f"gpu {address}" and one.id in _SHOWN_BY and one.status in _COLORS
        }
        row = zip(COLUMNS, cells(address, card), strict=True)
        dim = "" if card.now else "dim"
        table.add_row(
            *(Text(visible(text), style=styles.get(name, dim)) for (name, _), text in row)
        )
    return table
