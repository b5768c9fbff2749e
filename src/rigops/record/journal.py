"""The journal: one JSON line for each host and run that a person began.

Several processes may write at once, and any of them may be killed: a line is appended by one
write, and an unreadable line is counted and skipped. A run that changes a host writes a line there
when it begins; the line of its end replaces that.
"""

from __future__ import annotations

import getpass
import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Final

from rigops import json_fields, regular_file
from rigops.dataclass import dataclass
from rigops.errors import Problem, RigopsError
from rigops.json_dataclass import Time, from_json, to_json
from rigops.record.proven import Pair

_MOST_BYTES: Final = 16 * 1024 * 1024  # of its end: a run is some hundred bytes

BEGUN: Final = "begun"  # the outcome of a run whose end nobody wrote down
PYINFRA: Final = "pyinfra"  # the command of a run that plain pyinfra made
MADE: Final = "made"
UNSURE: Final = "unsure"
PLANNED: Final = "planned"


@dataclass(frozen=True)
class Preflight:
    status: str
    level: str
    pairs: tuple[Pair, ...]


@dataclass(frozen=True, kw_only=True)
class Value:
    """What a run changes. None is absent; a file's content stays out, so its text is empty.

    `state`: `unsure` where the run ended in the middle of it, `planned` where before it.
    """

    concern: str
    subject: str
    before: str | None = None
    after: str | None = None
    state: str = MADE


@dataclass(frozen=True, kw_only=True)
class Run:
    """`run`: the same for all its hosts and lines; empty in lines of versions without it."""

    host: str
    at: Time
    inventory_digest: str
    outcome: str
    seconds: float
    versions: Mapping[str, str]
    preflight: Preflight | None  # None: it did not run
    command: str = ""  # empty: written by a version that did not say
    changes: tuple[str, ...] = ()  # what they came to
    snapshot: str = ""  # of the root, taken before them
    run: str = ""
    who: str = ""  # user@machine
    inventory: str = ""  # its path on that machine
    reason: str = ""  # why it failed, what blocks it, or what it waits for
    values: tuple[Value, ...] = ()
    touched: bool = True  # else the host stayed as it was

    def as_json(self) -> dict[str, object]:
        """A secret that a command printed stays out."""
        document: dict[str, object] = to_json(_without_secrets(self))
        return document


@dataclass(frozen=True)
class History:
    runs: tuple[Run, ...]  # newest first
    unreadable: int  # lines


def state_folder() -> Path:
    state = Path(os.environ.get("XDG_STATE_HOME", ""))
    if not state.is_absolute():
        state = Path.home() / ".local" / "state"
    return state / "rigops"


def default_path() -> Path:
    return state_folder() / "journal.jsonl"


def now() -> str:
    return datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def who() -> str:
    return f"{getpass.getuser()}@{os.uname().nodename}"


def append(run: Run, path: Path | None = None) -> None:
    path = path or default_path()
    line = json.dumps(run.as_json()).encode() + b"\n"
    try:
        with _opened(path) as descriptor:
            _append_line(descriptor, line)
    except OSError as error:
        message = f"cannot write the run of {run.host} to the journal: {error}"
        raise _unusable(path, message, host=run.host) from error


def require_writable() -> None:
    """Raises before a run whose record this journal alone would have."""
    path = default_path()
    try:
        with _opened(path):
            pass
    except OSError as error:
        raise _unusable(path, f"cannot write the journal: {error}") from error


def read(path: Path | None = None, *, host: str | None = None) -> History:
    path = path or default_path()
    try:
        text = regular_file.read_end(path, most=_MOST_BYTES)
    except FileNotFoundError:
        return History((), 0)
    except OSError as error:
        raise _unusable(path, f"cannot read the journal: {error}") from error
    return parse(text.split(b"\n"), host=host)


def parse(lines: Iterable[bytes], *, host: str | None = None) -> History:
    found = [_run_of(line) for line in lines if line]
    runs = _last_of_each(run for run in found if run is not None)
    of_host = [run for run in reversed(runs) if host in {None, run.host}]
    return History(
        runs=tuple(sorted(of_host, key=lambda run: run.at, reverse=True)),
        unreadable=found.count(None),
    )


def with_others(runs: Sequence[Run], others: Iterable[Run]) -> tuple[Run, ...]:
    """Those of `others` besides that are none of `runs`; two may have begun in the same second."""
    known = set(map(_identity, runs))
    return (*runs, *(one for one in others if _identity(one) not in known))


def _without_secrets(run: Run) -> Run:
    from rigops.probe.bundles.shapes import without_secrets  # noqa: PLC0415 - few commands write

    def clean(text: str | None) -> str | None:
        return text and without_secrets(text)

    return replace(
        run,
        changes=tuple(map(without_secrets, run.changes)),
        reason=without_secrets(run.reason),
        values=tuple(
            replace(
                one,
                subject=without_secrets(one.subject),
                before=clean(one.before),
                after=clean(one.after),
            )
            for one in run.values
        ),
    )


def _identity(run: Run) -> tuple[str, ...]:
    return (run.run,) if run.run else (run.at, run.inventory_digest)


def _last_of_each(runs: Iterable[Run]) -> list[Run]:
    """One that began and ended has two lines."""
    found: dict[object, Run] = {}
    for number, run in enumerate(runs):
        key = (run.host, run.run) if run.run else number
        found.pop(key, None)
        found[key] = run
    return list(found.values())


@contextmanager
def _opened(path: Path) -> Iterator[int]:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        regular_file.require(descriptor)
        yield descriptor
    finally:
        os.close(descriptor)


def _append_line(descriptor: int, line: bytes) -> None:
    size = os.fstat(descriptor).st_size
    if size and os.pread(descriptor, 1, size - 1) != b"\n":
        line = b"\n" + line  # a writer was killed in the middle of a line
    if os.write(descriptor, line) != len(line):
        raise OSError("incomplete write")
    os.fsync(descriptor)


def _unusable(path: Path, message: str, host: str | None = None) -> RigopsError:
    fix = f"make {path} a file that you can write to, or move it away; check for free space"
    return RigopsError(Problem(message=message, fix=fix, file=str(path), host=host))


def _run_of(line: bytes) -> Run | None:
    try:
        return from_json(Run, json_fields.parse(line.decode(), place="a line of the journal"))
    except (RigopsError, UnicodeDecodeError):
        return None
