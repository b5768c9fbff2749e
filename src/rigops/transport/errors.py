"""Why a host could not be reached, in words that help."""

from __future__ import annotations

from typing import Final, Literal

from rigops.errors import Problem, RigopsError

Kind = Literal[
    "dns", "timeout", "refused", "key_unknown", "key_changed", "auth", "sudo", "lost"
]  # fmt: skip

_SHOWN: Final = 400


class TransportError(RigopsError):
    def __init__(
        self, kind: Kind, message: str, *, host: str, fix: str = "", value: str | None = None
    ) -> None:
        super().__init__(Problem(message=message, fix=fix, host=host, value=value))
        self.kind: Kind = kind
        self.host = host


class NeedsProgramError(Exception):
    """Only the `ssh` program can do this; the text says what."""


def clean(text: str | bytes, limit: int = _SHOWN) -> str:
    """What another machine said, made safe to print on one line."""
    if isinstance(text, bytes):
        text = text.decode("utf-8", "replace")
    words = " ".join(text.split())
    shown = "".join(character for character in words if character.isprintable())
    return shown if len(shown) <= limit else shown[:limit] + "…"


def seconds(value: float) -> str:
    return f"{value:.3g} s"


def timed_out(host: str, where: str, step: str, allowed: float, hint: str = "") -> TransportError:
    return TransportError(
        "timeout",
        f"{where}: {step} did not finish within {seconds(allowed)}",
        host=host,
        fix=hint,
    )
