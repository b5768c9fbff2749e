"""Times in UTC, as documents, states and names of copies have them. Pure but for `utc_now`."""

from __future__ import annotations

from datetime import datetime, timezone

_IN_DOCUMENTS = "%Y-%m-%dT%H:%M:%SZ"
_IN_NAMES = "%Y%m%dT%H%M%SZ"


def utc_now() -> datetime:
    return datetime.now(timezone.utc).replace(microsecond=0)


def utc_text(at: datetime) -> str:
    return at.astimezone(timezone.utc).strftime(_IN_DOCUMENTS)


def parse_utc(text: object) -> datetime:
    """A ValueError, where it is none."""
    return _parse(str(text), _IN_DOCUMENTS)


def read_utc(text: object) -> datetime | None:
    """None where a document has no time that can be read."""
    try:
        return parse_utc(text)
    except ValueError:
        return None


def stamp(at: datetime) -> str:
    """As in a name."""
    return at.astimezone(timezone.utc).strftime(_IN_NAMES)


def parse_stamp(text: str) -> datetime:
    """A ValueError, where it is none."""
    return _parse(text, _IN_NAMES)


def _parse(text: str, shape: str) -> datetime:
    return datetime.strptime(text, shape).replace(tzinfo=timezone.utc)
