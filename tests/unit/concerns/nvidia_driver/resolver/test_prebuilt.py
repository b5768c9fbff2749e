"""Modules that the distribution built and signed, where the kernel takes no others."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from rigops.concerns.nvidia_driver.resolver.candidates import prebuilt_candidates
from rigops.concerns.nvidia_driver.resolver.machine import Kernel
from rigops.concerns.nvidia_driver.resolver.offers import Offers
from tests.unit.concerns.nvidia_driver.resolver.archives import archive
from tests.unit.concerns.nvidia_driver.resolver.machines import (
    NOBLE,
    declared,
    resolved,
    with_cards,
)

if TYPE_CHECKING:
    from rigops.concerns.nvidia_driver.resolver.machine import Machine
    from rigops.concerns.nvidia_driver.resolver.request import Resolution

_KERNEL = "6.8.0-31-generic"
_MACHINE = replace(NOBLE, kernels=(Kernel(_KERNEL),), secure_boot=True, has_key=False)


def _resolution(machine: Machine = _MACHINE, **more: Any) -> Resolution:
    offers = archive("noble", "noble-updates")
    return resolved(with_cards(machine, "3090"), replace(declared("535"), **more), offers)


def test_the_modules_come_with_all_they_are_put_together_from_and_nothing_is_built() -> None:
    found = _resolution()

    of_kernels = {name: its for name, its in found.packages.items() if name.startswith("linux-")}
    assert of_kernels == {
        "linux-modules-nvidia-535-generic": "6.8.0-31.31",
        f"linux-modules-nvidia-535-{_KERNEL}": "6.8.0-31.31",
        f"linux-objects-nvidia-535-{_KERNEL}": "6.8.0-31.31",
        f"linux-signatures-nvidia-{_KERNEL}": "6.8.0-31.31",
    }
    assert found.packages["nvidia-headless-no-dkms-535"] == "535.171.04-0ubuntu2"
    assert not [name for name in (*found.packages, *found.also) if "dkms-535" in name[:15]]
    assert "dkms" not in found.also
    assert found.prebuilt == (_KERNEL,)


def test_a_desktop_takes_them_for_the_modules_that_its_packages_ask_for() -> None:
    found = _resolution(set_="desktop")

    assert "nvidia-driver-535" in found.packages
    assert "nvidia-dkms-535" not in found.packages


def test_modules_that_were_built_here_are_removed_for_they_would_be_loaded_instead() -> None:
    there = {"nvidia-dkms-535": "535.171.04-0ubuntu2", "nvidia-utils-535": "535.171.04-0ubuntu2"}

    found = _resolution(replace(_MACHINE, installed=there))

    assert found.remove == ("nvidia-dkms-535",)


def test_it_is_told_that_the_kernel_stays_and_how_to_have_modules_built_here() -> None:
    (note,) = (one for one in _resolution().notes if "Secure Boot" in one)

    assert f"built and signed for {_KERNEL}, and the kernel is held with them" in note
    assert "sudo mokutil --import" in note


def test_modules_whose_signatures_no_source_has_are_none() -> None:
    offers = archive("noble")
    without = tuple(one for one in offers.every if "signatures" not in one.name)

    assert "proprietary" in {one.flavor for one in prebuilt_candidates(offers, [_KERNEL])}
    assert "proprietary" not in {
        one.flavor for one in prebuilt_candidates(Offers(without), [_KERNEL])
    }


def test_without_a_kernel_of_its_own_a_machine_has_no_use_for_them() -> None:
    assert prebuilt_candidates(archive("noble"), []) == ()
