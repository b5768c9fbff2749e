"""The interface of every connection to a host."""

from __future__ import annotations

import secrets
import shlex
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Final

from rigops.dataclass import dataclass
from rigops.transport.errors import clean, timed_out
from rigops.transport.holding import Holding
from rigops.transport.privilege import AS_LOGIN, Conversation, Privilege, without_prompts
from rigops.transport.result import (
    END_GROUP,
    RUN_COMMAND,
    RUN_SCRIPT,
    Framed,
    Result,
    ScriptResult,
    Sink,
)

if TYPE_CHECKING:
    from typing_extensions import Self  # from Python 3.11 on in typing

_MAX_OUTPUT: Final = 64 * 1024 * 1024
_PIECE: Final = 128 * 1024
_FOR_GOOD_S: Final = 10 * 365 * 24 * 3600.0
STILL_RUNNING: Final = "check whether the command still runs on the host; the connection was closed"
LOST_FIX: Final = "check whether the host rebooted, or lost power or network"


@dataclass(frozen=True, kw_only=True)
class Execution:
    """One exec, as the backends see it.

    `out` and `err` are finished where the streams end. `ending` gives argv and input of a command
    that ends this one, where there is something to end.
    """

    argv: Sequence[str]
    label: str
    stdin: bytes | Iterable[bytes]
    out: Sink
    err: Sink
    ending: Callable[[], tuple[Sequence[str], bytes] | None]


class Connection(ABC):
    """A host that was reached. Usable from several threads; ends with close() or `with`.

    Without a privilege, commands run as the login user.

    A deadline that expires or a connection that is lost closes it: connect again after that.
    """

    def __init__(self, name: str, description: str) -> None:
        self.name = name
        self.description = description

    def run(
        self,
        argv: Sequence[str],
        *,
        stdin: bytes | Iterable[bytes] = b"",
        privilege: Privilege | None = None,
        deadline_s: float,
        max_output: int = _MAX_OUTPUT,
    ) -> Result:
        """Run one program. Output beyond max_output is counted, not stored."""
        done = self._framed(
            RUN_COMMAND, argv, stdin, privilege, deadline_s=deadline_s, max_output=max_output
        )
        if done.started:
            return Result(**{one.name: getattr(done, one.name) for one in fields(Result)})
        return Result(exit_code=done.exit_code, stdout=b"", stderr=done.login_noise)

    def run_script(
        self,
        script: str | Iterable[bytes],
        *,
        argv: Sequence[str] = ("sh", "-s"),
        privilege: Privilege | None = None,
        deadline_s: float,
        max_output: int = _MAX_OUTPUT,
        on_line: Callable[[bytes], None] | None = None,
    ) -> ScriptResult:
        """Feed a script, and what follows it, to an interpreter's stdin, in one exec.

        `on_line` gets each line of its output once more of it has come, perhaps in another thread.
        """
        return self._framed(
            RUN_SCRIPT,
            argv,
            script.encode() if isinstance(script, str) else script,
            privilege,
            deadline_s=deadline_s,
            max_output=max_output,
            on_line=on_line,
        )

    def hold(
        self,
        argv: Sequence[str],
        *,
        stdin: bytes = b"",
        privilege: Privilege | None = None,
        ready: bytes,
        deadline_s: float,
        on_line: Callable[[str], None] = lambda _: None,
    ) -> Holding:
        """Start a program that runs beside others, and return when it is ready or has ended.

        It is ready when it has printed a line that begins with `ready`; `on_line` gets the lines
        before that. Its input stays open until the holding is released or the connection ends,
        and brings an empty line every few seconds.
        """
        root = privilege or AS_LOGIN
        token = secrets.token_hex(16)
        label = clean(argv[0], 80)
        holding = Holding(token, stdin)
        execution = _execution(
            root,
            token,
            Execution(
                argv=root.command(RUN_SCRIPT, token, argv),
                label=label,
                stdin=holding.input(),
                out=holding.out,
                err=holding.err,
                ending=lambda: None,
            ),
        )
        holding.start(lambda: self._execute(execution, _FOR_GOOD_S))
        in_time = False
        try:
            in_time = holding.wait(ready, deadline_s, on_line)
        finally:
            if not in_time:
                holding.close_input()
        if not in_time:
            self.close()
            step = f"waiting for {label}"
            raise timed_out(self.name, self.description, step, deadline_s, STILL_RUNNING)
        return holding

    def _framed(
        self,
        work: str,
        argv: Sequence[str],
        stdin: bytes | Iterable[bytes],
        privilege: Privilege | None,
        *,
        deadline_s: float,
        max_output: int,
        on_line: Callable[[bytes], None] | None = None,
    ) -> ScriptResult:
        root = privilege or AS_LOGIN
        token = secrets.token_hex(16)
        out, err = Framed(token, max_output, on_line), Framed(token, max_output)
        execution = _execution(
            root,
            token,
            Execution(
                argv=root.command(work, token, argv),
                label=clean(argv[0], 80),
                stdin=stdin,
                out=out,
                err=err,
                ending=lambda: None if out.pid is None else root.ending(END_GROUP, out.pid),
            ),
        )
        start = time.monotonic()
        code = self._execute(execution, deadline_s)
        end = time.monotonic()
        inner = out.exit_code
        started = out.began_at is not None
        noise = out.noise.take() + err.noise.take()
        return ScriptResult(
            exit_code=code if inner is None else inner,
            stdout=out.body.take(),
            stderr=err.body.take(),
            stdout_dropped=out.body.dropped,
            stderr_dropped=err.body.dropped,
            started=started,
            complete=inner is not None and err.exit_code is not None,
            login_noise=without_prompts(noise) if started else noise,
            login_seconds=(out.began_at or end) - start,
        )

    @abstractmethod
    def _execute(self, execution: Execution, deadline_s: float) -> int:
        """Run to the end and give the exit code, or raise TransportError."""

    @abstractmethod
    def close(self) -> None:
        """May be called again, and from any thread."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.description}>"


def pieces(stdin: bytes | Iterable[bytes]) -> Iterator[bytes]:
    """Small enough that a partial send copies little."""
    for whole in (stdin,) if isinstance(stdin, bytes) else stdin:
        view = memoryview(whole)
        for start in range(0, len(view), _PIECE):
            yield bytes(view[start : start + _PIECE])


def _execution(privilege: Privilege, token: str, plain: Execution) -> Execution:
    """The same, with the password where sudo asks for it."""
    if privilege.password is None:
        return plain
    given = (plain.stdin,) if isinstance(plain.stdin, bytes) else plain.stdin
    talk = Conversation(privilege.password, token, given, plain.out, plain.err)
    return replace(plain, stdin=talk.input(), out=talk.out, err=talk.err)


# Characters that fish and csh change even between single quotes; the at sign introduces the others.
_CODES: Final = {"@": "@a", "\\": "@b", "\n": "@n", "!": "@x"}
_DECODE: Final = (
    'BEGIN{t=ARGV[1];gsub(/@b/,sprintf("%c",92),t);gsub(/@n/,sprintf("%c",10),t);'
    'gsub(/@x/,sprintf("%c",33),t);gsub(/@a/,"@",t);printf "%s",t}'
)


def command_line(argv: Sequence[str]) -> str:
    plain = shlex.join(argv)
    if not set(plain) & {"\\", "\n", "!"}:
        return plain
    coded = "".join(_CODES.get(character, character) for character in plain)
    return shlex.join(["sh", "-c", 'eval "exec $(awk "$0" "$1")"', _DECODE, coded])
