"""Where a source is declared by who made it, packages of others are no driver."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from rigops.catalog import load
from rigops.concerns.nvidia_driver.resolver.answer import of_source, resolve_from
from rigops.concerns.nvidia_driver.resolver.offers import Offers, Origin
from rigops.concerns.nvidia_driver.resolver.request import Blocker, Resolution
from tests.unit.concerns.nvidia_driver.resolver.archives import archive, offer, together
from tests.unit.concerns.nvidia_driver.resolver.machines import (
    BOOKWORM,
    NOBLE,
    declared,
    with_cards,
)

if TYPE_CHECKING:
    from rigops.concerns.nvidia_driver.resolver.machine import Machine

HERE = with_cards(BOOKWORM, "3090")
DEBIANS, NVIDIAS = Origin("http://d.example/debian", "Debian"), Origin("http://n.example", "NVIDIA")
VENDORS = together(
    offer("nvidia-kernel-dkms", "580.95.05-1", maker="NVIDIA"),
    offer("nvidia-driver-cuda", "580.95.05-1", "libcuda1 (>= 580.95.05)", maker="NVIDIA"),
    offer("libcuda1", "580.95.05-1", maker="NVIDIA"),
    offer("libnvidia-ml1", "580.95.05-1", maker="NVIDIA"),
).every


BOTH = together(*archive("bookworm").every, *VENDORS)


def asked(version: str, source: str, offers: Offers = BOTH) -> Resolution | Blocker:
    return resolve_from(HERE, replace(declared(version), source=source), offers, load())


@pytest.mark.parametrize(
    ("source", "wanted", "version"),
    [
        ("auto", ">=535,<590", "580.95.05"),
        ("auto", "535", "535.261.03"),
        ("distribution", ">=535,<590", "535.261.03"),
        ("vendor", ">=535,<590", "580.95.05"),
        ("deb822", "580", "580.95.05"),
    ],
)
def test_only_the_packages_of_the_declared_source_are_taken(
    source: str, wanted: str, version: str
) -> None:
    found = asked(wanted, source)

    assert isinstance(found, Resolution), str(found)
    assert found.version == version


@pytest.mark.parametrize(
    ("source", "version", "reason", "instead"),
    [
        ("distribution", "580", "the distribution's own package sources have no", "580.95.05"),
        ("vendor", "535", "NVIDIA's own package sources have no driver 535, only", "535.261.03"),
    ],
)
def test_a_refusal_says_who_has_none_and_that_others_have(
    source: str, version: str, reason: str, instead: str
) -> None:
    found = asked(version, source)

    assert isinstance(found, Blocker)
    assert reason in found.reason
    assert f'declare "driver_source": "auto", since other sources here have {instead}' in found.fix


def test_where_nvidias_repository_is_not_configured_the_cure_is_to_do_that() -> None:
    found = asked("580", "vendor", archive("bookworm"))

    assert isinstance(found, Blocker)
    assert "no package source of this machine is NVIDIA's own" in found.reason
    assert "keyring package" in found.fix
    assert "NVIDIA's repository for Debian 12" in found.fix
    assert "auto" not in found.fix


def test_what_no_source_can_change_is_said_whatever_the_source() -> None:
    found = asked("545", "vendor", Offers())

    assert isinstance(found, Blocker)
    assert "known to be bad" in found.reason


def test_one_version_of_two_makers_is_of_both() -> None:
    one = replace(offer("libcuda1", "535.261.03-1"), origins=(DEBIANS, NVIDIAS))

    for source in ("auto", "distribution", "vendor"):
        assert of_source(together(one), source, HERE).every == (one,)


@pytest.mark.parametrize(
    ("machine", "own"),
    [(BOOKWORM, {"Debian", "Debian Backports"}), (NOBLE, {"Ubuntu"})],
)
def test_whose_packages_the_distributions_own_are(machine: Machine, own: set[str]) -> None:
    makers = ("Debian", "Debian Backports", "Ubuntu", "NVIDIA", "", "LP-PPA-graphics-drivers")
    every = [
        replace(offer("libcuda1", f"535.{at}.1-1"), origins=(Origin("http://x.example", maker),))
        for at, maker in enumerate(makers)
    ]
    found = of_source(together(*every), "distribution", machine)

    assert {one.origins[0].maker for one in found.every} == own


def test_what_is_no_part_of_the_driver_comes_from_anywhere() -> None:
    headers = offer("linux-headers-6.1.0-50-amd64", "6.1.176-1", maker="Debian")

    assert of_source(together(headers), "vendor", HERE).every == (headers,)


def test_a_snapshot_is_its_uris_and_no_others() -> None:
    then = Origin("http://s.example/debian/20240401T000000Z", "Debian")
    old = replace(offer("libcuda1", "535.1.1-1"), origins=(then,))
    new = replace(offer("libcuda1", "535.2.2-1"), origins=(DEBIANS,))
    found = of_source(together(old, new), "snapshot", HERE, [f"{then.uri}/"])

    assert found.every == (old,)
    assert of_source(together(old, new), "snapshot", HERE).every == ()
