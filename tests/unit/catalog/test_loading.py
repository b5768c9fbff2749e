from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest

from rigops.catalog import Catalog, find_gpu, load
from rigops.catalog.loader import SHIPPED
from rigops.errors import UsageError

if TYPE_CHECKING:
    from pathlib import Path


def _copy_with_broken(name: str, directory: Path) -> Catalog:
    shutil.copytree(SHIPPED, directory / "data")
    (directory / "data" / name).write_text("this is = not [ TOML", encoding="utf-8")
    return Catalog(directory / "data")


def test_looking_up_a_card_reads_no_other_table(tmp_path: Path) -> None:
    catalog = _copy_with_broken("xids.toml", tmp_path)

    assert find_gpu(catalog, "3090").only is not None
    with pytest.raises(UsageError):
        _ = catalog.xids


def test_a_table_is_read_once() -> None:
    catalog = Catalog()

    assert catalog.gpus is catalog.gpus
    assert load().xids is load().xids
