"""Rigs with a tree of modules: the driver that each gets, and what is refused before a change."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import pytest

from rigops.catalog import load
from rigops.concerns.driver_modules import decide
from rigops.concerns.driver_modules.tree import Tree
from rigops.concerns.nvidia_driver.apt_offers import Offered
from rigops.concerns.nvidia_driver.resolver.answer import DriverAnswer, answer
from rigops.concerns.nvidia_driver.resolver.driver_facts import DriverFacts
from rigops.concerns.nvidia_driver.resolver.machine import Kernel
from rigops.concerns.nvidia_driver.resolver.request import Blocker
from rigops.concerns.registry import read
from tests.unit.concerns.nvidia_driver.resolver.archives import archive
from tests.unit.concerns.nvidia_driver.resolver.machines import ARCH, BOOKWORM, NOBLE, with_cards

if TYPE_CHECKING:
    from rigops.concerns.nvidia_driver.resolver.machine import Machine

THREE: Final = ("3090",) * 3
TWO: Final = ("RTX 5090",) * 2
OPTION: Final = "NVreg_OpenRmEnableUnsupportedGpus"


def _tree(version: str) -> Tree:
    return Tree("~/src", version, "a" * 64, b"")


def _facts(machine: Machine, version: str) -> DriverFacts:
    suites = ("noble-updates",) if machine.distribution == "ubuntu" else ("bookworm",)
    return DriverFacts(
        machine=machine,
        catalog=load(),
        spec=read({"driver": version.partition(".")[0]}),
        offered=Offered(offers=archive(*suites)),
        source="",
        own_modules=version,
    )


def _rig(machine: Machine, *cards: str, **more: Any) -> Machine:
    return replace(with_cards(machine, *cards), **more)


THREE_3090: Final = _rig(BOOKWORM, *THREE)
TWO_5090: Final = _rig(NOBLE, *TWO)


@pytest.mark.parametrize(
    ("rig", "version", "driver", "modules"),
    [
        (THREE_3090, "535.261.03", "", ""),
        (TWO_5090, "595.99.02", "", ""),
        (_rig(NOBLE, "RTX 5090", "3090"), "595.99.02", "", ""),
        (replace(TWO_5090, secure_boot=True, has_key=True), "595.99.02", "", ""),
        (
            THREE_3090,
            "595.71.05",
            "check out a tree of 535.261.03, which they have, or put NVIDIA-Linux-x86_64-595.71",
            "",
        ),
        (
            replace(THREE_3090, kernels=(Kernel("6.1.0-53-amd64", version="6.1.187-1"),)),
            "535.261.03",
            "on, and 6.1.0-53-amd64 could boot next: check out a tree of a version that does",
            "",
        ),
        (
            _rig(NOBLE, "V100-SXM2-16GB"),
            "580.178.04",
            "the open modules of driver 580.178.04 do not drive every card of this machine",
            "drive Turing and newer cards only, and this machine has Tesla V100-SXM2-16GB",
        ),
        (
            replace(TWO_5090, secure_boot=True, has_key=False),
            "595.99.02",
            "Secure Boot is on, and the key",
            "that signs modules built here is not enrolled",
        ),
        (
            _rig(ARCH, *TWO, kernels=(Kernel("6.12.1"),)),
            "595.99.02",
            "rigops installs drivers with apt only",
            "has no apt",
        ),
    ],
)
def test_a_rig_gets_the_tree_s_driver_or_the_reason_why_not(
    rig: Machine, version: str, driver: str, modules: str
) -> None:
    facts = _facts(rig, version)
    assert facts.spec.driver is not None
    found = answer(facts, facts.spec.driver)

    if driver:
        assert isinstance(found, Blocker)
        assert driver in str(found)
    else:
        assert isinstance(found, DriverAnswer)
        assert (found.resolution.version, found.resolution.flavor) == (version, "open")
    refused = decide.unfit(_tree(version), rig, load())
    assert modules in refused.reason if refused else not modules


@pytest.mark.parametrize(
    ("version", "cards", "declared", "is_told"),
    [
        ("535.261.03", THREE, {}, True),
        ("535.261.03", THREE, {"module_options": {"nvidia": {OPTION: 1}}}, False),
        ("535.261.03", ("RTX A6000",), {}, False),
        ("595.71.05", TWO, {}, False),
    ],
)
def test_the_option_that_old_open_modules_start_no_geforce_without_is_told(
    version: str, cards: tuple[str, ...], declared: dict[str, object], *, is_told: bool
) -> None:
    here = with_cards(BOOKWORM, *cards)

    assert bool(decide.lacking_option(_tree(version), here.cards, read(declared))) == is_told
