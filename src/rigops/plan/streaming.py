"""Commands whose progress a person sees."""

from __future__ import annotations

from pyinfra.api.command import QuoteString, StringCommand


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
