"""Where a restore goes that replaces nothing."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from rigops.concerns.borg.host.archive_names import ARCHIVE_TIME

if TYPE_CHECKING:
    from datetime import datetime


def beside(path: str, to: str, at: datetime) -> str:
    """A path that is free, unless it is in the folder `to`."""
    name = os.path.basename(path) or "root"  # noqa: PTH119
    if to:
        return f"{to.rstrip('/')}/{name}"
    parent = os.path.dirname(path)  # noqa: PTH120
    while not os.path.isdir(parent):  # noqa: PTH112
        parent = os.path.dirname(parent)  # noqa: PTH120
    side = f"{parent.rstrip('/')}/{name}.restored-{at.strftime(ARCHIVE_TIME)}"
    number = 1
    while os.path.lexists(side if number == 1 else f"{side}.{number}"):
        number += 1
    return side if number == 1 else f"{side}.{number}"
