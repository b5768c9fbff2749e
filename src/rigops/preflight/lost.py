"""A host that was lost during the copies: how far they were, and what it was when it came back."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Final, Protocol

from rigops.dataclass import dataclass
from rigops.hostside.p2p.verdict import ALL_REDUCE, ALONE, FAIL, REFUSED, STATUS_OF
from rigops.preflight.changes import from_log, in_words
from rigops.preflight.chosen_pairs import NOT_CHOSEN
from rigops.preflight.found import PairFound
from rigops.preflight.payload import Event, PayloadReport, Stage, Step, plain
from rigops.transport import ScriptResult, TransportError

# Logins are open for a while yet when a machine begins to go down.
_STATE: Final = (
    "cat /proc/sys/kernel/random/boot_id; systemctl is-system-running 2>/dev/null; exit 0"
)
_GOES_DOWN: Final = "stopping"
_A_BOOT_ID: Final = re.compile(r"[0-9a-f]{8}(?:-?[0-9a-f]{4}){3}-?[0-9a-f]{12}")
_SHORT_S: Final = 10.0
_LOG_S: Final = 30.0
_AGAIN_S: Final = 5.0
_MOST_LINES: Final = 12

# Lines of the boot of the copies since then, even if the host has booted twice. A kernel that
# panicked wrote no journal, but maybe into pstore, of which systemd makes files.
_PREVIOUS: Final = """
log=$(journalctl -k -b "$1" -q --no-pager -o short-iso-precise ${2:+--since="@$2"} -n 2000 2>&1)
code=$?
case $code in 0) printf '%s\n' "$log" ;; *) printf 'why: %s\n' "${log:-exit code $code}" ;; esac
for file in /sys/fs/pstore/dmesg-* /var/lib/systemd/pstore/*/dmesg*; do
    [ ! -r "$file" ] || [ ! -f "$file" ] || tail -n 400 "$file"
done
"""


class Host(Protocol):
    def run_script(
        self,
        script: str,
        *,
        argv: Sequence[str],
        deadline_s: float,
        on_line: Callable[[bytes], None] | None = None,
    ) -> ScriptResult: ...

    def close(self) -> None: ...


@dataclass(frozen=True, kw_only=True)
class Returned:
    """`log`: of the boot during which it was lost, if that is over; `unread`: why there is none."""

    boot_id: str
    log: tuple[str, ...] = ()
    unread: str = ""


class Heard:
    """Reports of the program on the host until the connection was lost."""

    def __init__(self) -> None:
        self.finished: dict[tuple[str, str], PairFound] = {}
        self.last: Step | None = None
        self.stage: Stage | None = None  # of those that begin when every pair was tried alone

    def hear(self, event: Event) -> None:
        if event.pair is not None:
            self.finished[event.pair.source, event.pair.target] = event.pair
            self.last = None
        elif event.stage is not None:
            self.stage, self.last = event.stage, None
        elif event.step is not None:
            self.last = event.step

    @property
    def is_reducing(self) -> bool:
        """Every pair is finished."""
        return self.stage is not None and self.stage.rung == ALL_REDUCE

    def pair_of(self, before: PayloadReport) -> tuple[str, str] | None:
        """The addresses of the pair that was under way."""
        if self.last is None or not all(0 <= i < len(before.gpus) for i in self.last.pair):
            return None
        source, target = (before.gpus[i].address for i in self.last.pair)
        return source, target

    def where(self, before: PayloadReport) -> str:
        """The step and the pair; empty where nobody knows."""
        pair = self.pair_of(before)
        if pair is None or self.last is None:
            return f"last heard: {self.stage.name}" if self.stage else ""
        return f"last heard: {self.last.name}, from {pair[0]} to {pair[1]}"


def wait_for(
    reconnect: Callable[[], Host],
    before: PayloadReport,
    patience_s: float,
    sleep: Callable[[float], None],
) -> Returned | None:
    """None: it does not answer."""
    until = time.monotonic() + patience_s
    while True:
        with suppress(TransportError):
            returned = _ask(reconnect(), before)
            if returned is not None:
                return returned
        if time.monotonic() >= until:
            return None
        sleep(_AGAIN_S)


def _ask(host: Host, before: PayloadReport) -> Returned | None:
    try:
        state = _text(host.run_script("", argv=("sh", "-c", _STATE), deadline_s=_SHORT_S))
        boot_id, _, running = state.strip().partition("\n")
        if running.strip() == _GOES_DOWN or not boot_id:
            return None
        if boot_id == before.boot_id:
            return Returned(boot_id=boot_id)
        is_known = _A_BOOT_ID.fullmatch(before.boot_id)
        boot = before.boot_id.replace("-", "") if is_known else "-1"
        since = "" if before.at is None else str(round(before.at))
        words = ("sh", "-c", _PREVIOUS, "rigops", boot, since)
        try:
            lines = _text(host.run_script("", argv=words, deadline_s=_LOG_S)).splitlines()
        except TransportError as error:
            return Returned(boot_id=boot_id, unread=plain(str(error)))
        why = [line[len("why: ") :] for line in lines if line.startswith("why: ")]
        log = tuple(line for line in lines if not line.startswith("why: "))
        return Returned(boot_id=boot_id, log=log, unread=plain(why[0]) if why else "")
    finally:
        host.close()


def _text(result: ScriptResult) -> str:
    return result.stdout.decode("utf-8", "replace")


def evidence_of(returned: Returned) -> list[str]:
    """From the log of the boot before: what the kernel said of cards, links and the IOMMU."""
    found = [plain(in_words(change)) for change in from_log(returned.log)]
    if found:
        return ["the log of that boot: " + text for text in found[-_MOST_LINES:]]
    if returned.log and not returned.unread:
        return ["the log of that boot, as far as it was written, names no card, link or IOMMU"]
    why = returned.unread or "it is empty"
    return [f"the log of that boot could not be read ({why}); see `rigops doctor`"]


def pairs_when_lost(
    before: PayloadReport, heard: Heard, verdict: str, evidence: Sequence[str]
) -> tuple[PairFound, ...]:
    """Those that were finished as they were; the one under way has the verdict.

    If nobody knows which one that was, or all were under way, all have it.
    """
    current = heard.pair_of(before)
    level = heard.stage.rung if heard.stage else (heard.last and heard.last.rung) or "L1"
    is_of_all = heard.stage is not None and not heard.is_reducing
    all_at_once = current is None and (is_of_all or not heard.finished)
    pairs = []
    for pair in before.pairs:
        key = (pair.source, pair.target)
        finished = heard.finished.get(key)
        if pair.verdict in REFUSED or NOT_CHOSEN in pair.evidence:
            pairs.append(pair)
        elif key == current or (all_at_once and not _is_over(finished, level)):
            now = replace(finished or pair, verdict=verdict, level=level, evidence=tuple(evidence))
            pairs.append(now)
        elif finished is not None:
            pairs.append(finished)
        else:
            left = "unknown" if verdict == "unknown" else "skipped"
            pairs.append(replace(pair, verdict=left, evidence=("not tried: the host was lost",)))
    return tuple(pairs)


def _is_over(finished: PairFound | None, level: str) -> bool:
    if finished is None:
        return False
    return STATUS_OF[finished.verdict] == FAIL or finished.level >= level > ALONE
