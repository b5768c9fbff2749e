"""Whole rigs of the lab, as the probe saw them: tests/fixtures/rigs, and those of the demo."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from rigops.probe.bundle import Bundle

_FOLDER = Path(__file__).parents[1] / "fixtures/rigs"
DEMO = Path(__file__).parents[1] / "fixtures/demo"  # of inventory/demo.py, by name
NAMES = tuple(sorted(folder.name for folder in _FOLDER.iterdir()))


@cache
def rig(name: str) -> Bundle:
    return Bundle.read(_FOLDER / name)
