"""How commands on a host become root, and how sudo gets its password."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import field
from queue import Empty, Queue
from typing import Final, Literal

from rigops.dataclass import dataclass
from rigops.transport.result import BEGIN, Sink

Event = Literal["asked", "begun", "ended"]

# A fingerprint reader is asked first on some machines, for 30 s.
_SUDO_ASKS_S: Final = 45.0
_LONGEST_NAME: Final = 256

# As a prompt is passed on.
ASKED: Final = re.compile(rb"sudo asked for the password of ([^\n]*)\n")

# Root's shell takes no line for its own before this one.
_FIRST_LINE: Final = 'l=; until [ "$l" = "$0" ]; do read -r l || exit 1; done; '


@dataclass(frozen=True)
class Privilege:
    """`argv` goes before the shell of a command. The password is in no argv."""

    kind: Literal["root", "free", "password"]
    argv: tuple[str, ...] = ()
    password: bytes | None = field(default=None, repr=False)

    def command(self, work: str, token: str, argv: Iterable[str]) -> tuple[str, ...]:
        """`work`: what the shell does with the words of argv once it has said that it began."""
        if self.password is None:
            return (*self.argv, "sh", "-c", BEGIN + work, token, *argv)
        prompt = f"{_prompt(token)}%p;"
        return (
            *self.argv,
            "-p",
            prompt,
            "--",
            "sh",
            "-c",
            BEGIN + _FIRST_LINE + work,
            token,
            *argv,
        )

    def ending(self, program: str, pid: int) -> tuple[list[str], bytes]:
        """Argv and input of a program that reads none of its input."""
        words = ["sh", "-c", program, str(pid)]
        if self.password is None:
            return [*self.argv, *words], b""
        return [*self.argv, "-p", "", "--", *words], self.password + b"\n"


AS_LOGIN: Final = Privilege("root")
# Root where the login is root, else sudo: decided on the host, without a question to it first.
# Not in the login's home, which a restore could not replace then: sudo stays where it was started.
WITHOUT_PASSWORD: Final = Privilege(
    "free",
    (
        "sh",
        "-c",
        'cd /; if [ "$(id -u)" = 0 ]; then exec "$@"; else exec sudo -n -- "$@"; fi',
        "rigops",
    ),
)


def _prompt(token: str) -> str:
    return f"{token} asks for the password of "


class Conversation:
    """Gives sudo the password when it asks, and a program its input when root's shell has begun.

    Where sudo does not ask, the password is not sent at all. Where it asks again, the input ends:
    each further line would be one more wrong password. Some versions of sudo-rs read more than the
    line they need, so nothing follows it before the shell has begun.
    """

    def __init__(
        self, password: bytes, token: str, stdin: Iterable[bytes], out: Sink, err: Sink
    ) -> None:
        self._password = password
        self._token = token.encode()
        self._stdin = stdin
        self._events: Queue[Event] = Queue()
        self.out = _Beginning(out, self._token + b" begin ", self._events)
        self.err = _Prompts(err, token, self._events)

    def input(self) -> Iterator[bytes]:
        password: bytes | None = self._password
        while True:
            try:
                event = self._events.get(timeout=_SUDO_ASKS_S)
            except Empty:
                return
            if event == "begun":
                break
            if event == "ended" or password is None:
                return
            yield password + b"\n"
            password = None
        yield self._token + b"\n"
        yield from self._stdin


class _Beginning:
    """Passes output on, and reports the opening line in it."""

    def __init__(self, sink: Sink, mark: bytes, events: Queue[Event]) -> None:
        self._sink = sink
        self._mark = mark
        self._events = events
        self._tail = b""
        self._began = False

    def feed(self, data: bytes) -> None:
        if not self._began:
            seen = self._tail + data
            self._tail = seen[-len(self._mark) + 1 :]
            if self._mark in seen:
                self._began = True
                self._events.put("begun")
        self._sink.feed(data)

    def finish(self) -> None:
        self._events.put("ended")
        self._sink.finish()


class _Prompts:
    """Reports prompts in what it passes on, and makes them readable."""

    def __init__(self, sink: Sink, token: str, events: Queue[Event]) -> None:
        self._sink = sink
        self._events = events
        self._prompt = re.compile(
            rb"(?:\[sudo: )?%b([^;\n]{0,%d});(?:\] Password: )?\n?"
            % (_prompt(token).encode(), _LONGEST_NAME)
        )
        self._longest = len(_prompt(token)) + _LONGEST_NAME + 32
        self._begin = f"{token} begin ".encode()
        self._began = False
        self._held = b""

    def feed(self, data: bytes) -> None:
        self._held += data
        if not self._began:
            while found := self._prompt.search(self._held):
                self._events.put("asked")
                self._sink.feed(self._held[: found.start()])
                self._sink.feed(b"sudo asked for the password of %b\n" % found[1])
                self._held = self._held[found.end() :]
            self._began = self._begin in self._held
        end = len(self._held) if self._began else max(len(self._held) - self._longest, 0)
        self._sink.feed(self._held[:end])
        self._held = self._held[end:]

    def finish(self) -> None:
        self._sink.feed(self._held)
        self._held = b""
        self._sink.finish()


def without_prompts(noise: bytes) -> bytes:
    """Output of a login before a command, but for the prompts of sudo."""
    return ASKED.sub(b"", noise)
