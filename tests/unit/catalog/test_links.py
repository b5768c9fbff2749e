from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from rigops.catalog import find_gpu, load, nvlink, pcie_link
from rigops.errors import UsageError
from tests.unit.catalog.entries import EVIDENCE, changed, write

if TYPE_CHECKING:
    from pathlib import Path

    from rigops.catalog.model import Link

LINK = f"""
[[links]]
name = "PCIe 3.0 x2"
kind = "pcie"
generation = 3
width = 2
theoretical = 1.97
slowest = 1.5
fastest = 1.7
measured = true
{EVIDENCE}
"""


def range_of(link: Link | None) -> tuple[float, float, bool]:
    assert link is not None
    return link.slowest, link.fastest, link.measured


def between(*names: str, links: int) -> Link | None:
    found = [find_gpu(load(), name).only for name in names]
    return nvlink(load(), [gpu for gpu in found if gpu], links)


def test_a_link_that_somebody_measured() -> None:
    assert range_of(pcie_link(load(), 4, 16)) == (24.2, 27.1, True)
    assert range_of(pcie_link(load(), 5, 16, across_sockets=True)) == (39.0, 51.0, True)


@pytest.mark.parametrize(
    ("generation", "width", "expected"),
    [(1, 16, 3.4), (2, 8, 3.4), (3, 4, 3.35), (3, 1, 0.84), (4, 1, 1.67), (5, 4, 13.39)],
)
def test_a_link_that_nobody_measured_is_computed_and_says_so(
    generation: int, width: int, expected: float
) -> None:
    assert range_of(pcie_link(load(), generation, width)) == (expected, expected, False)


@pytest.mark.parametrize(
    ("names", "links", "name"),
    [
        (["GeForce RTX 3090", "GeForce RTX 3090"], 4, "NVLink bridge RTX 3090 NV4"),
        (["V100-SXM2-16GB", "V100-SXM2-16GB"], 2, "NVLink 2 V100 NV2"),
        (["V100-SXM2-16GB", "V100-SXM2-16GB"], 1, "NVLink with 1 links"),
    ],
)
def test_nvlink_by_the_number_of_links_and_the_rate_of_the_card(
    names: list[str], links: int, name: str
) -> None:
    found = between(*names, links=links)

    assert found is not None
    assert found.name == name


def test_what_nobody_can_compute_is_not_made_up() -> None:
    assert pcie_link(load(), 9, 16) is None
    assert pcie_link(load(), 4, 0) is None
    assert pcie_link(load(), 4, 16, across_sockets=True) is None
    assert between("GeForce RTX 4090", "GeForce RTX 4090", links=4) is None
    assert nvlink(load(), [], 4) is None


def test_a_users_link_counts(tmp_path: Path) -> None:
    assert range_of(pcie_link(load(write(tmp_path, LINK)), 3, 2)) == (1.5, 1.7, True)


@pytest.mark.parametrize(("field", "value"), [("slowest", "1.8"), ("fastest", "2.5")])
def test_numbers_out_of_order_are_an_error(tmp_path: Path, field: str, value: str) -> None:
    with pytest.raises(UsageError, match="out of order"):
        load(write(tmp_path, changed(LINK, field, value)))


def test_a_link_never_delivers_more_than_its_rate() -> None:
    assert all(0 < one.slowest <= one.fastest <= one.theoretical for one in load().links)
