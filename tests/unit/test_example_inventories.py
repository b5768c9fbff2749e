"""The inventories that people copy have to be right."""

from __future__ import annotations

from pathlib import Path

import pytest

from rigops.concerns.registry import keys
from rigops.inventory import load

FOLDER = Path(__file__).resolve().parents[2] / "inventory"


@pytest.mark.parametrize("name", ["demo.py", "homelab.py"])
def test_an_example_is_read_without_a_warning(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(FOLDER)

    inventory = load(FOLDER / name, keys())

    assert [host.name for host in inventory.hosts] == ["threadripper", "t180"]
    assert all(host.spec.driver is not None for host in inventory.hosts)
    assert inventory.warnings == ()
