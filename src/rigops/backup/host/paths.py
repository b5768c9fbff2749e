"""Paths as people name them."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from rigops.backup.utc import stamp

if TYPE_CHECKING:
    from datetime import datetime


def is_inside(path: str, folder: str) -> bool:
    return path == folder or path.startswith(f"{folder.rstrip('/')}/")


def is_free(path: str) -> bool:
    """Nothing has the name, and the folder for it is there."""
    return os.path.isdir(os.path.dirname(path)) and not os.path.lexists(path)


def path_beside(path: str, to: str, at: datetime) -> str:
    """Where a restore goes that replaces nothing: a path that is free, unless it is in `to`."""
    name = os.path.basename(path) or "root"
    if to:
        return f"{to.rstrip('/')}/{name}"
    parent = os.path.dirname(path)
    while not os.path.isdir(parent):
        parent = os.path.dirname(parent)
    side = f"{parent.rstrip('/')}/{name}.restored-{stamp(at)}"
    number = 1
    while os.path.lexists(side if number == 1 else f"{side}.{number}"):
        number += 1
    return side if number == 1 else f"{side}.{number}"
