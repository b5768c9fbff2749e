from __future__ import annotations

from typing import TYPE_CHECKING, cast

from rigops.catalog import load
from rigops.driver.offers import Offers
from rigops.driver.request import Refusal
from rigops.operations.driver_vault import Shelf
from rigops.operations.driver_vault_choice import Kept
from rigops.vault.store import Store
from tests.unit.driver.machines import BOOKWORM, wish, with_cards

if TYPE_CHECKING:
    from pathlib import Path

    from pyinfra.api.host import Host


def test_a_folder_that_cannot_be_taken_is_refused_with_the_cure(tmp_path: Path) -> None:
    (tmp_path / "NVIDIA.run").touch()
    shelf = Shelf(sets=(), locked="", store=Store(tmp_path / "vault"), back=False)
    kept = Kept(cast("Host", None), shelf, with_cards(BOOKWORM, "3090"), load())

    found = kept.of_directory(str(tmp_path), wish("535"), Offers())

    assert isinstance(found, Refusal)
    assert "no driver of NVIDIA's in it: a .run file is called NVIDIA-Linux-x86_64-" in str(found)
