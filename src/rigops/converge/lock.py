"""One apply per host at a time: a lock that a process on the host holds over our connection."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Sequence
from typing import Any, Final

from rigops.dataclass import dataclass
from rigops.errors import Problem, RigopsError
from rigops.hostside.packing import pack
from rigops.numbers import whole
from rigops.probe.script import PATH
from rigops.record import journal
from rigops.transport import Connection, Holding, Privilege
from rigops.transport.errors import clean

SCHEMA: Final = "rigops.apply-lock/1"

# The program comes by stdin, byte by byte so that what follows it is left to the program itself: a
# login shell that is no sh would not pass its newlines and backslashes on.
_LOAD: Final = 'n=$1; shift; eval "$(dd bs=1 count="$n" 2>/dev/null)"'
_HEAD: Final = f"PATH={PATH}\nLC_ALL=C\nexport PATH LC_ALL\n"
_TRAVEL_S: Final = 30.0

# -o: what the command leaves running, such as a daemon of a package, is not its work.
_WORK: Final = (
    'l=$0; if command -v flock >/dev/null && [ -e "$l" ]; '
    'then exec flock -o -s "$l" "$@"; else exec "$@"; fi'
)


@dataclass(frozen=True)
class Holder:
    who: str  # user@machine
    run: str
    started: str  # RFC 3339
    command: str = "apply"

    @classmethod
    def of_this_run(cls) -> Holder:
        return cls(journal.who(), str(uuid.uuid4()), journal.now())


@dataclass(frozen=True)
class Places:
    """Folders of the host."""

    state: str = "/var/lib/rigops"
    run: str = "/run/rigops"
    dpkg: str = "/var/lib/dpkg"

    @property
    def work(self) -> str:
        return f"{self.run}/work.lock"


_PLACES: Final = Places()


class LockError(RigopsError):
    """The lock could not be had."""


class LockedError(LockError):
    """Another process holds the lock."""


@dataclass(frozen=True)
class ApplyLock:
    """Ours until it is released or the connection ends. `notice`: whose it was before, if left."""

    holding: Holding
    notice: str = ""

    @property
    def held(self) -> bool:
        return self.holding.ended is None

    def release(self) -> None:
        """Give it back. A connection that is only closed leaves it behind, and a notice for it."""
        self.holding.release(b"release\n")


def take(
    connection: Connection,
    privilege: Privilege,
    holder: Holder,
    *,
    tell: Callable[[str], None],
    deadline_s: float,
    places: Places = _PLACES,
) -> ApplyLock:
    """The lock, at once or after what an earlier holder left running; else LockError."""
    program = (_HEAD + pack("lock").text).encode()
    note = {
        "schema": SCHEMA,
        "who": holder.who,
        "run": holder.run,
        "started": holder.started,
        "command": holder.command,
        "host": connection.name,
    }
    folders = (places.state, places.run, places.dpkg)
    loader = ("sh", "-c", _LOAD, "rigops-lock", str(len(program)))
    holding = connection.hold(
        [*loader, *folders, str(int(deadline_s))],
        stdin=program + json.dumps(note).encode() + b"\n",
        privilege=privilege,
        ready=b"held",
        deadline_s=deadline_s + _TRAVEL_S,
        on_line=lambda line: _pass_on(line, tell),
    )
    words = dict(line.split(" ", 1) for line in holding.lines if " " in line)
    if "held" not in holding.lines:
        raise _lock_error(connection.name, holder, holding, words, deadline_s)
    return ApplyLock(holding, _notice(holder, words["stale"]) if "stale" in words else "")


def work_argv(argv: Sequence[str], *, places: Places = _PLACES) -> list[str]:
    """A command that changes the host, so that a later holder of the lock waits for its end."""
    return ["sh", "-c", _WORK, places.work, *argv]


def _pass_on(line: str, tell: Callable[[str], None]) -> None:
    kind, _, what = line.partition(" ")
    if kind == "wait":
        tell(f"waiting for possible work of an earlier run: {clean(what)}")


def _notice(holder: Holder, text: str) -> str:
    before = _Note.read(text)
    if before.run == holder.run:  # ours: a reboot or a lost connection lies between
        return ""
    return f"took over the lock of {before}, which did not end properly"


def _lock_error(
    host: str, holder: Holder, holding: Holding, words: dict[str, str], deadline_s: float
) -> LockError:
    if "busy" in words:
        return _locked(host, holder, *words["busy"].partition(" ")[::2])
    if "late" in words:
        return _error(
            host,
            f"what may be left of an earlier run still runs after {_span(deadline_s)}: "
            f"{clean(words['late'])}",
            "wait for its end, or end it there, then run this again",
        )
    if "trouble" in words:
        return _trouble(host, *words["trouble"].partition(" ")[::2])
    output = clean(holding.error_output) or f"exit code {holding.ended}"
    return _error(host, f"cannot take the lock: {output}", "check that sh works there")


def _locked(host: str, holder: Holder, age: str, text: str) -> LockedError:
    now = _Note.read(text)
    if now.run == holder.run and now.host != host:
        message = f"{host} is the same machine as {now.host}, which this run is working on"
        return LockedError(
            Problem(message=message, fix="take one of the two out of the inventory", host=host)
        )
    message = f"{host} is locked by {now}, held for {_span(whole(age) or 0)}"
    fix = "wait for it to end"
    if now.pid:
        fix += f"; if it is dead and only its connection is left, on the host: kill {now.pid}"
    return LockedError(Problem(message=message, fix=fix, host=host))


def _trouble(host: str, kind: str, what: str) -> LockError:
    if kind == "no_flock":
        message = "flock is missing; rigops locks the host with it"
        return _error(host, message, "install util-linux there")
    if "Read-only file system" in what:
        fix = "find the reason in its kernel log, then: mount -o remount,rw /"
    elif "No space left" in what or "quota" in what:
        fix = "free space there: df -h, apt-get clean"
    else:
        fix = "make it writable for root"
    return _error(host, f"cannot write the lock: {clean(what)}", fix)


def _error(host: str, message: str, fix: str) -> LockError:
    return LockError(Problem(message=f"{host}: {message}", fix=fix, host=host))


@dataclass(frozen=True)
class _Note:
    """A holder's record of itself, as far as it can be read."""

    who: str = ""
    run: str = ""
    started: str = ""
    host: str = ""
    command: str = "apply"  # in a note of a version that does not say
    pid: int = 0

    @classmethod
    def read(cls, text: str) -> _Note:
        try:
            note: Any = json.loads(text)
        except (ValueError, RecursionError):
            note = None
        if not isinstance(note, dict):
            return cls()
        pid = note.get("pid")
        words = {key: note.get(key) for key in ("who", "run", "started", "host", "command")}
        return cls(
            **{key: clean(word, 80) for key, word in words.items() if isinstance(word, str)},
            pid=pid if isinstance(pid, int) and pid > 1 else 0,
        )

    def __str__(self) -> str:
        if not self.who:
            return "a run that left no readable note"
        article = "an" if self.command.startswith(tuple("aeiou")) else "a"
        begun = self.started or "at an unknown time"
        return f"{article} {self.command} of {self.who}, begun {begun}"


def _span(seconds: float) -> str:
    for size, unit in ((86400, "days"), (3600, "h"), (60, "min")):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"
