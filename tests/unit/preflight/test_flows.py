"""Copies that go on while all cards copy, as the program on the host counts them."""

from __future__ import annotations

from itertools import permutations
from typing import Any

from rigops.hostside.p2p.cuda import NOT_READY
from rigops.hostside.p2p.flows import Flow, size_of_copies, turns


def test_each_pair_has_one_turn_in_which_no_card_sends_or_receives_twice() -> None:
    wanted = set(permutations(range(7), 2)) - {(0, 3), (5, 6)}

    found = turns(wanted)

    assert sorted(pair for turn in found for pair in turn) == sorted(wanted)
    for turn in found:
        for end in zip(*turn, strict=True):
            assert len(set(end)) == len(turn)
    assert turns([]) == []
    assert turns({(2, 9)}) == [[(2, 9)]]


class Clock:
    """A card whose copies end one after the other, each after a millisecond."""

    context = 0

    def __init__(self) -> None:
        self.sent = self.ended = 0
        self.times: dict[int, int] = {}

    def use(self) -> None: ...

    def handle(self, _: str, *__: object) -> int:
        return len(self.times) + 100

    def do(self, call: str, *given: int) -> None:
        if call == "cuEventRecord":
            self.sent += 1
            self.times[given[0]] = self.sent

    def code(self, _: str, event: int) -> int:
        return 0 if self.times[event] <= self.ended else NOT_READY

    def milliseconds(self, first: int, last: int) -> float:
        return float(self.times[last] - self.times[first])


def test_what_was_counted_before_a_stream_ran_dry_does_not_count() -> None:
    card: Any = Clock()
    flow = Flow(card, (card, card), (0, 0), 8_000_000, 0)
    flow.begin()
    for card.ended in range(1, 6):
        flow.go_on()
        flow.count_from_here()
    assert flow.gb_per_s() == 8.0

    card.ended = card.sent
    flow.go_on()
    assert flow.gb_per_s() is None

    card.ended += 2
    flow.go_on()
    assert flow.gb_per_s() == 8.0


def test_copies_take_about_as_long_on_slow_links_as_on_fast_ones() -> None:
    largest = 256 << 20

    assert [size_of_copies(rate, largest) >> 10 for rate in (0.1, 12.9, 52.0, 900.0)] == [
        64,
        8 << 10,
        32 << 10,
        256 << 10,
    ]
    assert size_of_copies(52.0, 1 << 20) == 1 << 20
    assert size_of_copies(52.0, 4096) == 4096
