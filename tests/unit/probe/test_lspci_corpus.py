"""Listings and trees of real machines."""

from __future__ import annotations

from typing import Final

import pytest

from rigops.probe.lspci_text import split_tree
from rigops.probe.sections import lspci
from rigops.probe.text import lines
from tests.corpus import CORPUS

FOLDER = "06-lspci"
# Listings by file: functions, cards, the width of each card's link, BAR1 in GiB where it is told.
LISTINGS: dict[str, tuple[int, int, tuple[int | None, ...], tuple[float | None, ...]]] = {
    f"{FOLDER}/gpud-a10.lspci-nn.txt": (20, 1, (None,), (None,)),
    f"{FOLDER}/gpud-a100.lspci-nn.txt": (31, 8, (None,) * 8, (None,) * 8),
    f"{FOLDER}/jarkko-2x4090.lspci-vv.txt": (2, 2, (8, 8), (32, 32)),
    f"{FOLDER}/luigifcruz-esc8000a-01.lspci-vvv.txt": (1, 1, (16,), (64,)),
    f"{FOLDER}/luigifcruz-esc8000a-41.lspci-vvv.txt": (1, 1, (16,), (64,)),
    f"{FOLDER}/luigifcruz-puget-c1.lspci-vvv.txt": (1, 1, (16,), (64,)),
    f"{FOLDER}/manouchehri-k520.lspci.txt": (7, 1, (16,), (0.125,)),
}
# Trees by file: how many bridges, and the bridges above some functions.
TREES: Final[dict[str, tuple[int, dict[str, tuple[str, ...]]]]] = {
    f"{FOLDER}/luigifcruz-esc8000a.lspci-tv.txt": (59, {
        "0000:01:00.0": ("0000:00:01.1",),
        "0000:e1:00.0": ("0000:e0:01.1",),
        "0000:75:00.0": ("0000:60:05.2", "0000:74:00.0"),
        "0000:65:00.0": (
            "0000:60:01.1", "0000:61:00.0", "0000:62:00.0", "0000:63:00.0", "0000:64:10.0",
        ),
    }),
    f"{FOLDER}/luigifcruz-puget.lspci-tv.txt": (40, {
        "0000:c1:00.0": ("0000:c0:01.1",),
        "0000:c2:00.0": ("0000:c0:03.1",),
        "0000:88:00.0": ("0000:20:03.1", "0000:22:00.0", "0000:23:02.0"),
        "0000:8e:00.0": ("0000:20:03.4", "0000:8b:00.0", "0000:8c:0d.0"),
        "0000:10:15.0": ("0000:00:03.1", "0000:01:00.0", "0000:02:0c.0", "0000:0f:00.0"),
    }),
}  # fmt: skip
# What `grep ACSCtl` left names no port: how many lines stay unparsed.
GREPPED: Final = {f"{FOLDER}/luigifcruz-puget.acsctl.txt": 26}

ROWS: Final[dict[str, object]] = {**LISTINGS, **TREES, **GREPPED}


@pytest.mark.corpus
@pytest.mark.parametrize("file", LISTINGS)
def test_listings_of_real_machines(file: str) -> None:
    functions, cards, widths, gibibytes = LISTINGS[file]

    found = lspci.parse((CORPUS / file).read_text())

    assert not found.unparsed
    assert len(found.functions) == functions
    assert len(found.nvidia_gpus) == cards
    links = [card.link_status for card in found.nvidia_gpus]
    assert tuple(link.width if link else None for link in links) == widths
    windows = [card.bar1.size_bytes if card.bar1 else None for card in found.nvidia_gpus]
    assert tuple(size / 2**30 if size else None for size in windows) == gibibytes


@pytest.mark.corpus
@pytest.mark.parametrize("file", TREES)
def test_trees_of_real_machines(file: str) -> None:
    count, above = TREES[file]

    buses, _, unparsed = split_tree(lines((CORPUS / file).read_text()))

    assert not unparsed
    assert len(buses) == count
    for function, bridges in above.items():
        below = [int(one[5:7], 16) for one in (*bridges[1:], function)]
        assert [buses[one] for one in bridges] == below


@pytest.mark.corpus
@pytest.mark.parametrize("file", GREPPED)
def test_settings_of_ports_that_nobody_names_are_of_no_port(file: str) -> None:
    found = lspci.parse((CORPUS / file).read_text())

    assert found.functions == ()
    assert len(found.unparsed) == GREPPED[file]
    assert all(line.strip().startswith("ACSCtl: SrcValid- ") for line in found.unparsed)


@pytest.mark.corpus
def test_every_listing_is_looked_at() -> None:
    there = {f"{FOLDER}/{path.name}" for path in (CORPUS / FOLDER).iterdir()}

    assert there == ROWS.keys()
