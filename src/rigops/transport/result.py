"""The result of a command, and how its output is collected with bounded memory."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import field
from typing import Final, Protocol

from rigops.dataclass import dataclass

_NOISE: Final = 64 * 1024
_LONGEST_PID: Final = 32
_LONGEST_LINE: Final = 64 * 1024


@dataclass(frozen=True, kw_only=True)
class Result:
    """exit_code is -1 when a signal ended the command."""

    exit_code: int
    stdout: bytes = field(repr=False)
    stderr: bytes = field(repr=False)
    stdout_dropped: int = 0
    stderr_dropped: int = 0


@dataclass(frozen=True, kw_only=True)
class ScriptResult(Result):
    """A script's own output, apart from the login shell's.

    Not `started`: the login shell never ran it (`login_noise` may show why). Not `complete`: it
    was stopped early.
    """

    started: bool
    complete: bool
    login_noise: bytes = field(repr=False)
    login_seconds: float


class Sink(Protocol):
    def feed(self, data: bytes) -> None: ...
    def finish(self) -> None: ...


class Store:
    """Stores the first `limit` bytes and counts the rest."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._chunks: list[bytes] = []
        self._size = 0
        self.dropped = 0

    def feed(self, data: bytes) -> None:
        room = max(self._limit - self._size, 0)
        stored = data[:room]
        if stored:
            self._chunks.append(stored)
            self._size += len(stored)
        self.dropped += len(data) - len(stored)

    def take(self) -> bytes:
        return b"".join(self._chunks)


class Lines(Store):
    """A store that passes each whole line on as it comes."""

    def __init__(self, limit: int, on_line: Callable[[bytes], None]) -> None:
        super().__init__(limit)
        self._on_line = on_line
        self._held = b""

    def feed(self, data: bytes) -> None:
        super().feed(data)
        *lines, self._held = (self._held + data).split(b"\n")
        self._held = self._held[-_LONGEST_LINE:]
        for line in lines:
            self._on_line(line)


class Framed:
    """Splits a stream into what came before the opening line, the body, and the closing line."""

    def __init__(
        self, token: str, limit: int, on_line: Callable[[bytes], None] | None = None
    ) -> None:
        self._opening = f"{token} begin ".encode()
        self._closing = f"{token} end ".encode()
        self._held = b""
        self.noise = Store(_NOISE)
        self.body = Lines(limit, on_line) if on_line else Store(limit)
        self.pid: int | None = None
        self.began_at: float | None = None
        self._opened = False
        self._ended = False
        self._trailer = b""

    def feed(self, data: bytes) -> None:
        self._held += data
        if self.began_at is None:
            self._begin()
        if self.began_at is not None and not self._ended:
            self._ended = self._split(self._closing, self.body)
        if self._ended:
            self._trailer = (self._trailer + self._held)[:16]
            self._held = b""

    def _begin(self) -> None:
        self._opened = self._opened or self._split(self._opening, self.noise)
        line, newline, rest = self._held.partition(b"\n")
        if self._opened and newline:
            self._held = rest
            self.pid = int(line) if line.isdigit() and len(line) < _LONGEST_PID else None
            self.began_at = time.monotonic()
        elif self._opened and len(line) > _LONGEST_PID:  # it may have no end
            self._opened = False

    def _split(self, mark: bytes, before: Store) -> bool:
        """Pass on what comes before the mark, and hold back what may be its beginning."""
        at = self._held.find(mark)
        end = at if at >= 0 else max(len(self._held) - len(mark) + 1, 0)
        before.feed(self._held[:end])
        self._held = self._held[end + len(mark) if at >= 0 else end :]
        return at >= 0

    def finish(self) -> None:
        (self.noise if self.began_at is None else self.body).feed(self._held)
        self._held = b""

    @property
    def exit_code(self) -> int | None:
        """The code in the closing line, or None where that line is missing or incomplete."""
        digits, newline, _ = self._trailer.partition(b"\n")
        return int(digits) if self._ended and newline and digits.isdigit() else None


# echo and no backslash anywhere: a fish or csh login shell reads these words first.
BEGIN: Final = 'echo "$0 begin $$"; echo "$0 begin $$" >&2; '
RUN_COMMAND: Final = 'exec "$@"'
RUN_SCRIPT: Final = '"$@"; c=$?; echo "$0 end $c"; echo "$0 end $c" >&2; exit $c'

# TERM, and after a second KILL, to the process group of $0; but to $0 alone where a server has put
# its commands into its own group. Not `kill -s X --`: of that, busybox does the one and fails.
END_GROUP: Final = (
    'read -r l < "/proc/$0/stat" || exit 0; set -- ${l##*) }; g=-$3; '
    'read -r n < "/proc/$3/comm" && case $n in *sshd*|*dropbear*|tailscaled*) g=$0;; esac; '
    'kill -TERM "$g"; for i in 1 2 3 4 5 6 7 8 9 10; do '
    'kill -0 "$g" 2>/dev/null || exit 0; sleep 0.1; done; kill -KILL "$g"'
)
