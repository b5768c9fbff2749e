"""How old the catalog is, and what to do once it is old."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from rigops.report.terminal import styled
from rigops.report.words import wrapped

if TYPE_CHECKING:
    from datetime import date

    from rigops.catalog import Catalog

MOST_DAYS: Final = 90
_MISSING: Final = "newer drivers and reports are missing"
_FIX: Final = (
    "fix: upgrade rigops, or add what you know by the key `catalog`, with the day as `as_of`"
)


def age_lines(catalog: Catalog, today: date, width: int) -> Iterator[str]:
    days = (today - catalog.as_of).days
    is_old = days > MOST_DAYS
    more = f", {days} days old: {_MISSING}. {_FIX}" if is_old else "."
    for line in wrapped(f"Catalog of {catalog.as_of}{more}", width, ""):
        yield styled(line, fg="yellow") if is_old else line


def old_catalog_note(catalog: Catalog, today: date, width: int) -> Iterator[str]:
    """Nothing while it is not old."""
    days = (today - catalog.as_of).days
    if days > MOST_DAYS:
        text = f"note: the catalog of {catalog.as_of} is {days} days old: {_MISSING}"
        yield from wrapped(text, width, "", hanging="      ")
        yield from wrapped(_FIX, width, "      ", hanging="     ")
