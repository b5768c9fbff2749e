"""Listings of real machines."""

from __future__ import annotations

import pytest

from rigops.probe.sections import lspci
from tests.corpus import CORPUS

FOLDER = "06-lspci"
# Listings by file: functions, cards, the width of each card's link, BAR1 in GiB where it is told.
ROWS: dict[str, tuple[int, int, tuple[int | None, ...], tuple[float | None, ...]]] = {
    f"{FOLDER}/gpud-a10.lspci-nn.txt": (20, 1, (None,), (None,)),
    f"{FOLDER}/gpud-a100.lspci-nn.txt": (31, 8, (None,) * 8, (None,) * 8),
    f"{FOLDER}/jarkko-2x4090.lspci-vv.txt": (2, 2, (8, 8), (32, 32)),
    f"{FOLDER}/luigifcruz-esc8000a-01.lspci-vvv.txt": (1, 1, (16,), (64,)),
    f"{FOLDER}/luigifcruz-esc8000a-41.lspci-vvv.txt": (1, 1, (16,), (64,)),
    f"{FOLDER}/luigifcruz-puget-c1.lspci-vvv.txt": (1, 1, (16,), (64,)),
    f"{FOLDER}/manouchehri-k520.lspci.txt": (7, 1, (16,), (0.125,)),
}
# A tree, and what grep left without the names of the ports: no section has these formats.
OUT_OF_SCOPE = (
    f"{FOLDER}/luigifcruz-esc8000a.lspci-tv.txt",
    f"{FOLDER}/luigifcruz-puget.lspci-tv.txt",
    f"{FOLDER}/luigifcruz-puget.acsctl.txt",
)


@pytest.mark.corpus
@pytest.mark.parametrize("file", ROWS)
def test_listings_of_real_machines(file: str) -> None:
    functions, cards, widths, gibibytes = ROWS[file]

    found = lspci.parse((CORPUS / file).read_text())

    assert not found.unread
    assert len(found.functions) == functions
    assert len(found.nvidia_gpus) == cards
    links = [card.link_status for card in found.nvidia_gpus]
    assert tuple(link.width if link else None for link in links) == widths
    windows = [card.bar1.size_bytes if card.bar1 else None for card in found.nvidia_gpus]
    assert tuple(size / 2**30 if size else None for size in windows) == gibibytes


@pytest.mark.corpus
@pytest.mark.parametrize("file", OUT_OF_SCOPE)
def test_other_formats_are_unread_and_not_misread(file: str) -> None:
    found = lspci.parse((CORPUS / file).read_text())

    assert not found.functions
    assert found.unread


@pytest.mark.corpus
def test_every_listing_is_looked_at() -> None:
    there = {f"{FOLDER}/{path.name}" for path in (CORPUS / FOLDER).iterdir()}

    assert there >= ROWS.keys()
