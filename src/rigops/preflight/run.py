"""Runs the preflight program on a host; gives a result also when the host is lost.

Two steps: query peer access, which is harmless, then copy, which can freeze a broken machine. The
first step names the pairs at stake if nothing comes back from the second. Where no pair has access,
the second step is an all-reduce through the memory of the host, and nothing else.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from rigops.catalog import Catalog
from rigops.dataclass import dataclass
from rigops.errors import HostError, RigopsError
from rigops.hostside.p2p.verdict import (
    FAILED,
    NOT_PROVEN,
    REFUSED,
    SKIPPED,
    STATUS_OF,
    gravest,
)
from rigops.hostside.packing import pack
from rigops.preflight.chosen_pairs import NOT_CHOSEN, resolve_pairs
from rigops.preflight.found import CollectivesFound, HostFound, PairFound
from rigops.preflight.judge import judge
from rigops.preflight.lost import Heard, Host, Returned, evidence_of, pairs_when_lost, wait_for
from rigops.preflight.payload import (
    Event,
    Job,
    PayloadReport,
    Trouble,
    plain,
    read_answer,
    read_event,
)
from rigops.preflight.siblings import LastRates
from rigops.probe import reading
from rigops.probe.lost_cards import SECTIONS, LostCard, lost_cards, sentence
from rigops.probe.script import longest_s, script
from rigops.probe.snapshot import HostSnapshot
from rigops.transport import ScriptResult, TransportError

if TYPE_CHECKING:
    from rigops.inventory.spec import RigSpec

LEVELS: Final = ("quick", "p2p")

_NO_PYTHON, _OLD_PYTHON = 127, 126
_START: Final = (
    "cd / || exit; command -v python3 >/dev/null || exit 127; "
    'python3 -I -c "import sys; sys.exit(sys.version_info < (3, 8))" </dev/null || '
    '{ python3 -V; exit 126; }; exec python3 -I - "$@"'
)
_SMI_S: Final = 15.0  # for each of two calls of nvidia-smi
_AROUND_S: Final = 10.0  # for each of four programs around the copies
_TRAVEL_S: Final = 20.0  # for sending the program, starting it, and its last output
_PER_PAIR_S: Final = 12.0
_COLLECTIVES_S: Final = 30.0


@dataclass(frozen=True, kw_only=True)
class PayloadLimits:
    """Seconds, bytes and counts; each is the payload's own option."""

    init_s: float = 30
    pair_s: float = 20
    all_s: float = 120
    dead_s: float = 3
    back_s: float = 300  # for a host that was lost to come back; no option of the payload
    sizes: tuple[int, ...] = (4 << 10, 1 << 20, 64 << 20, 256 << 20)
    passes: int = 3

    def options(self, level: str, pairs: Sequence[str] = ()) -> list[str]:
        """`pairs`: only these, by number (`0:1`)."""
        words = ["--level", level, "--passes", str(self.passes), "--sizes", *map(str, self.sizes)]
        for name in ("init", "pair", "all", "dead"):
            words += [f"--{name}-s", f"{getattr(self, f'{name}_s'):g}"]
        return [*words, "--pairs", *pairs] if pairs else words

    def census_s(self) -> float:
        return self.init_s + self.dead_s + 2 * _SMI_S + _TRAVEL_S

    def everything_s(self) -> float:
        """Longer than the payload can take: the last pair may begin just before `all_s` is over."""
        around_s = 4 * (_AROUND_S + self.dead_s + 1)
        return self.census_s() + self.all_s + self.init_s + self.pair_s + self.dead_s + around_s


class PairCounter:
    """How far the copies are. `pairs`: that are tried. `most_s`: for all of them."""

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

    def hear(self, event: Event) -> None:
        pair = event.pair
        if event.stage is not None:
            self._report(event.stage.name)
        elif pair is not None and pair.verdict not in REFUSED:
            is_new = (pair.source, pair.target) not in self._tried
            self._tried.add((pair.source, pair.target))
            if is_new:
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


def prove(
    name: str,
    host: Host,
    spec: RigSpec | None,
    *,
    level: str,
    pairs: Sequence[tuple[str, str]] = (),
    limits: PayloadLimits | None = None,
    last: LastRates | None = None,
    catalog: Catalog | None = None,
    allow_busy: bool = False,
    outside: PayloadReport | None = None,
    reconnect: Callable[[], Host] | None = None,
    progress: Callable[[str], None] = lambda _: None,
    before_copies: Callable[[Sequence[PairFound]], None] = lambda _: None,
    sleep: Callable[[float], None] = time.sleep,
) -> HostFound:
    """`pairs`: only these are tried. `last`: rates of the proof before, to compare with.

    `before_copies` gets the pairs at stake. While jobs run on the GPUs nothing is copied, unless
    `allow_busy`: what hangs the machine would end them. `outside`: the census of the host, where
    `host` is a container there.

    Raises TransportError only before the copies, and UsageError where `pairs` names absent GPUs.
    """
    if spec is not None and spec.p2p == "skip":
        return HostFound(host=name, status=SKIPPED, reasons=('declared p2p = "skip"',))
    limits = limits or PayloadLimits()
    progress("querying peer access")
    answer = take_census(host, name, limits, pairs, outside)
    at_stake = [
        pair
        for pair in answer.pairs
        if pair.verdict not in REFUSED and NOT_CHOSEN not in pair.evidence
    ]
    can_reduce = bool(answer.pairs) and not answer.is_partial
    if answer.lost or level == "quick" or answer.needs_reboot or not (at_stake or can_reduce):
        return judge(name, answer, spec, copies=level != "quick", outside=outside)
    if answer.jobs and not allow_busy:
        in_use = _in_use(answer.jobs)
        if at_stake:
            answer = replace(answer, troubles=(*answer.troubles, Trouble("busy", in_use)))
        busy = replace(answer, collectives=CollectivesFound(evidence=(in_use,)))
        return judge(name, busy, spec, copies=True, outside=outside)
    most_s = _PER_PAIR_S * len(at_stake) + _COLLECTIVES_S
    limits = replace(limits, all_s=max(limits.all_s, most_s))
    if at_stake:
        before_copies(at_stake)
    counter, heard = PairCounter(len(at_stake), limits.all_s, progress), Heard()

    def hear(line: bytes) -> None:
        if event := read_event(line):
            counter.hear(event)
            heard.hear(event)

    try:
        options = limits.options("p2p", _numbers(answer, at_stake) if answer.is_partial else ())
        copied = _ask(host, options, limits.everything_s(), hear, outside=outside)
    except TransportError as error:
        progress(f"connection lost; reconnecting, at most {limits.back_s:g} s")
        returned = wait_for(reconnect, answer, limits.back_s, sleep) if reconnect else None
        return _lost(name, answer, spec, error, heard=heard, returned=returned)
    if answer.is_partial and copied.pairs:
        copied = _with_the_rest(copied, answer)
    return judge(name, copied, spec, copies=True, last=last, catalog=catalog, outside=outside)


def take_census(
    host: Host,
    name: str,
    limits: PayloadLimits | None = None,
    pairs: Sequence[tuple[str, str]] = (),
    outside: PayloadReport | None = None,
    *,
    finds_nccl: bool = False,
) -> PayloadReport:
    """Without copies: what there is, what is to be tried, and what was lost before.

    `finds_nccl`: to compare its version, as always in a container.
    """
    limits = limits or PayloadLimits()
    finds = ["--find-nccl"] if finds_nccl or outside else []
    answer = _ask(host, [*limits.options("quick"), *finds], limits.census_s(), outside=outside)
    if pairs and answer.gpus:
        answer = leave_out(answer, resolve_pairs(pairs, answer.gpus, name))
    lost = () if outside else _find_lost(host, name, answer)
    return _spared(answer, lost) if lost else answer


def _find_lost(host: Host, name: str, answer: PayloadReport) -> tuple[LostCard, ...]:
    """Asked only where the census lacks a card: when it was lost is for the whole probe to say."""
    seen = {gpu.address for gpu in answer.gpus} - set(answer.gone)
    if seen.issuperset(answer.driven):
        return ()
    words = ("sh", "-c", script(SECTIONS))
    said = host.run_script("", argv=words, deadline_s=longest_s(SECTIONS) + _TRAVEL_S)
    bundle = reading.read(said.stdout, host=name)
    return tuple(lost_cards(HostSnapshot(bundle)).values()) if bundle else ()


def _spared(answer: PayloadReport, lost: tuple[LostCard, ...]) -> PayloadReport:
    """Nothing is tried until the reboot: it would blame the copies, and prove no set of cards."""
    why = (f"not tried: {sentence(lost)}",)
    pairs = tuple(
        pair if pair.verdict in REFUSED else replace(pair, verdict="skipped", evidence=why)
        for pair in answer.pairs
    )
    collectives = replace(answer.collectives, evidence=why)
    return replace(answer, lost=lost, pairs=pairs, collectives=collectives)


def _in_use(jobs: Sequence[Job]) -> str:
    """By process: which cards each uses."""
    cards: dict[str, list[str]] = {}
    for job in jobs:
        cards.setdefault(f"{job.name} ({job.pid})", []).append(job.address)
    named = ", ".join(f"{who} on {' and '.join(where)}" for who, where in cards.items())
    again = "fix: wait for it or end it, then run preflight again"
    return f"the GPUs are in use, so nothing was copied: {named}; {again}"


def leave_out(answer: PayloadReport, chosen: Collection[tuple[str, str]]) -> PayloadReport:
    """Mark what the driver grants and `chosen` does not name."""
    pairs = tuple(
        pair
        if pair.verdict in REFUSED or (pair.source, pair.target) in chosen
        else replace(pair, evidence=(NOT_CHOSEN,))
        for pair in answer.pairs
    )
    return replace(answer, pairs=pairs, is_partial=pairs != answer.pairs)


def _numbers(answer: PayloadReport, pairs: Sequence[PairFound]) -> list[str]:
    number = {gpu.address: at for at, gpu in enumerate(answer.gpus)}
    return [f"{number[pair.source]}:{number[pair.target]}" for pair in pairs]


def _with_the_rest(copied: PayloadReport, before: PayloadReport) -> PayloadReport:
    tried = {(pair.source, pair.target): pair for pair in copied.pairs}
    pairs = tuple(tried.get((pair.source, pair.target), pair) for pair in before.pairs)
    return replace(copied, pairs=pairs, is_partial=True)


def _ask(
    host: Host,
    options: Sequence[str],
    deadline_s: float,
    on_line: Callable[[bytes], None] | None = None,
    *,
    outside: PayloadReport | None = None,
) -> PayloadReport:
    output = host.run_script(
        pack("preflight").text,
        argv=("sh", "-c", _START, "preflight", *options),
        deadline_s=deadline_s,
        on_line=on_line,
    )
    try:
        answer = read_answer(output.stdout)
    except RigopsError as error:
        return PayloadReport(troubles=(Trouble("error", str(error)),))
    if answer is None:
        place = "in the container" if outside else "on the host"
        return PayloadReport(troubles=(Trouble(*_why_no_answer(output, place)),))
    # It sees all cards on the bus and maybe no other process, whatever cards it was given.
    return replace(answer, driven=(), gone=(), on_bus=0, jobs=outside.jobs) if outside else answer


def _why_no_answer(output: ScriptResult, place: str) -> tuple[str, str]:
    words = plain(output.stdout.decode("utf-8", "replace"))
    if not output.started:
        noise = plain(output.login_noise.decode("utf-8", "replace"))
        return "error", f"the login shell did not run the program: {noise or 'no output'}"
    if output.exit_code == _NO_PYTHON:
        return "no_python", f"no python3 {place}; preflight needs 3.8 or newer"
    if output.exit_code == _OLD_PYTHON and words:
        return "old_python", f"{words} {place}; preflight needs 3.8 or newer"
    last = output.stderr.decode("utf-8", "replace").strip().rpartition("\n")[2]
    return "error", f"the program ended with exit code {output.exit_code}: {plain(last)}"


def _lost(
    name: str,
    before: PayloadReport,
    spec: RigSpec | None,
    error: TransportError,
    *,
    heard: Heard,
    returned: Returned | None,
) -> HostFound:
    """A machine that froze and a network that failed look alike: reconnect to find out."""
    what = plain(str(error))
    verdict, reboot = "unknown", False
    more: list[str] = []
    is_reduced = heard.is_reducing or all(pair.verdict in REFUSED for pair in before.pairs)
    during = "all-reduce" if is_reduced else "copies"
    if returned is None:
        why = f"the host does not answer since the {during}; it may be frozen"
    elif returned.boot_id != before.boot_id:
        verdict, why = "hang", f"the host restarted during the {during}"
        more = evidence_of(returned)
    elif error.kind == "timeout":
        verdict, why, reboot = "hang", "the program did not finish in time", True
    else:
        why = f"the connection was lost during the {during}; the host is up; run preflight again"
    where = heard.where(before)
    evidence = (*filter(None, (where,)), why, what, *more)
    pairs = pairs_when_lost(before, heard, verdict, evidence)
    collectives = before.collectives
    if is_reduced:
        failed = FAILED if verdict == "hang" else NOT_PROVEN
        collectives = CollectivesFound(verdict=failed, evidence=evidence)
    answer = replace(before, pairs=pairs, collectives=collectives, needs_reboot=reboot)
    found = judge(name, answer, spec, copies=True)
    status = gravest([found.status, STATUS_OF[verdict]])
    words = f"{what}: {why}" + (f"; {where}" if where else "")
    return replace(found, status=status, error=HostError(error.kind, words))
