"""Why a bootloader's configuration is left alone."""

from __future__ import annotations

from rigops.errors import Problem, RigopsError


class CannotEditError(RigopsError):
    """A file that would be corrupted, or would not count. `reason` is a clause about it."""

    def __init__(self, reason: str, path: str | None = None) -> None:
        self.reason = reason
        super().__init__(
            Problem(message=f"{path} cannot be edited: {reason}" if path else reason, file=path)
        )
