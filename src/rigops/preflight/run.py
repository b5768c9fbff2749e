"""Runs the preflight program on a host, and makes something of it even when the host vanishes.

It goes in two steps: what the driver grants, which is harmless, and then the copies, which can
freeze a bad machine. So it is known which pairs were at stake when nothing comes back.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, Protocol

from rigops.hostside import pack
from rigops.preflight.document import HostError, HostFound
from rigops.preflight.judge import judge
from rigops.preflight.payload import Answer, Trouble, plain, read_answer
from rigops.preflight.verdict import REFUSED, SKIPPED, UNKNOWN
from rigops.transport import TransportError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rigops.preflight.document import PairFound
    from rigops.spec import RigSpec
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
_TRAVEL_S: Final = 20.0  # for sending the program, starting it, and its last words
_PER_PAIR_S: Final = 8.0


class Host(Protocol):
    """What preflight needs of a connection."""

    def run_script(
        self, script: str, *, argv: Sequence[str], deadline_s: float
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
) -> HostFound:
    """Raise TransportError only before anything was tried."""
    if spec is not None and spec.p2p == "skip":
        return HostFound(host=name, status=SKIPPED, reasons=('p2p = "skip" is declared',))
    limits = limits or Limits()
    progress("asking the driver what it grants")
    answer = _ask(host, limits.options("quick"), limits.census_s())
    at_stake = [pair for pair in answer.pairs if pair.verdict not in REFUSED]
    if level == "quick" or not at_stake or answer.needs_reboot:
        return judge(name, answer, spec, copies=level != "quick")
    limits = replace(limits, all_s=max(limits.all_s, _PER_PAIR_S * len(at_stake)))
    progress(f"copying between {len(at_stake)} of {len(answer.pairs)} ordered pairs of GPUs")
    try:
        copied = _ask(host, limits.options("p2p"), limits.everything_s())
    except TransportError as error:
        progress("the host fell silent; looking whether it comes back")
        return _lost(name, answer, spec, error, reconnect)
    return judge(name, copied, spec, copies=True)


def _ask(host: Host, options: Sequence[str], deadline_s: float) -> Answer:
    said = host.run_script(
        pack("preflight").text,
        argv=("sh", "-c", _START, "preflight", *options),
        deadline_s=deadline_s,
    )
    answer = read_answer(said.stdout)
    if answer is not None:
        return answer
    return Answer(troubles=(Trouble(*_why_no_answer(said)),))


def _why_no_answer(said: ScriptResult) -> tuple[str, str]:
    words = plain(said.stdout.decode("utf-8", "replace"))
    if not said.started:
        noise = plain(said.login_noise.decode("utf-8", "replace"))
        return "error", f"the login shell did not run it: {noise or 'it said nothing'}"
    if said.exit_code == _NO_PYTHON:
        return "no_python", "the host has no python3, which preflight needs (3.8 or newer)"
    if said.exit_code == _OLD_PYTHON:
        return "old_python", f"preflight needs Python 3.8 or newer; the host has {words}"
    last = said.stderr.decode("utf-8", "replace").strip().rpartition("\n")[2]
    return "error", f"the program ended with exit code {said.exit_code}: {plain(last)}"


def _lost(
    name: str,
    before: Answer,
    spec: RigSpec | None,
    error: TransportError,
    reconnect: Callable[[], Host] | None,
) -> HostFound:
    """A machine that froze in a copy and a network that failed look alike: look again."""
    now = _boot_id(reconnect) if reconnect else ""
    what = plain(str(error))
    verdict, reboot = "unknown", False
    if not now:
        why = "the host fell silent during the copies and does not answer; it may be frozen"
    elif now != before.boot_id:
        verdict, why = "hang", "the host restarted during the copies"
    elif error.kind == "timeout":
        verdict, why, reboot = "hang", "the program did not come to an end in its own time", True
    else:
        why = "the connection was lost during the copies, and the host is up: run it again"
    pairs = tuple(_left(pair, verdict, (why, what)) for pair in before.pairs)
    answer = replace(before, pairs=pairs, needs_reboot=reboot)
    found = judge(name, answer, spec, copies=True)
    status = UNKNOWN if verdict == "unknown" else found.status
    return replace(found, status=status, error=HostError(error.kind, f"{what}: {why}"))


def _left(pair: PairFound, verdict: str, evidence: tuple[str, ...]) -> PairFound:
    if pair.verdict in REFUSED:
        return pair
    return replace(pair, verdict=verdict, level="L1", evidence=evidence)


def _boot_id(reconnect: Callable[[], Host]) -> str:
    with suppress(TransportError):
        host = reconnect()
        try:
            said = host.run_script("", argv=_BOOT_ID, deadline_s=10)
            return plain(said.stdout.decode("utf-8", "replace"))
        finally:
            host.close()
    return ""
