"""Why a host could not be reached."""

from __future__ import annotations

from typing import Literal

from rigops.errors import Problem, RigopsError

Kind = Literal[
    "dns", "timeout", "refused", "key_unknown", "key_changed", "auth", "sudo", "lost"
]  # fmt: skip


class TransportError(RigopsError):
    def __init__(
        self, kind: Kind, message: str, *, host: str, fix: str = "", value: str | None = None
    ) -> None:
        super().__init__(Problem(message=message, fix=fix, host=host, value=value))
        self.kind: Kind = kind
        self.host = host


class NeedsProgramError(Exception):
    """Only the `ssh` program can do this; the text says what."""


def clean(text: str | bytes, limit: int = 400) -> str:
    """Output of another machine, made safe to print on one line."""
    if isinstance(text, bytes):
        text = text.decode("utf-8", "replace")
    words = " ".join(text.split())
    shown = "".join(character for character in words if character.isprintable())
    return shown if len(shown) <= limit else shown[:limit] + "…"


def timed_out(host: str, where: str, step: str, allowed: float, fix: str = "") -> TransportError:
    return TransportError(
        "timeout",
        f"{where}: {step} did not finish within {allowed:.3g} s",
        host=host,
        fix=fix,
    )
