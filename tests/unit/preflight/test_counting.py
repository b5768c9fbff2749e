"""How far the copies are, and how long they may still take."""

from __future__ import annotations

from rigops.preflight.found import PairFound
from rigops.preflight.payload import Event, Stage
from rigops.preflight.run import PairCounter


class Copies:
    def __init__(self, pairs: int, most_s: float) -> None:
        self.now = 0.0
        self.shown: list[str] = []
        self.pair = 0
        self.counter = PairCounter(pairs, most_s, self.shown.append, lambda: self.now)

    def end(self, at_s: float, verdict: str = "ok", *, again: bool = False) -> None:
        self.now = at_s
        self.pair += not again
        pair = PairFound("0000:0a:00.0", f"0000:0b:{self.pair:02}.0", verdict, "L1")
        self.counter.hear(Event(pair=pair))


def test_pairs_are_counted_and_the_time_left_is_that_of_the_ones_before() -> None:
    copies = Copies(3, 120)

    copies.end(4)
    copies.end(5)
    copies.end(5, again=True)
    copies.end(9)

    assert copies.shown == [
        "trying pair 1 of 3, at most 120 s left",
        "trying pair 2 of 3, about 8 s left",
        "trying pair 3 of 3, about 2 s left",
        "trying pair 3 of 3, done",
    ]


def test_a_slow_pair_promises_no_more_than_the_limit() -> None:
    copies = Copies(6, 120)

    copies.end(60, "hang")

    assert copies.shown[-1] == "trying pair 2 of 6, about 60 s left"


def test_pairs_that_are_not_tried_do_not_count() -> None:
    copies = Copies(2, 120)

    copies.end(1, "not_granted")
    copies.end(2, "one_way")

    assert copies.shown == ["trying pair 1 of 2, at most 120 s left"]


def test_what_comes_after_the_pairs_alone_is_shown() -> None:
    copies = Copies(1, 120)
    copies.end(1)

    copies.counter.hear(Event(stage=Stage("L4", "all pairs at once")))

    assert copies.shown[-1] == "all pairs at once"
