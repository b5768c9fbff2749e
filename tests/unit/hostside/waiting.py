"""Waiting for what another process does."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

PATIENCE_S: Final = 60  # only what hangs takes so long


def until(condition: Callable[[], object], told: Callable[[], object] = lambda: "") -> None:
    """`told`: what says more where it was in vain."""
    end = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < end, f"waited in vain {told()}"
        time.sleep(0.01)
