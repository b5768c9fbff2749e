"""A command that says how far it is."""

from __future__ import annotations

from pyinfra.api.command import QuoteString, StringCommand


class Telling(StringCommand):
    """Its lines on stdout are for a person who waits; the engine of rigops shows them as they come.

    An empty one says nothing, and ends a command that nobody listens to any more. Its input stays
    open all the while: a program that reads it to its end would never come to one.
    """


class Saying(StringCommand):
    """One of many, before which a person who waits is told something."""

    def __init__(self, *bits: str | QuoteString, says: str, stdin: bytes) -> None:
        super().__init__(*bits, _stdin=stdin)  # type: ignore[arg-type]  # our connector takes bytes
        self.says = says


def telling_script(text: str, *, timeout_s: int) -> Telling:
    """A shell script as one, which has read all of itself before it begins."""
    whole = f"{{\n{text}\n}} </dev/null\nexit\n"
    return Telling("sh", "-s", _stdin=whole, _timeout=timeout_s)
