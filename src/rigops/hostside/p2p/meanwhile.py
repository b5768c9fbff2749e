"""Events on the machine beside the copies: errors of the bus, links, and new lines of the kernel.

Read before the first pair and after the last, as the login user, who may not see all of it. What
could not be read is in `unread`. Output of programs goes to the controller, whose parsers read it.
"""

from __future__ import annotations

import re
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

from rigops.hostside.p2p.machine import ALL_BITS, PCI_FUNCTION

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from rigops.hostside.p2p.answers import (
        ChangeAnswer,
        LinkAnswer,
        LogAnswer,
        MeanwhileAnswer,
    )
    from rigops.hostside.p2p.watched import Job, Say

    # Runs a job in a watched child; None where it had no answer in time.
    Ask = Callable[[Job], "LogAnswer | None"]

_COUNTERS: Final = {
    "aer_corrected": "aer_dev_correctable",
    "aer_nonfatal": "aer_dev_nonfatal",
    "aer_fatal": "aer_dev_fatal",
}
_TOTAL: Final = re.compile(r"^TOTAL_ERR_[A-Z]+ ([0-9]{1,18})$", re.MULTILINE)
_SPEED: Final = re.compile(r"([0-9]{1,3}(?:\.[0-9])?) GT/s")
_WIDTH: Final = re.compile(r"[0-9]{1,3}")
_JOURNAL: Final = ("journalctl", "-k", "-b", "-q", "--no-pager", "-o", "short-iso-precise")
_DMESG: Final = ("dmesg",)
_CURSOR: Final = "-- cursor: "
_JOURNAL_LAG_S: Final = 0.5
_MOST_NEW_LINES: Final = 400
_LONGEST_LINE: Final = 400
_MATTERS: Final = re.compile(
    "NVRM|nvidia|fallen off the bus|AMD-Vi|DMAR|IO_PAGE_FAULT|pcieport|AER|PCIe Bus Error|"
    "Hardware Error|callbacks suppressed"
)


class Meanwhile:
    def __init__(
        self, system: Path, cards: Sequence[str], ask: Ask, smi: Callable[[], str]
    ) -> None:
        """`smi` gives what nvidia-smi reports of the cards, or nothing."""
        self._cards = {card: path_on_bus(system, card) for card in cards}
        self._functions = with_ports(system, self._cards.values())
        self._ask = ask
        self._smi = smi

    def begin(self) -> None:
        self._errors = bus_errors(self._functions)
        self._lanes = {card: _lanes(path) for card, path in self._cards.items()}
        self._speeds = {card: _gt_per_s(path) for card, path in self._cards.items()}
        self._narrowest: dict[str, int] = {}
        self._fastest: dict[str, float] = {}
        self._mark = self._ask(mark_log) or {"why": "no answer in time"}
        self._smi_before = self._smi()

    def bytes_move(self, cards: Iterable[str]) -> None:
        """Only then a link has all its lanes and its speed, or shows that it lost some."""
        for card in cards:
            now = _lanes(self._cards[card])
            if now is not None:
                self._narrowest[card] = min(now, self._narrowest.get(card, now))
            speed = _gt_per_s(self._cards[card])
            if speed is not None:
                self._fastest[card] = max(speed, self._fastest.get(card, speed))

    def end(self) -> MeanwhileAnswer:
        fastest = dict(self._fastest)  # now that they are idle again, speed says nothing
        links: list[LinkAnswer] = [
            {"gpu": card, "gt_per_s": fastest.get(card), "lanes": self._narrowest.get(card)}
            for card in self._cards
        ]
        self.bytes_move(self._cards)  # a card may have left the bus since
        smi_after = self._smi()
        log = self._new_lines()
        errors = bus_errors(self._functions)
        changes = [
            _change(kind, address, before, errors[kind, address])
            for (kind, address), before in self._errors.items()
            if errors.get((kind, address), before) != before
        ]
        changes += [
            _change("link_width", card, lanes, self._narrowest[card])
            for card, lanes in self._lanes.items()
            if lanes is not None and self._narrowest.get(card, lanes) != lanes
        ]
        changes += [
            _change("link_speed", card, speed, fastest[card])
            for card, speed in self._speeds.items()
            if speed is not None and fastest.get(card, speed) < speed
        ]
        return {
            "changes": changes,
            "links": links,
            "functions": list(self._functions),
            "kernel_log": log["lines"],
            "smi": [self._smi_before, smi_after],
            "unread": [*self._unread(errors), *log["unread"]],
        }

    def _new_lines(self) -> dict[str, list[str]]:
        found = self._mark
        if "why" not in found:
            found = self._ask(read_new_lines(found)) or {"why": "no answer in time"}
        unread = [f"the kernel log ({found['why']})"] if found.get("why") else []
        if found.get("left_out"):
            unread.append(f"{found['left_out']} more lines of the kernel log")
        return {"lines": found.get("lines", []), "unread": unread}

    def _unread(self, errors: Mapping[tuple[str, str], int]) -> list[str]:
        counted = {address for _, address in self._errors} & {address for _, address in errors}
        uncounted = [card for card in self._cards if card not in counted]
        dark = [card for card, lanes in self._lanes.items() if lanes is None]
        return [
            f"{what} of {', '.join(cards)}"
            for what, cards in (("bus errors", uncounted), ("link width", dark))
            if cards
        ]


def _change(kind: str, subject: str, before: float, after: float) -> ChangeAnswer:
    return {"kind": kind, "subject": subject, "before": before, "after": after}


def path_on_bus(system: Path, address: str) -> Path:
    return (system / "bus/pci/devices" / address).resolve()


def with_ports(system: Path, cards: Iterable[Path]) -> dict[str, Path]:
    """The cards and every port above them, by address."""
    found = {}
    for card in cards:
        for path in (card, *card.parents):
            if PCI_FUNCTION.fullmatch(path.name) and system.resolve() in path.parents:
                found[path.name] = path
    return found


def bus_errors(functions: Mapping[str, Path]) -> dict[tuple[str, str], int]:
    """By kind and address, of those that count any."""
    found = {}
    for address, path in functions.items():
        for kind, name in _COUNTERS.items():
            total = _TOTAL.search(_content(path / name))
            if total:
                found[kind, address] = int(total[1])
    return found


def _lanes(card: Path) -> int | None:
    """0: it has left the bus."""
    text = _content(card / "current_link_width").strip()
    if not _WIDTH.fullmatch(text):
        return None
    return int(text) if int(text) < ALL_BITS else 0


def _gt_per_s(card: Path) -> float | None:
    """It rises as bytes move, from 2.5 to what both ends can."""
    speed = _SPEED.match(_content(card / "current_link_speed"))
    return float(speed[1]) if speed else None


def _content(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


# ---- jobs of watched children


def mark_log(say: Say) -> None:
    """Find where the kernel log ends now."""
    say(step="marking the kernel log", ready=True)
    shown, why = _output((*_JOURNAL, "-n", "1", "--show-cursor"))
    cursors = [line[len(_CURSOR) :] for line in shown if line.startswith(_CURSOR)]
    # A journal that this login may not read is empty.
    if cursors and not shown[0].startswith("-- "):
        say(answer={"cursor": cursors[0]})
        return
    shown, why_not = _output(_DMESG)
    say(answer={"last": shown[-1]} if shown else {"why": why or why_not or "it is empty"})


def read_new_lines(mark: LogAnswer) -> Job:
    """Make the job that reads what came since."""

    def job(say: Say) -> None:
        say(step="reading the kernel log", ready=True)
        time.sleep(_JOURNAL_LAG_S)
        if "cursor" in mark:
            shown, why = _output((*_JOURNAL, f"--after-cursor={mark['cursor']}"))
        else:
            shown, why = _output(_DMESG)
            if mark["last"] in shown:
                shown = shown[len(shown) - shown[::-1].index(mark["last"]) :]
        new = [line[:_LONGEST_LINE] for line in shown if _MATTERS.search(line)]
        left_out = max(len(new) - _MOST_NEW_LINES, 0)
        say(answer={"lines": new[:_MOST_NEW_LINES], "left_out": left_out, "why": why})

    return job


def _output(words: Sequence[str]) -> tuple[list[str], str]:
    """Its lines, and why there are none."""
    try:
        done = subprocess.run(words, capture_output=True, check=False)
    except OSError as error:
        return [], f"{words[0]}: {error.strerror}"
    lines = done.stdout.decode("utf-8", "replace").splitlines()
    said = done.stderr.decode("utf-8", "replace").strip().splitlines()
    why = said[0] if said else f"{words[0]}: exit code {done.returncode}"
    return lines, "" if done.returncode == 0 else why
