"""Facts about drivers, cards, links, Xids, failed starts and firmware, with evidence."""

from rigops.catalog.links import nvlink, pcie_link
from rigops.catalog.loader import Catalog, load, load_once
from rigops.catalog.lookup import (
    DriverRow,
    driver_rows,
    find_branch,
    find_cut,
    find_gpu,
    find_init_codes,
    find_toolkit,
    find_unlisted,
    find_xid,
    judge,
    runs_on,
    similar_names,
)

__all__ = [
    "Catalog",
    "DriverRow",
    "driver_rows",
    "find_branch",
    "find_cut",
    "find_gpu",
    "find_init_codes",
    "find_toolkit",
    "find_unlisted",
    "find_xid",
    "judge",
    "load",
    "load_once",
    "nvlink",
    "pcie_link",
    "runs_on",
    "similar_names",
]
