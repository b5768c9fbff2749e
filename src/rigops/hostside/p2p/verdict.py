"""The words of preflight and the rules behind them: pure, and the same on both sides.

The program that runs on hosts shares this module: Python 3.8 and the standard library only.
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import shake_128
from statistics import median
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    Bytes = bytes | bytearray


FAIL: Final = "fail"
UNKNOWN: Final = "unknown"
WARN: Final = "warn"
OK: Final = "ok"
SKIPPED: Final = "skipped"
GRAVEST_FIRST: Final = (FAIL, UNKNOWN, WARN, OK, SKIPPED)

STATUS_OF: Final[Mapping[str, str]] = {
    "hang": FAIL,
    "wrong_data": FAIL,
    "mirror": FAIL,
    "unstable": FAIL,
    "error": FAIL,
    "hardware": FAIL,
    "unknown": UNKNOWN,
    "one_way": WARN,
    "slower_than_staged": WARN,
    "ok": OK,
    "not_granted": OK,
    "skipped": SKIPPED,
}
VERDICTS: Final = tuple(STATUS_OF)
# Grants, copies, loads and stores by kernels, flags, all pairs at once, other processes.
LEVELS: Final = ("L0", "L1", "L2", "L3", "L4", "L5")
ALONE: Final = "L3"  # the highest for a pair alone; below it a pair is called copied
HIGHEST: Final = LEVELS[-1]
REFUSED: Final = frozenset(("not_granted", "one_way"))

ALL_REDUCE: Final = "all-reduce"  # what comes after all rungs, and is not of pairs
PROVEN: Final = "proven"
NOT_PROVEN: Final = "not proven"
FAILED: Final = "failed"
COLLECTIVES: Final = (PROVEN, NOT_PROVEN, FAILED)

_UNTRIED: Final = {True: ("skipped",), False: ()}
_EXIT_OF: Final = {FAIL: 1, UNKNOWN: 3}

PAGE: Final = 4096
POISON: Final = 0xDEADF00D  # as a 32-bit word; a whole page of it comes out of no pattern

_BLOCK: Final = 1 << 20
_TURN: Final = PAGE + 8  # of a block against the one before: no two places of a buffer are alike
_TELLING: Final = 16  # bytes: fewer may look like anything
_SLOWER: Final = 0.8  # of the slowest staged sample; medians of one path were seen so far apart


def gravest(statuses: Iterable[str]) -> str:
    """Of several pairs or hosts; nothing at all is nothing wrong."""
    return min(statuses, key=GRAVEST_FIRST.index, default=OK)


def exit_code(status: str) -> int:
    return _EXIT_OF.get(status, 0)


# ---- what is sent, and what came


def pattern(source: int, target: int, number: int, size: int) -> bytes:
    """Give the bytes of copy `number` from GPU `source` to GPU `target`.

    Another direction, another pair or another copy gives other bytes at every place, so that a
    mirror, a swapped direction and a stale buffer cannot pass for the right data.
    """
    seed = f"rigops {source} {target} {number}".encode()
    if size <= _BLOCK:
        return shake_128(seed).digest(size)
    block = shake_128(seed).digest(_BLOCK)
    twice = block + block
    turns = ((turn * _TURN) % _BLOCK for turn in range(-(-size // _BLOCK)))
    return b"".join(twice[start : start + _BLOCK] for start in turns)[:size]


def poison(size: int) -> bytes:
    return POISON.to_bytes(4, "little") * (size // 4)


@dataclass(frozen=True)
class Reading:
    """The content that the owner of the memory found after one copy."""

    found: str  # right, nothing, zeros, reversed, stale or other
    first: int = 0  # the first wrong byte
    bad_pages: int = 0
    pages: int = 0

    @property
    def right(self) -> bool:
        return self.found == "right"


_FOUND_WORDS: Final = {
    "nothing": "nothing arrived",
    "zeros": "it is zeros",
    "reversed": "it is the data of the opposite direction",
    "stale": "it is the data of the copy before",
    "other": "it is neither this copy's data nor any other that was sent",
}


def classify(received: Bytes, source: int, target: int, number: int) -> Reading:
    size = len(received)
    expected = pattern(source, target, number, size)
    if received == expected:
        return Reading("right")
    first = _first_difference(received, expected)
    end = size - _first_difference(received[::-1], expected[::-1])
    bad = [page for page in range(0, size, PAGE) if _differ(received, expected, page, page + PAGE)]
    spans = [(max(page, first), min(page + PAGE, end)) for page in bad]
    found = "other"
    enough = end - first >= _TELLING
    for name, candidate in _candidates(source, target, number, size) if enough else ():
        if not any(_differ(received, candidate, *span) for span in spans):
            found = name
            break
    return Reading(found, first, len(bad), -(-size // PAGE))


def _candidates(source: int, target: int, number: int, size: int) -> Iterator[tuple[str, bytes]]:
    yield "nothing", poison(size)
    yield "zeros", bytes(size)
    yield "reversed", pattern(target, source, number, size)
    yield "stale", pattern(source, target, number - 1, size)


def _differ(one: Bytes, other: Bytes, start: int, end: int) -> bool:
    return one[start:end] != other[start:end]


def _first_difference(one: Bytes, other: Bytes) -> int:
    """Halve until it is found: slices are compared at the speed of memory."""
    low, high = 0, len(one)
    while high - low > 1:
        middle = (low + high) // 2
        if _differ(one, other, low, middle):
            high = middle
        else:
            low = middle
    return low


# ---- a pair


@dataclass(frozen=True)
class Copied:
    """One copy from a GPU into another's memory, read back by the owner of that memory."""

    size: int
    reading: Reading
    writer_sees_it: bool = False  # the writer reads its data back, although the owner does not
    guards_intact: bool = True

    @property
    def right(self) -> bool:
        return self.reading.right and self.guards_intact


def judge_data(copies: Sequence[Copied], control: Reading) -> tuple[str, list[str]]:
    """Judge by the bytes alone. `control` is the same data taken through the host's memory."""
    bad = [copied for copied in copies if not copied.right]
    evidence = _describe(copies, bad)
    if not control.right:
        return "hardware", ["staged through the host: " + _in_words(control), *evidence]
    if not bad:
        return "ok", evidence
    sizes_right = {copied.size for copied in copies if copied.right}
    if any(copied.size in sizes_right for copied in bad):
        return "unstable", evidence
    if all(copied.writer_sees_it and copied.reading.found == "nothing" for copied in bad):
        mirror = "the writer reads its own data back, the owner does not have it"
        return "mirror", [mirror, *evidence]
    return "wrong_data", evidence


def judge_speed(direct: Sequence[float], staged: Sequence[float]) -> tuple[str, list[str]]:
    """By GB/s of each sample: slower only where the scatter of both does not explain it."""
    if not direct or not staged or max(direct) >= min(staged) * _SLOWER:
        return "ok", []
    speeds = f"{median(direct):.1f} GB/s, and {median(staged):.1f} GB/s through the host's memory"
    return "slower_than_staged", [speeds]


def _describe(copies: Sequence[Copied], bad: Sequence[Copied]) -> list[str]:
    lines = []
    for size in dict.fromkeys(copied.size for copied in bad):
        wrong = [copied for copied in bad if copied.size == size]
        count = sum(1 for copied in copies if copied.size == size)
        words = list(
            dict.fromkeys(_in_words(copied.reading) for copied in wrong if not copied.reading.right)
        )
        if not all(copied.guards_intact for copied in wrong):
            words.append("bytes beside the target were overwritten")
        lines.append(f"{size_name(size)}: {len(wrong)} of {count} wrong: {' | '.join(words)}")
    return lines


def _in_words(reading: Reading) -> str:
    if reading.right:
        return "right"
    where = f"from byte {reading.first} on" if reading.first else "from the first byte on"
    return (
        f"{reading.bad_pages} of {reading.pages} pages bad, {where}; {_FOUND_WORDS[reading.found]}"
    )


def size_name(size: int) -> str:
    for unit, name in ((1 << 20, "MiB"), (1 << 10, "KiB")):
        if size >= unit and size % unit == 0:
            return f"{size // unit} {name}"
    return f"{size} B"


# ---- a host


@dataclass(frozen=True)
class Demand:
    """The declaration of a host; `wired` are the pairs with NVLink, if known."""

    p2p: str = "measure"
    gpus: int | None = None
    wired: Collection[tuple[str, str]] | None = None
    copies: bool = True  # whether copies were asked for, or only what the driver grants


def judge_host(
    verdicts: Mapping[tuple[str, str], str], gpus: int, demand: Demand
) -> tuple[str, list[str]]:
    """Status of a host by what was found between its GPUs, keyed by (from, to) addresses."""
    statuses = [STATUS_OF.get(verdict, UNKNOWN) for verdict in verdicts.values()]
    reasons = []
    if demand.gpus is not None and gpus < demand.gpus:
        statuses.append(FAIL)
        reasons.append(f"{demand.gpus} GPUs are declared, and {gpus} take part")
    status, unmet = _unmet(verdicts, demand)
    statuses.append(status)
    return gravest(statuses), reasons + unmet


def _unmet(verdicts: Mapping[tuple[str, str], str], demand: Demand) -> tuple[str, list[str]]:
    if demand.p2p == "nvlink":
        if demand.wired is None:
            return UNKNOWN, ['p2p = "nvlink" is declared, and the wiring could not be read']
        wanted, which = list(demand.wired), "wired pairs"
    elif demand.p2p == "required":
        wanted, which = list(verdicts), "pairs"
    else:
        return OK, []
    declared = f'p2p = "{demand.p2p}" is declared'
    if not wanted:
        return FAIL, [f"{declared}, and there are no {which}"]
    refused = [pair for pair in wanted if verdicts.get(pair) in REFUSED]
    if refused:
        return FAIL, [f"{declared}, and {len(refused)} of {len(wanted)} {which} are refused"]
    untried = [pair for pair in wanted if verdicts.get(pair, "") in ("", *_UNTRIED[demand.copies])]
    if untried:
        return UNKNOWN, [f"{declared}, and {len(untried)} of {len(wanted)} {which} were not tried"]
    return OK, []
