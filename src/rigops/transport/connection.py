"""What every connection to a host can do, and how its commands become root."""

from __future__ import annotations

import secrets
import time
from abc import ABC, abstractmethod
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Final, Literal

from rigops.transport.errors import TransportError, clean, timed_out
from rigops.transport.holding import Holding
from rigops.transport.result import (
    END_GROUP,
    FRAME_COMMAND,
    FRAME_SCRIPT,
    Framed,
    Result,
    ScriptResult,
    Sink,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from typing_extensions import Self  # from Python 3.11 on in typing

_MAX_OUTPUT: Final = 64 * 1024 * 1024
_PIECE: Final = 128 * 1024
_FOR_GOOD_S: Final = 10 * 365 * 24 * 3600.0
STILL_RUNNING: Final = "check whether the command still runs on the host; the connection was closed"
LOST_FIX: Final = "check whether the host rebooted, or lost power or network"

# Here and not by trying a whole script: each line of it would count as one more wrong password.
_TRY_SUDO: Final = (
    'PATH=$PATH:/usr/sbin:/usr/bin:/sbin:/bin; [ "$(id -u)" != 0 ] || { echo is root; exit; }; '
    "command -v sudo >/dev/null || { echo is without sudo; exit; }; "
    "if sudo -n true </dev/null >/dev/null 2>&1; then echo is free; exit; fi; "
    "if LC_ALL=C sudo -k -S -p '' true; then echo is allowed; fi"
)


@dataclass(frozen=True)
class Privilege:
    """`argv` goes before a command, `preamble` before its input. The password is in no argv."""

    kind: Literal["root", "free", "password"]
    argv: tuple[str, ...] = ()
    preamble: bytes = field(default=b"", repr=False)


@dataclass(frozen=True, kw_only=True)
class Execution:
    """One exec, as the backends see it."""

    argv: Sequence[str]
    label: str
    stdin: bytes | Iterable[bytes]
    out: Sink
    err: Sink
    ending: Callable[[], Sequence[str] | None]


class Connection(ABC):
    """A host that was reached. Usable from several threads; ends with close() or `with`.

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
        deadline_s: float,
        max_output: int = _MAX_OUTPUT,
    ) -> Result:
        """Run one program. Output beyond max_output is counted, not stored."""
        done = self._framed(FRAME_COMMAND, argv, stdin, deadline_s, max_output)
        if done.started:
            return Result(**{one.name: getattr(done, one.name) for one in fields(Result)})
        return Result(exit_code=done.exit_code, stdout=b"", stderr=done.login_noise)

    def run_script(
        self,
        script: str,
        *,
        argv: Sequence[str] = ("sh", "-s"),
        preamble: bytes = b"",
        deadline_s: float,
        max_output: int = _MAX_OUTPUT,
    ) -> ScriptResult:
        """Feed a script to an interpreter's stdin, in one exec.

        `preamble` goes before the script: the line that a `sudo -S` in argv reads.
        """
        stdin = preamble + script.encode()
        return self._framed(FRAME_SCRIPT, argv, stdin, deadline_s, max_output)

    def hold(
        self,
        argv: Sequence[str],
        *,
        stdin: bytes = b"",
        ready: bytes,
        deadline_s: float,
        on_line: Callable[[str], None] = lambda _: None,
    ) -> Holding:
        """Start a program that runs beside others, and return when it is ready or has ended.

        It is ready when it has printed a line that begins with `ready`; `on_line` gets the lines
        before that. Its input stays open until the holding is released or the connection ends,
        and brings an empty line every few seconds.
        """
        token = secrets.token_hex(16)
        label = clean(argv[0], 80)
        holding = Holding(token, stdin)
        execution = Execution(
            argv=("sh", "-c", FRAME_SCRIPT, token, *argv),
            label=label,
            stdin=holding.input(),
            out=holding.out,
            err=holding.err,
            ending=lambda: None,
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
        frame: str,
        argv: Sequence[str],
        stdin: bytes | Iterable[bytes],
        deadline_s: float,
        max_output: int,
    ) -> ScriptResult:
        token = secrets.token_hex(16)
        out, err = Framed(token, max_output), Framed(token, max_output)

        def ending() -> list[str] | None:
            if out.pid is None:
                return None
            words = ["sh", "-c", END_GROUP, str(out.pid)]
            return ["sudo", "-n", *words] if argv[0] == "sudo" else words

        start = time.monotonic()
        words = ("sh", "-c", frame, token, *argv)
        execution = Execution(
            argv=words, label=clean(argv[0], 80), stdin=stdin, out=out, err=err, ending=ending
        )
        code = self._execute(execution, deadline_s)
        end = time.monotonic()
        out.finish()
        err.finish()
        inner = out.exit_code
        return ScriptResult(
            exit_code=code if inner is None else inner,
            stdout=out.body.take(),
            stderr=err.body.take(),
            stdout_dropped=out.body.dropped,
            stderr_dropped=err.body.dropped,
            started=out.began_at is not None,
            complete=inner is not None and err.exit_code is not None,
            login_noise=out.noise.take() + err.noise.take(),
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


def with_password(connection: Connection, password: str) -> Privilege:
    """The password is used only where neither root nor `sudo -n` does it."""
    line = password.encode() + b"\n"
    answer = connection.run(["sh", "-c", _TRY_SUDO], stdin=line, deadline_s=30)
    found = answer.stdout.decode("utf-8", "replace").split("\n")
    if "is root" in found:
        return Privilege("root")
    if "is free" in found:
        return Privilege("free", ("sudo", "-n"))
    if "is allowed" in found:
        return Privilege("password", ("sudo", "-k", "-S", "-p", ""), line)
    errors = answer.stderr
    if "is without sudo" in found:
        message, fix = "sudo is not installed", "log in as root, or pass --no-root"
    elif b"not in the sudoers" in errors or b"not allowed" in errors:
        message = "sudo does not allow this user anything"
        fix = "add the user to the group sudo (or wheel), log in as root, or pass --no-root"
    elif b"incorrect password" in errors or b"no password was provided" in errors:
        message = "sudo refused the password"
        fix = "type the password of the user that logs in"
    else:
        message, fix = f"sudo failed: {clean(errors)}", "make `sudo true` work on the host"
    raise TransportError("sudo", f"{connection.name}: {message}", host=connection.name, fix=fix)
