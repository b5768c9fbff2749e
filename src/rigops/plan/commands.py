"""Commands for operations to yield: with progress that a person sees, and what blocks a concern."""

from __future__ import annotations

from collections.abc import Generator

from pyinfra.api.command import QuoteString, StringCommand
from pyinfra.api.host import Host
from pyinfra.api.operation import operation
from pyinfra.context import host as current

from rigops.plan.context import announce_blocked


class StreamingCommand(StringCommand):
    """Its lines on stdout are for a person who waits; rigops' engine shows them as they come.

    An empty line shows nothing, and ends a command whose connection was lost. Its input stays open
    all the while: a program that reads it to its end would never come to one.
    """


class ReportedCommand(StringCommand):
    """One of many, before which a person who waits sees `progress`."""

    def __init__(self, *bits: str | QuoteString, progress: str, stdin: bytes) -> None:
        super().__init__(*bits, _stdin=stdin)  # type: ignore[arg-type]  # our connector takes bytes
        self.progress = progress


def streaming_script(text: str, *, timeout_s: int) -> StreamingCommand:
    """A shell script as one, which has read all of itself before it begins."""
    whole = f"{{\n{text}\n}} </dev/null\nexit\n"
    return StreamingCommand("sh", "-s", _stdin=whole, _timeout=timeout_s)


def blocked(host: Host, concern: str, reason: str) -> StringCommand:
    """The command to yield: it fails at this host alone, where raising would stop all of them."""
    announce_blocked(host, concern, reason)
    return StringCommand(
        "sh", "-c", QuoteString('echo "$1" >&2; exit 1'), "rigops", QuoteString(reason)
    )


@operation()
def blockers(*, concern: str, reasons: tuple[str, ...]) -> Generator[StringCommand, None, None]:
    """Report them in the plan, and fail at this host where it is carried out all the same."""
    # All before the first is yielded: a plan advances an operation no further.
    yield from [blocked(current, concern, reason) for reason in reasons]
