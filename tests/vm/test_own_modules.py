"""Which of two sets of NVIDIA's modules a real kernel gets from a real kmod, on Debian 12 and 13.

Both sets are built by real DKMS from a stub of the tree. The stock set has Debian's names, options
and modprobe files.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests import own_tree
from tests.lab.vm import small_boot
from tests.lab.vm.requirements import lacks
from tests.lab.vm.small_boot import DWORDS, OWN, OWN_TREE, STOCK
from tests.shards import VM_DRIVER

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.shard(VM_DRIVER)

ASKED = "rigops.nvidia=own"
CHOSEN = f"chosen own {own_tree.digest(OWN_TREE)}"


@pytest.fixture(scope="module", params=["bookworm", "trixie"])
def boot(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    if reason := lacks():
        pytest.skip(f"vm tier: {reason}")
    return small_boot.made(request.param, tmp_path_factory.mktemp("small"))


def loaded(mark: int) -> list[str]:
    """Every module once, all of one tree, and only the first has options."""
    options = {"nvidia": DWORDS}
    return [f"{name} of tree {mark} with {options.get(name, 'none')}" for name in own_tree.MODULES]


def test_the_owners_set_is_loaded_where_the_argument_asks_for_it(boot: Path) -> None:
    first, *modules = small_boot.booted(boot, ASKED)

    assert first == CHOSEN
    assert sorted(modules) == sorted(loaded(OWN))


def test_without_the_argument_the_stock_set_is_loaded(boot: Path) -> None:
    first, *modules = small_boot.booted(boot, "")

    assert first == "chosen stock not-asked"
    assert sorted(modules) == sorted(loaded(STOCK))


@pytest.mark.parametrize("why", ["damaged", "refused", "not-built"])
def test_a_set_that_is_not_fit_leaves_all_of_it_to_the_stock_set(boot: Path, why: str) -> None:
    first, *said = small_boot.booted(boot, f"{ASKED} lab={why}")

    assert first == f"chosen stock {why}"
    modules = [line for line in said if " of tree " in line]
    assert sorted(modules) == sorted(loaded(STOCK))
    assert f"log the stock nvidia modules are loaded, not the owner's: {why}" in said
