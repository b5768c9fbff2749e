"""A .run file among what a machine could have: resolved, refused and kept like packages are."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rigops.concerns.nvidia_driver import modprobe, pin
from rigops.concerns.nvidia_driver.resolver.answer import of_source
from rigops.concerns.nvidia_driver.resolver.candidates import candidates
from rigops.concerns.nvidia_driver.resolver.driver_facts import installed_run_file
from rigops.concerns.nvidia_driver.resolver.host_facts import is_rival_of_run_file
from rigops.concerns.nvidia_driver.resolver.machine import Kernel, Machine, RunFile
from rigops.concerns.nvidia_driver.resolver.offers import Offer, Offers
from rigops.probe.package_names import RUN_FILE
from tests.unit.concerns.nvidia_driver.resolver.archives import archive, together
from tests.unit.concerns.nvidia_driver.resolver.machines import (
    BOOKWORM,
    NOBLE,
    declared,
    refused,
    resolved,
    with_cards,
)

FOLDER = "/home/me/drivers on this machine"
UNINSTALLER = "/usr/bin/nvidia-uninstall"
RIG = with_cards(BOOKWORM, "3090", "3090")


def folder(*versions: str) -> Offers:
    return Offers(tuple(Offer(RUN_FILE, one, places=(FOLDER,)) for one in versions))


def having(machine: Machine, version: str, whose: str = "whole") -> Machine:
    """With a driver from such a file."""
    found = RunFile(UNINSTALLER, version, "whole" if whose == "whole" else "begun by rigops")
    installed = {RUN_FILE: version} if whose == "whole" else {}
    return replace(machine, run_file=found, installed=installed, flavor="proprietary")


def test_it_is_all_of_the_driver_and_needs_dkms() -> None:
    found = resolved(RIG, declared("535"), folder("535.183.01", "535.261.03", "550.54.14"))

    assert found.packages == {RUN_FILE: "535.261.03"}
    assert found.is_run_file
    assert (found.by_apt, found.also, found.sources) == ({}, ("dkms",), {})
    assert (found.version, found.flavor, found.set_) == ("535.261.03", "proprietary", "compute")
    assert found.places == (FOLDER,)


def test_headers_come_from_the_sources_of_the_machine() -> None:
    kernel = "6.1.0-50-amd64"
    machine = replace(RIG, kernels=(Kernel(kernel, has_headers=False),))

    found = resolved(machine, declared("535"), folder("535.261.03"))

    assert f"no source has linux-headers-{kernel}" in " ".join(found.notes)


def test_every_package_with_files_of_the_same_names_goes() -> None:
    machine = replace(
        RIG,
        installed={"libcuda1": "545.29.06-1", "nvidia-egl-common": "545.29.06-1"},
        rivals_of_run_file=("libcuda1", "nvidia-egl-common", "nvidia-modprobe"),
    )

    found = resolved(machine, declared("535"), folder("535.261.03"))

    assert found.remove == ("libcuda1", "nvidia-egl-common", "nvidia-modprobe")


@pytest.mark.parametrize(
    ("name", "is_hit"),
    [
        ("nvidia-persistenced", True),
        ("nvidia-settings", True),
        ("nvidia-egl-common", True),
        ("libnvidia-compute-535", True),
        ("nvidia-container-toolkit", False),
        ("libnvidia-container1", False),
        ("nvidia-cuda-toolkit", False),
        ("dkms", False),
    ],
)
def test_what_is_in_its_way(name: str, is_hit: bool) -> None:  # noqa: FBT001 - a table
    assert is_rival_of_run_file(name) is is_hit


def test_packages_of_the_same_version_are_preferred_unless_it_is_there() -> None:
    both = together(*archive("bookworm").every, *folder("535.261.03").every)

    assert not resolved(RIG, declared("535"), both).is_run_file
    assert resolved(having(RIG, "535.261.03"), declared("535"), both).is_run_file


def test_packages_of_its_version_do_not_come_along_with_it() -> None:
    both = together(*archive("bookworm").every, *folder("535.261.03").every)
    there = having(RIG, "535.261.03")
    there = replace(there, installed={**there.installed, "libcuda1": "535.183.01-1"})

    found = resolved(there, declared("535.261.03"), both)

    assert found.packages == {RUN_FILE: "535.261.03"}
    assert found.remove == ("libcuda1",)


def test_it_has_open_modules_from_515_on() -> None:
    newer = with_cards(BOOKWORM, "RTX 5090")

    assert resolved(newer, declared("580"), folder("580.95.05")).flavor == "open"
    assert [one.flavor for one in candidates(folder("470.256.02"))] == ["proprietary"]
    request = replace(declared("535"), flavor="open")
    assert resolved(RIG, request, folder("535.261.03")).flavor == "open"


def test_it_is_judged_like_any_other() -> None:
    volta = with_cards(BOOKWORM, "V100 SXM2 16GB")

    assert "545" in str(refused(RIG, declared("545"), folder("545.29.06")))
    assert refused(volta, declared("590"), folder("590.48.01")).reason
    assert "is known to build up to Linux" in str(
        refused(
            replace(RIG, kernels=(Kernel("99.1.0-1-amd64"),)), declared("535"), folder("535.261.03")
        )
    )


def test_it_is_of_no_use_to_another_processor() -> None:
    there = folder("535.261.03")

    assert resolved(replace(RIG, architecture="x86_64"), declared("535"), there).is_run_file
    assert refused(replace(RIG, architecture="aarch64"), declared("535"), there).reason


def test_one_that_somebody_else_put_there_is_refused() -> None:
    there = replace(RIG, run_file=RunFile(UNINSTALLER, "535.261.03"))

    assert "--remove-foreign-driver" in str(refused(there, declared("535"), folder("535.261.03")))


@pytest.mark.parametrize("whose", ["whole", "begun"])
def test_one_of_rigops_is_in_nobodys_way(whose: str) -> None:
    there = having(RIG, "535.261.03", whose)

    assert resolved(there, declared("535.261.03"), folder("535.261.03")).is_run_file
    assert not resolved(there, declared("535"), archive("bookworm")).is_run_file


def test_what_is_there_counts_as_an_offer_of_no_certain_source() -> None:
    there = having(RIG, "535.261.03")
    stays = Offers(installed_run_file(there))

    assert resolved(there, declared("535"), stays).places == ("installed here",)
    assert of_source(stays, "auto", there) == stays
    assert of_source(stays, "distribution", there).every == ()
    assert installed_run_file(having(RIG, "535.261.03", "begun")) == ()
    assert installed_run_file(there, "proprietary", "compute") == stays.every
    assert installed_run_file(there, "open") == ()
    assert installed_run_file(there, "auto", "desktop") == ()


def test_with_secure_boot_and_no_key_it_is_refused() -> None:
    locked = replace(with_cards(NOBLE, "3090"), secure_boot=True, has_key=False)

    assert "Secure Boot" in str(refused(locked, declared("535"), folder("535.261.03")))


def test_the_part_that_is_there_stays_until_another_is_declared() -> None:
    there = having(RIG, "535.261.03")
    assert there.run_file
    there = replace(there, run_file=replace(there.run_file, set_="desktop"))

    assert resolved(there, declared("535"), folder("535.261.03")).set_ == "desktop"
    request = replace(declared("535"), set_="compute")
    assert resolved(there, request, folder("535.261.03")).set_ == "compute"


def test_apt_is_to_install_no_driver_beside_it() -> None:
    found = resolved(RIG, declared("535"), folder("535.261.03"))
    text = pin.preferences(found)

    (names,) = (line for line in text.splitlines() if line.startswith("Package: "))
    assert {"libcuda1:any", "nvidia-driver:any", "src:nvidia-graphics-drivers*:any"} <= set(
        names.split()
    )
    assert "nvidia-container" not in text
    assert text.endswith("Pin: version *\nPin-Priority: -1\n")
    assert RUN_FILE not in text + pin.unattended(found)
    assert modprobe.kernel_module(found.packages) == "nvidia"
