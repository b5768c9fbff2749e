"""What keeps a driver on a host where everything invites another one, and who may change it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.lab import upgrader
from tests.lab.driver_rig import (
    AUTO,
    BLACKLIST,
    GOOD,
    MODPROBE,
    NEVER,
    OLD,
    PIN,
    THE_535,
    Rig,
    stages,
    subjects,
    tended,
    upgraded,
)
from tests.shards import LAB_DRIVER

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.shard(LAB_DRIVER)

INSTALLED = "535.183.01"
ASIDE = "/root/aside"
METAS = ("linux-headers-amd64", "linux-image-amd64")
FULL, UNATTENDED = "apt-get -q -y full-upgrade", "unattended-upgrade -v"


# ---- newer drivers come in sight


@pytest.fixture(scope="module")
def rig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    with tended(tmp_path_factory, "threadripper-3x3090=driver-kept") as rig:
        rig.apply(0, *AUTO, **THE_535)
        upgrader.install(rig.host)
        rig.has_suites("bookworm", "vendor", "newer", "newest")
        rig.does(f"mkdir {ASIDE} && cp {PIN} {BLACKLIST} {ASIDE}")
        yield rig


def _left_with(rig: Rig, *files: str, holds: bool = False) -> None:
    """What somebody left of all that keeps the driver."""
    for path in (PIN, BLACKLIST):
        rig.does(f"cp {ASIDE}/{path.split('/')[-1]} {path}" if path in files else f"rm -f {path}")
    rig.does(f"apt-mark {'hold' if holds else 'unhold'} {' '.join(rig.versions())}")
    rig.does("apt-get -q update")


def test_unattended_upgrades_installs_all_but_the_driver(rig: Rig) -> None:
    said = rig.upgrades(UNATTENDED)

    assert upgraded(said).isdisjoint(rig.versions())
    assert "0 upgraded, 0 newly installed, 0 to remove" in rig.upgrades(FULL)


def test_the_pin_alone_is_enough(rig: Rig) -> None:
    _left_with(rig, PIN)

    assert "0 upgraded, 0 newly installed" in rig.upgrades(FULL)
    assert "No packages found that can be upgraded unattended" in rig.upgrades(UNATTENDED)


def test_the_blacklist_alone_is_enough_for_unattended_upgrades_which_says_so(rig: Rig) -> None:
    _left_with(rig, BLACKLIST)

    said = rig.upgrades(UNATTENDED).splitlines()

    assert {f"Package {name} is blacklisted." for name in rig.versions()} <= set(said)


def test_holds_alone_are_enough(rig: Rig) -> None:
    _left_with(rig, holds=True)
    names = rig.versions()

    said = rig.upgrades(UNATTENDED).splitlines()

    assert {f"Package {name} is marked to be held back." for name in names} <= set(said)
    assert f"{len(names)} not upgraded" in rig.upgrades(FULL)


def test_what_somebody_took_away_is_put_back_and_nothing_else(rig: Rig) -> None:
    _left_with(rig, holds=True)
    rig.does("apt-mark unhold libcuda1")

    host = rig.apply(0, *AUTO, **THE_535)

    assert (host["outcome"], subjects(host, "file")) == ("changed", {PIN, BLACKLIST})
    (held,) = [one for one in host["changes"] if one["kind"] == "hold"]
    assert (held["before"], held["after"].split()) == (None, ["libcuda1"])
    assert rig.holds() == set(rig.versions())
    assert not any(host["packages"].values())
    assert "reboot" not in stages(host)


def test_without_any_of_them_it_would_have_been_replaced_and_apply_goes_back(rig: Rig) -> None:
    _left_with(rig)
    rig.does(f"DEBIAN_FRONTEND=noninteractive {UNATTENDED}")
    assert rig.drivers() == {"580.178.04"}

    host = rig.apply(0, *NEVER, **THE_535)

    assert {one["before"] for one in host["packages"]["downgrade"]} == {"580.178.04-1"}
    assert (rig.drivers(), rig.runs) == ({GOOD}, GOOD)
    assert rig.holds() == set(rig.versions())


def test_a_bad_driver_is_installed_for_who_insists(rig: Rig) -> None:
    host = rig.apply(0, *NEVER, driver="545", driver_allow_bad=True)

    assert host["outcome"] == "reboot_owed"
    assert (rig.drivers(), rig.loaded) == ({OLD}, GOOD)
    assert stages(rig.apply(0, *AUTO, **THE_535)).count("reboot") == 0  # it still runs
    assert (rig.drivers(), rig.runs) == ({GOOD}, GOOD)


# ---- another 535 is installed


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    words = ("threadripper-3x3090=driver-other", f"driver={INSTALLED}")
    with tended(tmp_path_factory, *words) as rig:
        rig.does(f"apt-get -q -y install {' '.join(METAS)}")
        yield rig


def test_an_installed_535_stays_at_its_version_and_is_pinned(other: Rig) -> None:
    before = other.versions()
    assert f"Candidate: {GOOD}-1" in other.does("apt-cache policy nvidia-driver")

    host = other.apply(0, *AUTO, **THE_535)

    assert host["outcome"] == "changed"
    assert not any(host["packages"].values())
    assert "reboot" not in stages(host)
    assert (other.versions(), other.runs) == (before, INSTALLED)
    assert GOOD not in other.does("apt-get -s full-upgrade; apt-get -s install nvidia-driver")
    assert other.holds() == set(before)


def test_options_of_modules_and_the_hold_of_kernels_come_and_go(other: Rig) -> None:
    options = {"nvidia": {"NVreg_RegistryDwords": "RMForceStaticBar1=1"}}
    option = "NVreg_RegistryDwords=RMForceStaticBar1=1"
    kernels = "^linux-(image|headers|modules|kbuild)-"
    other.apply(0, *NEVER, kernel_hold=True, module_options=options, **THE_535)

    written = other.does(f"cat {MODPROBE}").splitlines()
    assert f"options nvidia-current {option}" in written
    assert f"nvidia-current.ko {option}" in other.does("modprobe -nvi nvidia-current")
    assert other.holds() == {*other.versions(), *METAS}
    assert kernels in other.does("apt-config dump")

    other.apply(0, *NEVER, **THE_535)
    assert "options nvidia" not in other.does(f"cat {MODPROBE}")
    assert other.holds() == set(other.versions())
    assert kernels not in other.does("apt-config dump")
