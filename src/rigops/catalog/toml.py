"""The TOML parser: in the standard library from Python 3.11 on, tomli before."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

_PARSER = import_module("tomllib" if sys.version_info >= (3, 11) else "tomli")

# Raises a ValueError that says where.
loads: Callable[[str], dict[str, object]] = _PARSER.loads
