"""Runs the preflight program on a host; gives a result also when the host is lost.

Two steps: query peer access, which is harmless, then copy, which can freeze a broken machine. The
first step names the pairs at stake if nothing comes back from the second.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Final, Protocol

from rigops.dataclass import dataclass
from rigops.errors import HostError, RigopsError
from rigops.hostside.p2p.verdict import REFUSED, SKIPPED, UNKNOWN
from rigops.hostside.packing import pack
from rigops.preflight.counting import PairCounter
from rigops.preflight.document import HostFound
from rigops.preflight.judge import judge
from rigops.preflight.payload import Answer, Trouble, plain, read_answer
from rigops.transport import TransportError

if TYPE_CHECKING:
    from rigops.inventory.spec import RigSpec
    from rigops.preflight.document import PairFound
    from rigops.transport import ScriptResult

LEVELS: Final = ("quick", "p2p")

_NO_PYTHON, _OLD_PYTHON = 127, 126
_START: Final = (
    "cd / || exit; command -v python3 >/dev/null || exit 127; "
    'python3 -I -c "import sys; sys.exit(sys.version_info < (3, 8))" </dev/null || '
    '{ python3 -V; exit 126; }; exec python3 -I - "$@"'
)
_BOOT_ID: Final = ("cat", "/proc/sys/kernel/random/boot_id")
_TOPOLOGY_S: Final = 15.0
_TRAVEL_S: Final = 20.0  # for sending the program, starting it, and its last output
_PER_PAIR_S: Final = 8.0


class Host(Protocol):
    """The part of a connection that preflight uses."""

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
class Limits:
    """Seconds, bytes and counts; each is the payload's own option."""

    init_s: float = 30
    pair_s: float = 20
    all_s: float = 120
    dead_s: float = 3
    sizes: tuple[int, ...] = (4 << 10, 1 << 20, 64 << 20, 256 << 20)
    passes: int = 3

    def options(self, level: str) -> list[str]:
        words = ["--level", level, "--passes", str(self.passes), "--sizes", *map(str, self.sizes)]
        for name in ("init", "pair", "all", "dead"):
            words += [f"--{name}-s", f"{getattr(self, f'{name}_s'):g}"]
        return words

    def census_s(self) -> float:
        return self.init_s + self.dead_s + _TOPOLOGY_S + _TRAVEL_S

    def everything_s(self) -> float:
        """Longer than the payload can take: the last pair may begin just before `all_s` is over."""
        return self.census_s() + self.all_s + self.init_s + self.pair_s + self.dead_s


def prove(
    name: str,
    host: Host,
    spec: RigSpec | None,
    *,
    level: str,
    limits: Limits | None = None,
    reconnect: Callable[[], Host] | None = None,
    progress: Callable[[str], None] = lambda _: None,
    before_copies: Callable[[Sequence[PairFound]], None] = lambda _: None,
) -> HostFound:
    """Raises TransportError only before the copies. `before_copies` gets the pairs at stake."""
    if spec is not None and spec.p2p == "skip":
        return HostFound(host=name, status=SKIPPED, reasons=('declared p2p = "skip"',))
    limits = limits or Limits()
    progress("querying peer access")
    answer = _ask(host, limits.options("quick"), limits.census_s())
    at_stake = [pair for pair in answer.pairs if pair.verdict not in REFUSED]
    if level == "quick" or not at_stake or answer.needs_reboot:
        return judge(name, answer, spec, copies=level != "quick")
    limits = replace(limits, all_s=max(limits.all_s, _PER_PAIR_S * len(at_stake)))
    before_copies(at_stake)
    counter = PairCounter(len(at_stake), limits.all_s, progress)
    try:
        copied = _ask(host, limits.options("p2p"), limits.everything_s(), counter.hear)
    except TransportError as error:
        progress("connection lost; reconnecting")
        return _lost(name, answer, spec, error, reconnect)
    return judge(name, copied, spec, copies=True)


def _ask(
    host: Host,
    options: Sequence[str],
    deadline_s: float,
    on_line: Callable[[bytes], None] | None = None,
) -> Answer:
    output = host.run_script(
        pack("preflight").text,
        argv=("sh", "-c", _START, "preflight", *options),
        deadline_s=deadline_s,
        on_line=on_line,
    )
    try:
        answer = read_answer(output.stdout)
    except RigopsError as error:
        return Answer(troubles=(Trouble("error", str(error)),))
    return answer or Answer(troubles=(Trouble(*_why_no_answer(output)),))


def _why_no_answer(output: ScriptResult) -> tuple[str, str]:
    words = plain(output.stdout.decode("utf-8", "replace"))
    if not output.started:
        noise = plain(output.login_noise.decode("utf-8", "replace"))
        return "error", f"the login shell did not run the program: {noise or 'no output'}"
    if output.exit_code == _NO_PYTHON:
        return "no_python", "no python3 on the host; preflight needs 3.8 or newer"
    if output.exit_code == _OLD_PYTHON:
        return "old_python", f"{words} on the host; preflight needs 3.8 or newer"
    last = output.stderr.decode("utf-8", "replace").strip().rpartition("\n")[2]
    return "error", f"the program ended with exit code {output.exit_code}: {plain(last)}"


def _lost(
    name: str,
    before: Answer,
    spec: RigSpec | None,
    error: TransportError,
    reconnect: Callable[[], Host] | None,
) -> HostFound:
    """A machine that froze and a network that failed look alike: reconnect to find out."""
    now = _boot_id(reconnect) if reconnect else ""
    what = plain(str(error))
    verdict, reboot = "unknown", False
    if not now:
        why = "the host does not answer since the copies; it may be frozen"
    elif now != before.boot_id:
        verdict, why = "hang", "the host restarted during the copies"
    elif error.kind == "timeout":
        verdict, why, reboot = "hang", "the program did not finish in time", True
    else:
        why = "the connection was lost during the copies; the host is up; run preflight again"
    pairs = tuple(
        pair
        if pair.verdict in REFUSED
        else replace(pair, verdict=verdict, level="L1", evidence=(why, what))
        for pair in before.pairs
    )
    answer = replace(before, pairs=pairs, needs_reboot=reboot)
    found = judge(name, answer, spec, copies=True)
    status = UNKNOWN if verdict == "unknown" else found.status
    return replace(found, status=status, error=HostError(error.kind, f"{what}: {why}"))


def _boot_id(reconnect: Callable[[], Host]) -> str:
    with suppress(TransportError):
        host = reconnect()
        try:
            output = host.run_script("", argv=_BOOT_ID, deadline_s=10)
            return plain(output.stdout.decode("utf-8", "replace"))
        finally:
            host.close()
    return ""
