"""Kept packages that apt is told of for a plan, beside everything that the host has."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from rigops.packages.apt_beside import with_index
from tests.unit.concerns.nvidia_driver.test_driver_offers import HOST, SOURCE, asked
from tests.unit.programs import SHELLS
from tests.unit.vault.pinned_sets import index_of

if TYPE_CHECKING:
    from pathlib import Path

INDEX = index_of("535.261.03")
TWO = f"{SOURCE}\nTypes: deb\nURIs: http://second.example.org\nSuites: ./\n"


def during(folder: Path) -> str:
    return (folder / "while").read_text()


@pytest.mark.parametrize("shell", SHELLS)
def test_kept_packages_are_a_source_of_their_own(shell: str, tmp_path: Path) -> None:
    asked(tmp_path, shell, with_index("", INDEX))
    there = during(tmp_path)

    assert "./vault/Packages\n" in there
    assert "./sources.list.d/rigops-vault.list\n" in there
    assert "./sources.list.d/rigops-driver.sources" not in there
    assert "deb [trusted=yes] file:/tmp/rigops-apt." in there
    for name, text in HOST.items():
        assert (tmp_path / name).read_text() == text


@pytest.mark.parametrize("shell", SHELLS)
def test_another_source_is_tried_with_them_whole(shell: str, tmp_path: Path) -> None:
    asked(tmp_path, shell, with_index(TWO, INDEX))
    there = during(tmp_path)

    assert TWO in there
    assert "Package: libcuda1" not in there  # that stands in the index, and in no source
    assert "/vault ./\n" in there


def test_without_kept_packages_a_source_is_what_it_was() -> None:
    assert with_index(SOURCE, "") == SOURCE
