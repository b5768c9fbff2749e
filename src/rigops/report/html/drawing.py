"""Links and power paths as SVG, a row for each device.

A box spans the rows of what is below it, so each link is one straight line.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Final

from rigops.dataclass import dataclass
from rigops.doctor.views.bus import Bus, Device
from rigops.report.html.elements import Html, element
from rigops.report.power_words import short

Feed = tuple[str, str]  # supply and circuit, each empty where it is not declared

# Pixels.
_ROW: Final = 64  # with the gap below
_GAP: Final = 10
_BOX: Final = _ROW - _GAP
_LINE: Final = 15
_PADDING: Final = 8
_LETTER: Final = 7.2
_BOLD: Final = 8.2
_FEED: Final = 130  # of supplies and circuits
_FEED_HEIGHT: Final = 34
_CABLE: Final = 44


@dataclass(frozen=True)
class Form:
    """Widths in pixels. `is_wide`: links have labels, and the power path is drawn."""

    port: int
    gap: int
    link: int
    device: int
    is_wide: bool


WIDE: Final = Form(port=84, gap=22, link=118, device=252, is_wide=True)
NARROW: Final = Form(port=56, gap=8, link=12, device=188, is_wide=False)


@dataclass(frozen=True)
class _Port:
    """`way`: from the top, with this one; the same way is the same box."""

    way: tuple[str, ...]
    title: str
    address: str


class Drawing:
    def __init__(self, bus: Bus, feeds: Mapping[str, Feed], form: Form) -> None:
        self._bus, self._feeds, self._form = bus, feeds, form
        self._lines: list[Html] = []  # below the boxes
        self._boxes: list[Html] = []
        ways = [_way(one) for one in bus.devices]
        columns = max(map(len, ways))
        self._at = columns * (form.port + form.gap) - form.gap + form.link if columns else 0
        for row, (device, way) in enumerate(zip(bus.devices, ways, strict=True)):
            if way:
                self._link(row, device, len(way))
            self._device(row, device)
        for column in range(columns):
            for row, rows, port in _spans(ways, column):
                self._port(column, row, rows, port)
        self._right = self._at + form.device
        if bus.nvlinks:
            self._nvlinks()
        if form.is_wide and feeds:
            self._power_path()

    def svg(self, label: str) -> Html:
        return element(
            "svg",
            *self._lines,
            *self._boxes,
            class_=f"topology {'wide' if self._form.is_wide else 'narrow'}",
            role="img",
            aria_label=label,
            viewBox=f"-1 -1 {self._right + 2:g} {len(self._bus.devices) * _ROW - _GAP + 2}",
            style=f"max-width:{self._right * (1 if self._form.is_wide else 1.35):.0f}px",
        )

    def _box(self, x: float, y: float, width: float, height: float, class_: str) -> None:
        box = element("rect", x=x, y=y, width=width, height=height, rx=5, class_=class_)
        self._boxes.append(box)

    def _text(self, x: float, y: float, text: str, class_: str, *, room: int = 0) -> None:
        """In the middle of `x`; with `room` after it, and cut where it is longer."""
        letter = _BOLD if class_ == "name" else _LETTER
        most = int((room - 2 * _PADDING) / letter) if room else len(text)
        shown = text if len(text) <= most else f"{text[: most - 1]}…"
        anchor = None if room else "middle"
        self._boxes.append(element("text", shown, x=x, y=y, class_=class_, text_anchor=anchor))

    def _link(self, row: int, device: Device, columns: int) -> None:
        """As thick as it has lanes."""
        form, y = self._form, row * _ROW + _BOX / 2
        narrowed = " narrowed" if device.link.is_narrow else ""
        start = columns * (form.port + form.gap) - form.gap
        self._line(start, y, self._at, f"link{narrowed}", 1 + (device.link.width or 1) / 3)
        if form.is_wide:
            middle = self._at - form.link / 2
            self._text(middle, y - 8, str(device.link), f"small{narrowed}")
            if device.ports and len(device.ports) > 1:
                self._text(middle, y + 18, short(device.ports[-1]), "mono")

    def _line(self, x: float, y: float, end: float, class_: str, width: float) -> None:
        line = element("line", x1=x, y1=y, x2=end, y2=y, class_=class_, stroke_width=width)
        self._lines.append(line)

    def _device(self, row: int, device: Device) -> None:
        form, y = self._form, row * _ROW
        kind = "card" if device.kind == "GPU" else "device"
        state = " lost" if device.is_lost else " narrowed" if device.link.is_narrow else ""
        self._box(self._at, y, form.device, _BOX, f"{kind}{state}")
        where, last = short(device.address), f"IOMMU group {device.group}" * bool(device.group)
        if not form.is_wide or device.ports is None:
            where = " ".join(filter(None, (where, str(device.link))))
        if not form.is_wide:
            last = ", ".join(filter(None, self._feeds.get(device.address, ()))) or last
        texts = ((device.title, "name"), (where, "mono"), (last, "small"))
        for place, (text, class_) in enumerate(texts, 1):
            line = y + 1 + place * _LINE
            self._text(self._at + _PADDING, line, text, class_, room=form.device)

    def _port(self, column: int, row: int, rows: int, port: _Port) -> None:
        form, height = self._form, rows * _ROW - _GAP
        x, y = column * (form.port + form.gap), row * _ROW
        middle = y + height / 2
        acs = "ACS" if self._redirects(port, row, rows) else ""
        self._box(x, y, form.port, height, "port redirects" if acs else "port")
        title = f"{port.title} {acs}" if form.is_wide else acs or port.title
        self._text(x + form.port / 2, middle - 3, title.strip(), "small")
        self._text(x + form.port / 2, middle + 12, short(port.address), "mono")
        uplink = self._bus.uplinks.get(port.address)
        if uplink:
            self._text(x + form.port / 2, middle + 27, str(uplink), "small")
        if column:
            lanes = uplink.width if uplink else None
            self._line(x - form.gap, middle, x, "link", 1 + (lanes or 1) / 3)

    def _redirects(self, port: _Port, row: int, rows: int) -> bool:
        """A switch: also where one of its lower ports does."""
        depth = len(port.way) - 1
        below = self._bus.devices[row : row + rows]
        at = {one.ports[depth * 2 - 2] for one in below if depth > 1 and one.ports}
        return not self._bus.redirecting.isdisjoint({port.address, *at})

    def _nvlinks(self) -> None:
        """Arcs beside the cards: the farther they go, the wider."""
        rows = {one.address: row for row, one in enumerate(self._bus.devices)}
        names = ", ".join(sorted({link for *_, link in self._bus.nvlinks}))
        reach, right, out = 8 if self._form.is_wide else 5, self._right, 0.0
        for one, other, link in self._bus.nvlinks:
            top, bottom = sorted((rows[one], rows[other]))
            y, end = top * _ROW + _BOX / 2 + 4, bottom * _ROW + _BOX / 2 - 4
            bend = right + 14 + reach * (bottom - top) * 1.4
            out = max(out, bend - right)
            self._lines.append(
                element(
                    "path",
                    element("title", f"{short(one)} to {short(other)}: {link}"),
                    d=f"M{right} {y:g}C{bend:g} {y:g} {bend:g} {end:g} {right} {end:g}",
                    class_="nvlink",
                )
            )
        self._text(right + 6, 12, names, "small", room=10_000)
        self._right = right + int(max(out, len(names) * _LETTER + 10))

    def _power_path(self) -> None:
        """Columns of supplies and circuits, each beside the middle of what it feeds."""
        x = self._right + _CABLE
        fed: dict[str, list[float]] = {}
        for row, device in enumerate(self._bus.devices):
            if device.address in self._feeds:
                fed.setdefault(self._feeds[device.address][0], []).append(row * _ROW + _BOX / 2)
        supplies = self._feeding(self._at + self._form.device, x, fed, "supply")
        carried: dict[str, list[float]] = {}
        for supply, circuit in dict.fromkeys(self._feeds.values()):
            if circuit and supply in supplies:
                carried.setdefault(circuit, []).append(supplies[supply])
        self._right = x + _FEED
        if carried:
            self._feeding(x + _FEED, x + _FEED + _CABLE, carried, "circuit")
            self._right += _CABLE + _FEED

    def _feeding(
        self, start: int, x: int, fed: Mapping[str, Sequence[float]], class_: str
    ) -> dict[str, float]:
        """A column of boxes and their cables. Returns the middle of each."""
        places: dict[str, float] = {}
        free = 0.0
        for name, rows in sorted(fed.items(), key=lambda one: sum(one[1]) / len(one[1])):
            middle = max(sum(rows) / len(rows), free + _FEED_HEIGHT / 2)
            places[name], free = middle, middle + _FEED_HEIGHT / 2 + _GAP
            self._box(x, middle - _FEED_HEIGHT / 2, _FEED, _FEED_HEIGHT, class_)
            self._text(x + _PADDING, middle + 4, name, "small", room=_FEED)
            for y in rows:
                bend = (start + x) / 2
                way = f"M{start} {y:g}C{bend:g} {y:g} {bend:g} {middle:g} {x} {middle:g}"
                self._lines.append(element("path", d=way, class_="cable"))
        return places


def _way(device: Device) -> tuple[_Port, ...]:
    """CPU, root port, and each switch once: the upper of its two ports stands for it."""
    if device.ports is None:
        return ()
    bus = (device.ports or (device.address,))[0].rpartition(":")[0]
    cpu = f"bus {short(f'{bus}')}" if device.node is None else f"node {device.node}"
    ways = [_Port((cpu,), "CPU", cpu)]
    for place, port in enumerate(device.ports):
        if place == 0 or place % 2:
            ways.append(_Port((*ways[-1].way, port), "switch" if place else "port", port))
    return tuple(ways)


def _spans(ways: Collection[tuple[_Port, ...]], column: int) -> Iterator[tuple[int, int, _Port]]:
    """Each box of a column once: its first row, and how many rows."""
    row = 0
    for port, same in groupby(way[column] if column < len(way) else None for way in ways):
        rows = len(list(same))
        if port:
            yield row, rows, port
        row += rows
