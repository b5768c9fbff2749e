"""Fixtures of snapshots."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from tests.unit.concerns.snapshots.fake_server import Server

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Server:
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    return Server(tmp_path)
