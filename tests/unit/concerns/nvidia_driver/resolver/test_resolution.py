"""What a resolution holds: every package, what has to go, and what to know."""

from __future__ import annotations

import ast
import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from rigops.concerns.nvidia_driver.resolver.machine import Kernel
from rigops.inventory.spec.driver import driver_source
from rigops.packages.sources import deb822
from tests.unit.concerns.nvidia_driver.resolver.archives import archive, offer, together
from tests.unit.concerns.nvidia_driver.resolver.machines import (
    BOOKWORM,
    JAMMY,
    NOBLE,
    TRIXIE,
    declared,
    refused,
    resolved,
    with_cards,
)

if TYPE_CHECKING:
    from rigops.concerns.nvidia_driver.resolver.machine import Machine
    from rigops.inventory.spec.model import Flavor

_COMPUTE = (
    "firmware-nvidia-gsp libcuda1 libnvidia-cfg1 libnvidia-ml1 libnvidia-pkcs11-openssl3 "
    "libnvidia-ptxjitcompiler1 nvidia-alternative nvidia-kernel-dkms nvidia-kernel-support "
    "nvidia-legacy-check nvidia-smi"
)
_DESKTOP = (
    "libegl-nvidia0 libgl1-nvidia-glvnd-glx libglx-nvidia0 libnvidia-eglcore libnvidia-glcore "
    "libnvidia-glvkspirv nvidia-driver nvidia-driver-bin nvidia-driver-libs nvidia-egl-common "
    "nvidia-egl-icd nvidia-vdpau-driver xserver-xorg-video-nvidia"
)
_NOBLE = (
    "libnvidia-cfg1-535 libnvidia-compute-535 nvidia-compute-utils-535 nvidia-dkms-535 "
    "nvidia-firmware-535-535.171.04 nvidia-headless-535 nvidia-headless-no-dkms-535 "
    "nvidia-kernel-common-535 nvidia-kernel-source-535 nvidia-utils-535"
)

_RIG = with_cards(BOOKWORM, "3090", "3090", "3090")
_UBUNTU = with_cards(NOBLE, "3090")


def _names(text: str) -> set[str]:
    return set(text.split())


def test_the_compute_set_of_debian_is_named_to_the_last_package() -> None:
    found = resolved(_RIG, declared("535"), archive("bookworm"))

    assert found.packages == dict.fromkeys(sorted(_names(_COMPUTE)), "535.261.03-1")
    assert found.asked == ("nvidia-kernel-dkms", "nvidia-smi", "libcuda1", "libnvidia-ml1")
    assert found.also == ("nvidia-persistenced",)
    assert found.sources == {"nvidia-graphics-drivers": ("535.261.03-1",)}
    assert found.places == ("bookworm/non-free", "bookworm/non-free-firmware")
    assert found.remove == ()


def test_tools_that_come_and_tools_that_are_there_have_no_version_of_a_newer_branch() -> None:
    there = {"nvidia-persistenced": "545.29.06-1", "nvidia-xconfig": "545.29.06-1"}

    found = resolved(replace(_RIG, tools=there), declared("535"), archive("bookworm"))

    assert found.beside == {
        "nvidia-modprobe": "535.161.07-1~deb12u1",  # nvidia-kernel-support needs it
        "nvidia-persistenced": "535.171.04-1~deb12u1",
        "nvidia-xconfig": "545.29.06-1",  # none is offered: it stays
    }
    assert {*found.beside, *found.packages} == found.by_apt.keys()


def test_a_tool_stays_with_the_driver_and_moves_with_it() -> None:
    has = archive("bookworm", "bookworm-security")
    packages = resolved(_RIG, declared("535"), has).packages
    there = {"nvidia-modprobe": "535.161.07-1~deb12u1"}
    rig = replace(_RIG, tools=there)
    newest = {"nvidia-modprobe": "535.309.01-0+deb12u1"}

    stays = resolved(replace(rig, installed=packages), declared("535"), has)
    asked = replace(declared("535"), upgrade=True)
    upgraded = resolved(replace(rig, installed=packages), asked, has)

    assert stays.packages == packages
    assert there.items() <= stays.beside.items()
    assert newest.items() <= upgraded.beside.items()
    assert newest.items() <= resolved(rig, declared("535"), has).beside.items()


def test_of_tools_in_the_version_of_the_driver_that_one_comes() -> None:
    has = together(
        *archive("bookworm").every,
        offer("nvidia-persistenced", "535.261.03-1"),
        offer("nvidia-persistenced", "535.309.01-1"),
    )

    assert resolved(_RIG, declared("535"), has).beside["nvidia-persistenced"] == "535.261.03-1"


def test_where_only_tools_of_newer_branches_are_offered_the_oldest_comes() -> None:
    found = resolved(with_cards(TRIXIE, "3090"), declared("535"), archive("trixie"))

    assert found.beside["nvidia-modprobe"] == "570.133.07-1"


def test_the_desktop_set_of_debian_is_named_to_the_last_package() -> None:
    request = replace(declared("535"), set_="desktop")

    found = resolved(_RIG, request, archive("bookworm"))

    assert set(found.packages) == _names(_COMPUTE) | _names(_DESKTOP)


def test_a_desktop_with_open_modules_gets_no_proprietary_ones_beside_them() -> None:
    request = replace(declared("535"), set_="desktop", flavor="open")

    found = resolved(_RIG, request, archive("bookworm"))

    assert "nvidia-open-kernel-dkms" in found.packages
    assert not {"nvidia-kernel-dkms", "nvidia-kernel-support"} & set(found.packages)
    assert found.sources["nvidia-open-gpu-kernel-modules"] == ("535.261.03-1",)


def test_the_compute_set_of_ubuntu_is_named_to_the_last_package() -> None:
    found = resolved(_UBUNTU, declared("535"), archive("noble", "noble-updates"))

    assert found.packages == dict.fromkeys(sorted(_names(_NOBLE)), "535.171.04-0ubuntu2")
    assert found.sources == {"nvidia-graphics-drivers-535": ("535.171.04-0ubuntu2",)}
    assert found.places == ("noble/restricted",)


def test_the_older_driver_of_trixie_brings_no_library_of_the_newer_one() -> None:
    """nvidia-persistenced alone would be content with, and bring, that of 550."""
    machine = with_cards(TRIXIE, "3090")

    found = resolved(machine, declared("535"), archive("trixie"))

    assert found.packages["libnvidia-tesla-535-cfg1"] == "535.274.02-1~deb13u1"
    assert set(found.packages.values()) == {"535.274.02-1~deb13u1"}


def test_what_drivers_share_is_pinned_in_the_version_that_there_is() -> None:
    machine = with_cards(TRIXIE, "3090")
    request = replace(declared("535"), set_="desktop")

    found = resolved(machine, request, archive("trixie"))

    assert found.packages["nvidia-egl-common"] == "550.163.01-2"
    assert set(found.packages.values()) == {"535.274.02-1~deb13u1", "550.163.01-2"}
    assert list(found.sources) == ["nvidia-graphics-drivers-tesla-535"]


@pytest.mark.parametrize("meta", ["nvidia-driver", "nvidia-tesla-535-driver", "nvidia-driver-550"])
def test_an_installed_desktop_stays_one(meta: str) -> None:
    machine = replace(_RIG, installed={meta: "535.261.03-1"})

    found = resolved(machine, declared("535"), archive("bookworm"))

    assert "xserver-xorg-video-nvidia" in found.packages


def test_a_declared_set_counts_for_more_than_the_installed_one() -> None:
    machine = replace(_UBUNTU, installed={"nvidia-driver-550": "550.163.01-0ubuntu0.24.04.1"})
    request = replace(declared("535"), set_="compute")

    found = resolved(machine, request, archive("noble", "noble-updates"))

    assert "nvidia-driver-535" not in found.packages


def test_what_else_is_installed_of_the_driver_comes_along() -> None:
    names = (*_names(_COMPUTE), "libnvcuvid1", "libnvidia-encode1", "nvidia-cuda-mps")
    machine = replace(_RIG, installed=dict.fromkeys(names, "535.261.03-1"))

    found = resolved(machine, declared("535.309.01"), archive("bookworm", "bookworm-security"))

    assert set(found.packages) == set(names)
    assert set(found.packages.values()) == {"535.309.01-0+deb12u1"}
    assert found.remove == ()


def test_a_downgrade_names_what_the_older_driver_does_not_have() -> None:
    names = (*_names(_COMPUTE), "libnvidia-gpucomp")
    machine = replace(_RIG, installed=dict.fromkeys(names, "550.163.01-2"))

    found = resolved(machine, declared("535.261.03"), archive("bookworm", "trixie"))

    assert found.packages["libcuda1"] == "535.261.03-1"
    assert found.remove == ("libnvidia-gpucomp",)


def test_another_branch_of_ubuntu_replaces_every_package_and_keeps_the_encoder() -> None:
    installed = dict.fromkeys([*_names(_NOBLE), "libnvidia-encode-535"], "535.171.04-0ubuntu2")
    machine = replace(_UBUNTU, installed=installed, flavor="proprietary")

    found = resolved(machine, declared("580"), archive("noble", "noble-updates"))

    assert set(found.remove) == set(installed)
    assert "nvidia-dkms-580" in found.packages
    assert {"libnvidia-encode-580", "libnvidia-decode-580"} <= set(found.packages)


@pytest.mark.parametrize(
    ("wanted", "before", "after"),
    [
        ("open", "nvidia-kernel-dkms", "nvidia-open-kernel-dkms"),
        ("proprietary", "nvidia-open-kernel-dkms", "nvidia-kernel-dkms"),
    ],
)
def test_another_flavor_takes_the_other_modules_away(
    wanted: Flavor, before: str, after: str
) -> None:
    support = before.replace("dkms", "support")
    names = (before, support, "libcuda1", "nvidia-smi", "nvidia-driver")
    machine = replace(_RIG, installed=dict.fromkeys(names, "535.261.03-1"))

    found = resolved(machine, replace(declared("535"), flavor=wanted), archive("bookworm"))

    assert after in found.packages
    assert set(found.remove) == {before, support}


def test_another_flavor_of_ubuntu_takes_the_other_metapackages_away_too() -> None:
    names = ("nvidia-driver-535", "nvidia-dkms-535", "nvidia-kernel-source-535", "nvidia-utils-535")
    machine = replace(_UBUNTU, installed=dict.fromkeys(names, "535.171.04-0ubuntu2"))
    request = replace(declared("535"), flavor="open")

    found = resolved(machine, request, archive("noble"))

    assert found.remove == ("nvidia-dkms-535", "nvidia-driver-535", "nvidia-kernel-source-535")
    assert "nvidia-driver-535-open" in found.packages


def test_modules_that_the_distribution_built_give_way_to_those_built_here() -> None:
    prebuilt = {
        "linux-modules-nvidia-535-generic": "6.8.0-31.31",
        "linux-modules-nvidia-535-6.8.0-31-generic": "6.8.0-31.31",
        "linux-objects-nvidia-535-6.8.0-31-generic": "6.8.0-31.31",
    }
    machine = replace(_UBUNTU, installed=prebuilt)

    found = resolved(machine, declared("535"), archive("noble"))

    assert set(found.remove) == set(prebuilt)


def test_what_only_has_the_name_in_common_stays_and_does_not_hide_the_version() -> None:
    installed = {
        **dict.fromkeys(_names(_COMPUTE), "535.261.03-1"),
        "nvidia-cg-toolkit": "3.1.0013-5",
        "nvidia-legacy-check": "550.163.01-2",
    }
    machine = replace(_RIG, installed=installed)

    found = resolved(machine, declared("535"), archive("bookworm", "bookworm-security"))

    assert found.version == "535.261.03"
    assert found.why == "it is installed"
    assert found.remove == ()


def test_a_real_build_is_taken_although_a_newer_one_of_its_version_is_empty() -> None:
    real, empty = "535.309.01-0ubuntu0.22.04.1", "535.309.01-0ubuntu0.22.04.2"
    names = ("nvidia-dkms-535", "nvidia-utils-535", "libnvidia-compute-535")
    made = [
        offer("nvidia-headless-535", real, "nvidia-dkms-535, libnvidia-compute-535"),
        *(offer(name, real) for name in names),
        *(offer(name, empty, name.replace("535", "580")) for name in names),
        offer("nvidia-headless-535", empty, "nvidia-headless-580"),
    ]

    found = resolved(with_cards(JAMMY, "3090"), declared("535"), together(*made))

    assert set(found.packages.values()) == {real}


def test_of_two_real_builds_the_newer_one_is_taken() -> None:
    names = ("nvidia-kernel-dkms", "nvidia-smi", "libcuda1", "libnvidia-ml1", "nvidia-persistenced")
    builds = ("535.261.03-1", "535.261.03-1+deb12u1")
    offers = together(*(offer(name, build) for name in names for build in builds))

    assert set(resolved(_RIG, declared("535"), offers).packages.values()) == {builds[1]}


def test_what_another_driver_would_have_to_come_for_goes() -> None:
    """The whole of Tesla's driver asks for programs that trixie has of 550 only."""
    machine = replace(
        with_cards(TRIXIE, "3090"),
        installed={"nvidia-tesla-535-driver-full": "535.274.02-1~deb13u1"},
    )

    found = resolved(machine, declared("535"), archive("trixie"))

    assert found.remove == ("nvidia-tesla-535-driver-full",)
    assert set(found.packages.values()) == {"535.274.02-1~deb13u1"}


def test_of_empty_builds_the_one_that_apt_would_take_is_named() -> None:
    offers = together(
        offer("nvidia-dkms-535", "535.309.01-0ubuntu0.22.04.2", "nvidia-dkms-580"),
        offer("nvidia-dkms-535", "535.309.01-0ubuntu0.22.04.3", "nvidia-dkms-595"),
    )

    found = refused(with_cards(JAMMY, "3090"), declared("535"), offers)

    assert "nvidia-dkms-535 535.309.01-0ubuntu0.22.04.3 is empty" in found.reason


def test_the_builds_for_servers_are_not_preferred() -> None:
    found = resolved(_UBUNTU, declared("580"), archive("noble-updates"))

    assert "nvidia-dkms-580-open" in found.packages


def test_headers_of_a_kernel_that_can_boot_are_installed_with_the_driver() -> None:
    kernels = (Kernel("6.1.0-50-amd64", has_headers=False), Kernel("6.1.0-47-amd64"))
    machine = replace(_RIG, kernels=kernels)
    headers = offer("linux-headers-6.1.0-50-amd64", "6.1.176-1")

    found = resolved(machine, declared("535"), together(*archive("bookworm").every, headers))

    assert found.also == ("nvidia-persistenced", "linux-headers-6.1.0-50-amd64")
    assert not [note for note in found.notes if "headers" in note]


def test_headers_that_no_source_has_are_told() -> None:
    kernels = (Kernel("6.1.0-50-amd64"), Kernel("6.1.0-47-amd64", has_headers=False))
    machine = replace(_RIG, kernels=kernels)

    found = resolved(machine, declared("535"), archive("bookworm"))

    assert found.also == ("nvidia-persistenced",)
    assert (
        "no source has linux-headers-6.1.0-47-amd64: no module is built for that kernel, and "
        "with it the machine would boot without its cards"
    ) in found.notes


@pytest.mark.parametrize(
    "kernel",
    [Kernel("6.18.3-amd64", around=True), Kernel("6.18.3-amd64", built=("535.261.03",))],
    ids=["a container's", "built for already"],
)
def test_a_newer_kernel_does_not_matter_where_it_cannot(kernel: Kernel) -> None:
    machine = replace(_RIG, kernels=(kernel,))

    assert resolved(machine, declared("535"), archive("bookworm")).version == "535.261.03"


def test_a_build_of_another_version_proves_nothing() -> None:
    machine = replace(_RIG, kernels=(Kernel("6.18.3-amd64", built=("550.163.01",)),))

    assert (
        "6.18.3-amd64 could boot next"
        in refused(machine, declared("535"), archive("bookworm")).reason
    )


def test_a_card_that_the_catalog_lacks_is_told_and_nothing_more() -> None:
    machine = with_cards(BOOKWORM, "10de:ffff")

    found = resolved(machine, declared("535"), archive("bookworm"))

    assert found.notes[0] == (
        "the catalog lacks the card at 0000:01:00.0 (10de:ffff): not checked whether this "
        "driver supports it"
    )


def test_a_machine_without_cards_is_told_so() -> None:
    found = resolved(BOOKWORM, declared("535"), archive("bookworm"))

    assert found.notes[0].startswith("no NVIDIA card found")


def test_the_end_of_a_branch_and_cautions_are_told() -> None:
    found = resolved(with_cards(TRIXIE, "3090"), declared("550"), archive("trixie"))

    assert found.notes[0].startswith("driver 550.163.01: End of life")
    assert found.notes[1] == "branch 550 gets no fixes"
    assert resolved(_RIG, declared("535"), archive("bookworm")).notes == (
        "branch 535 gets no fixes after 2026-06",
    )


@pytest.mark.parametrize(
    ("machine", "more", "why"),
    [
        (_RIG, {}, "newest known-good version that matches the declaration"),
        (_RIG, {"locked": "535.261.03"}, "it was proven on this machine"),
        (replace(_RIG, installed={"libcuda1": "535.261.03-1"}), {}, "it is installed"),
    ],
)
def test_why_a_version_was_taken_is_told(machine: Machine, more: dict[str, Any], why: str) -> None:
    request = replace(declared("535"), **more)

    assert resolved(machine, request, archive("bookworm")).why == why


@pytest.mark.parametrize(
    ("machine", "suite", "said"),
    [
        (replace(NOBLE, suites=("noble-updates",)), "noble-updates", "noble"),
        (JAMMY, "jammy-updates", "jammy-updates"),
    ],
)
def test_the_source_that_a_refusal_names_can_be_declared(
    machine: Machine, suite: str, said: str
) -> None:
    found = refused(with_cards(machine, "3090"), declared("535"), archive(suite))

    shape = re.search(r'"driver_source": (\{.*\}), which brings', found.fix)
    assert shape, found.fix
    text = shape[1].replace("<your snapshot service>", "https://snapshot.example/ubuntu")
    source = driver_source(ast.literal_eval(text))
    assert f"Suites: {said}\n" in deb822(source.fields)


def test_only_parts_of_a_driver_are_told_by_name() -> None:
    every = [one for one in archive("bookworm").every if one.name != "libcuda1"]

    found = refused(_RIG, declared("535.261.03"), together(*every))

    assert "have only parts of driver 535.261.03: libcuda1 is missing" in found.reason
    assert "contrib, non-free and non-free-firmware" in found.fix


def test_a_release_that_the_catalog_lacks_is_taken_where_it_is_offered() -> None:
    """Nobody lists every release: a source that has it is proof enough."""
    made = [
        offer("nvidia-kernel-dkms", "535.104.12-1"),
        *(offer(name, "535.104.12-1") for name in ("nvidia-smi", "libcuda1", "libnvidia-ml1")),
        offer("nvidia-persistenced", "535.104.12-1"),
    ]

    assert resolved(_RIG, declared("535.104.12"), together(*made)).version == "535.104.12"
