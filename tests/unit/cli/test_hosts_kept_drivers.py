"""`rigops drivers --host` counts what the lock beside the inventory says was proven."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from rigops.record.lockfile import path_of, update
from rigops.vault.store import Store
from tests.unit.cli.test_host_drivers import TEXTS, fleet
from tests.unit.record.test_lockfile import HOST, NOW
from tests.unit.vault.pinned_sets import index_of

if TYPE_CHECKING:
    from pathlib import Path

    from tests.unit.cli.conftest import Rigops
    from tests.unit.cli.test_host_drivers import Fleet

__all__ = ["fleet"]

DEBIAN = "ID=debian\nVERSION_ID=12\nVERSION_CODENAME=bookworm\n"
NO_SOURCE = "== trouble\n\n== lists\n0\n"


@pytest.fixture
def inventory(tmp_path: Path, fleet: Fleet) -> Path:
    """A host of it, which was proven, and has no source of any driver."""
    path = tmp_path / "inventory.py"
    vault = tmp_path / "vault"
    path.write_text(f'rigs = [("rig", {{"driver": "535", "rigops_vault": "{vault}"}})]\n')
    Store(vault).put(NOW.index, [index_of(NOW.version).encode()])
    update(path_of(path), {"rig": replace(HOST, sets=(NOW,))})
    fleet.texts["rig"] = {**TEXTS, "os-release": DEBIAN, "driver-offers": NO_SOURCE}
    return path


def test_what_the_lock_has_of_it_is_on_offer(rigops: Rigops, fleet: Fleet, inventory: Path) -> None:
    (host,) = rigops("drivers", "--host", "rig", "-i", str(inventory), "--json").json()["hosts"]
    text = rigops("drivers", "--host", "rig", "-i", str(inventory)).out

    (one,) = host["offered"]
    assert (one["version"], one["from"], one["fits"]) == (NOW.version, ["vault"], True)
    assert host["recommended"]["declare"] == {"driver": "535"}
    assert (host["declared"]["version"], host["declared"]["refusal"]) == (NOW.version, None)
    assert f"{NOW.version} proprietary  known-good, fits, vault\n" in text
    assert len(fleet.asked) == 2


def test_a_host_of_no_inventory_has_no_lock(rigops: Rigops, fleet: Fleet, inventory: Path) -> None:
    path_of(inventory).write_text("{")
    fleet.texts["other"] = fleet.texts["rig"]

    (host,) = rigops("drivers", "--host", "other", "--json").json()["hosts"]

    assert (host["status"], host["offered"]) == ("ok", [])


def test_a_damaged_lock_is_not_taken_for_one_that_knows_nothing(
    rigops: Rigops, fleet: Fleet, inventory: Path
) -> None:
    path_of(inventory).write_text("{")

    said = rigops("drivers", "--host", "rig", "--json")

    assert said.code == 2
    assert "inventory.lock.json" in str(said.json()["errors"])
    assert fleet.asked == []
