"""The program's output: sentences for the journal, or JSON lines for rigops."""

from __future__ import annotations

import json
import sys
import time
from typing import TYPE_CHECKING

from rigops.hostside.shared.bounded import printable

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rigops.backup.host.errors import HostError

# One of progress {what, done, total, per_s} in bytes, total null where it is not known;
# notice TEXT; error {message, fix}; result {...}, the last line of a command that succeeded.

_EVERY_S = 0.5


class Output:
    def __init__(self, *, as_json: bool) -> None:
        self.as_json = as_json
        self._reported_at = 0.0

    def notice(self, text: str) -> None:
        self._put({"notice": text}, text)

    def error(self, error: HostError) -> None:
        fix = f". fix: {error.fix}" if error.fix else ""
        found = {"message": error.message, "fix": error.fix}
        self._put({"error": found}, f"Error: {error.message}{fix}")

    def progress(self, what: str, done: int, total: int | None, per_s: float) -> None:
        """Twice a second at most; the journal needs none."""
        now = time.monotonic()
        if self.as_json and now - self._reported_at >= _EVERY_S:
            self._reported_at = now
            found = {"what": what, "done": done, "total": total, "per_s": round(per_s)}
            self._put({"progress": found}, "")

    def result(self, found: Mapping[str, object]) -> None:
        if self.as_json:
            self._put({"result": found}, "")

    def _put(self, document: Mapping[str, object], text: str) -> None:
        line = text.replace("\n", "\\n")
        sys.stdout.write(f"{json.dumps(document) if self.as_json else printable(line)}\n")
        sys.stdout.flush()
