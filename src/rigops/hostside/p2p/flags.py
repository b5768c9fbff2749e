"""Rung L3: kernels of two GPUs answer each other through flags in the memory of the second.

The first stores words and a flag there, the second waits for the flag, checks the words and
answers beside it, and the first waits for that. So all that crosses the link is of this pair.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rigops.hostside.p2p.kernels import Talk
from rigops.hostside.p2p.verdict import PAGE
from rigops.hostside.p2p.words import Words, words_of

if TYPE_CHECKING:
    from rigops.hostside.p2p.card import Pair
    from rigops.hostside.p2p.kernels import Kernels, Talked

ROUNDS: Final = 1000
_WORDS: Final = 8
_MAILBOX: Final = PAGE // 2
MAILBOXES: Final = 2 * _MAILBOX  # bytes for a question and its answer
_BACK: Final = 0x9E3779B9  # to the first word of the other direction
_PATIENCE_S: Final = 2.0  # for a flag: then one gives up, so that nothing hangs


def try_flags(pair: Pair, kernels: tuple[Kernels, Kernels]) -> tuple[Talked, Talked]:
    """Give the reports of the source and of the target."""
    _talk(pair, kernels, 0)  # what a first launch takes is no waiting for a flag
    return _talk(pair, kernels, ROUNDS)


def _talk(pair: Pair, kernels: tuple[Kernels, Kernels], rounds: int) -> tuple[Talked, Talked]:
    pair.say(step=f"{rounds} rounds of flags" if rounds else "launching the kernels for flags")
    pair.poison(MAILBOXES)
    there = words_of(pair.source.index, pair.target.index, pair.next_pass())
    asks, answers = (side_of(pair.to, there, rounds, asks=asks) for asks in (True, False))
    sides = (
        (pair.source, kernels[0], asks),
        (pair.target, kernels[1], answers),
    )
    for card, own, _ in sides:
        card.use()
        own.clear_report()
    for card, own, talk in sides:
        card.use()
        own.talk(talk, card.stream)
    reports = []
    for card, own, _ in sides:
        card.wait(pair.say)
        reports.append(own.talked())
    return reports[0], reports[1]


def side_of(at: int, there: Words, rounds: int, *, asks: bool) -> Talk:
    """`at`: the two mailboxes, as the GPU of this side addresses them."""
    back = Words(there.step, (there.start + _BACK) & 0xFFFFFFFF)
    asked, answered = at, at + _MAILBOX
    if asks:
        return Talk(answered, asked, rounds, _PATIENCE_S, _WORDS, there, back, serves=True)
    return Talk(asked, answered, rounds, _PATIENCE_S, _WORDS, back, there, serves=False)


def judge_flags(asking: Talked, answering: Talked, rounds: int) -> tuple[str, list[str]]:
    """`rounds`: that were to be made."""
    made = min(asking.rounds, answering.rounds)
    for talked, whose in ((answering, "the words before a flag"), (asking, "those of an answer")):
        if talked.first is not None:
            first = talked.first
            at = f"in round {talked.first_round} word {first.word}"
            values = f"{first.seen:#010x} instead of {first.expected:#010x}"
            said = f"flags: {talked.wrong} words wrong, although their flag had come"
            return "wrong_data", [f"{said}; of {whose}, {at}: {values}"]
    if made < rounds:
        seen = f"flags: {made} of {rounds} rounds, then one GPU never saw the flag of the other"
        return "hang", [f"{seen}: a collective would wait for ever"]
    return "ok", []
