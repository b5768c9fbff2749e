"""WHEN of a restore, as a person gives it."""

from __future__ import annotations

import re
from datetime import datetime, time, timedelta
from typing import Final

from rigops.backup.utc import utc_text
from rigops.errors import usage_error

ACCEPTED: Final = (
    '2026-11-25, 2026-11-25T06:00, yesterday, 3d or "3 days ago" (hours, days, weeks), or the name '
    "of a snapshot or an archive"
)

_NAME: Final = re.compile(
    r"[0-9]{8}T[0-9]{6}Z-[a-z]+|[A-Za-z0-9][A-Za-z0-9._-]*-[0-9]{8}T[0-9]{6}Z(?:\.partial)?"
)
_AGO: Final = re.compile(
    r"(?P<number>[0-9]{1,4}) ?(?P<unit>[hdw]|(?:hour|day|week)s?)(?: ago)?", re.IGNORECASE
)
_UNITS: Final = {"h": timedelta(hours=1), "d": timedelta(days=1), "w": timedelta(weeks=1)}


def parse_when(text: str, now: datetime) -> str:
    """A name, or RFC 3339 in UTC. A day is all of it.

    A time without a zone is by the clock of this machine on that day, be it summer or winter.
    """
    text = text.strip()
    if not text or _NAME.fullmatch(text):
        return text
    if ago := _AGO.fullmatch(text):
        return utc_text(now - int(ago["number"]) * _UNITS[ago["unit"][0].lower()])
    if text.lower() == "yesterday":
        text = str(now.date() - timedelta(days=1))
    try:
        found = datetime.fromisoformat(text.replace("Z", "+00:00"))
        if re.fullmatch(r"[0-9-]+", text):
            found = datetime.combine(found, time(23, 59, 59))
        return utc_text(found)
    except (ValueError, OverflowError):
        raise usage_error(message="not a time", key="--at", value=text, accepted=ACCEPTED) from None
