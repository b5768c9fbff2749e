"""Where in a log one boot ends and the next begins, and whether the last one is there in full."""

from __future__ import annotations

from typing import Final

from rigops.probe.kernel_log import stamps

_FIRST_WORDS: Final = ("Linux version ", "Command line: ", "Booting Linux on ")
_FIRST_LINES: Final = 5
_AT_BOOT_S: Final = 0.5
_LONG_AFTER_BOOT_S: Final = 120.0


class BootCount:
    """Fed with every line; `last` is the number of the boot that the log is in."""

    def __init__(self) -> None:
        self.last = 0
        self.starts_at_boot: bool | None = None
        self._lines = 0  # of this boot
        self._before: stamps.Stamped | None = None

    def mark(self) -> None:
        """Another boot begins, says journalctl."""
        if self._lines:
            self._next()

    def take(self, stamped: stamps.Stamped) -> None:
        if stamped.message.startswith("Linux version ") and self._is_another(stamped):
            self._next()
        self._lines += 1
        self._before = stamped
        if self._lines <= _FIRST_LINES and self.starts_at_boot is not True:
            self._judge(stamped)

    def _next(self) -> None:
        self.last += 1
        self._lines = 0
        self.starts_at_boot = None

    def _is_another(self, stamped: stamps.Stamped) -> bool:
        """Not where the same boot stands in a second log file: that one begins before."""
        if not self._lines or self._before is None or self._before.form != stamped.form:
            return False
        before, now = stamps.wall(self._before), stamps.wall(stamped)
        return before is not None and now is not None and now >= before

    def _judge(self, stamped: stamps.Stamped) -> None:
        seconds = stamped.seconds
        if stamped.message.startswith(_FIRST_WORDS) or (
            seconds is not None and seconds <= _AT_BOOT_S
        ):
            self.starts_at_boot = True
        elif self._lines == 1 and seconds is not None and seconds > _LONG_AFTER_BOOT_S:
            self.starts_at_boot = False
