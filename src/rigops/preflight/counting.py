"""How far the copies are, from the lines that the program on the host prints meanwhile."""

from __future__ import annotations

import json
import time
from collections.abc import Callable

from rigops.hostside.p2p.verdict import REFUSED
from rigops.preflight.payload import plain


class PairCounter:
    """`pairs`: that are tried. `most_s`: for all of them."""

    def __init__(
        self,
        pairs: int,
        most_s: float,
        report: Callable[[str], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._pairs = pairs
        self._most_s = most_s
        self._report = report
        self._clock = clock
        self._began = clock()
        self._tried: set[tuple[str, str]] = set()
        if pairs:
            self._show()

    def hear(self, line: bytes) -> None:
        try:
            event = json.loads(line)
            if event["event"] == "stage":
                self._report(plain(event["text"]))
                return
            pair = event["pair"] if event["event"] == "pair" else None
            name = (pair["from"], pair["to"]) if pair else None
            is_new = pair and pair["verdict"] not in REFUSED and name not in self._tried
        except (ValueError, RecursionError, KeyError, TypeError):  # the driver prints lines too
            return
        if name and is_new:
            self._tried.add(name)
            self._show()

    def _show(self) -> None:
        elapsed, done = self._clock() - self._began, len(self._tried)
        if done >= self._pairs:
            self._report(f"trying pair {self._pairs} of {self._pairs}, done")
            return
        most = max(self._most_s - elapsed, 0)
        left = min(elapsed / done * (self._pairs - done), most) if done else most
        about = "about" if done else "at most"
        self._report(f"trying pair {done + 1} of {self._pairs}, {about} {round(left)} s left")
