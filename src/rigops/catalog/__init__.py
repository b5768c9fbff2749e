"""What is known about drivers, cards, Xids and links, with evidence for each entry."""

from rigops.catalog.loader import Catalog, load
from rigops.catalog.lookup import (
    Match,
    Support,
    expected_link,
    find_branch,
    find_gpu,
    find_xid,
    judge,
    runs_on,
)
from rigops.catalog.rows import DriverRow, driver_rows

__all__ = [
    "Catalog",
    "DriverRow",
    "Match",
    "Support",
    "driver_rows",
    "expected_link",
    "find_branch",
    "find_gpu",
    "find_xid",
    "judge",
    "load",
    "runs_on",
]
