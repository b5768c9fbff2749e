"""Which packages of an archive are drivers, and of what kind."""

from __future__ import annotations

import pytest

from rigops.concerns.nvidia_driver.resolver.candidates import candidates
from tests.unit.concerns.nvidia_driver.resolver.archives import archive, offer, together


def _kinds(*suites: str) -> set[tuple[str, str, str]]:
    return {(one.version, one.flavor, one.kernel.name) for one in candidates(archive(*suites))}


def test_debian_has_its_own_its_open_and_its_tesla_drivers() -> None:
    assert _kinds("bookworm") == {
        ("535.261.03", "proprietary", "nvidia-kernel-dkms"),
        ("535.261.03", "open", "nvidia-open-kernel-dkms"),
        ("535.216.03", "proprietary", "nvidia-tesla-535-kernel-dkms"),
        ("470.256.02", "proprietary", "nvidia-tesla-470-kernel-dkms"),
    }


def test_ubuntu_has_both_flavors_and_those_for_servers() -> None:
    assert _kinds("noble") >= {
        ("535.171.04", "proprietary", "nvidia-dkms-535"),
        ("535.171.04", "open", "nvidia-dkms-535-open"),
        ("535.161.08", "proprietary", "nvidia-dkms-535-server"),
        ("535.161.08", "open", "nvidia-dkms-535-server-open"),
    }


@pytest.mark.parametrize(
    "name", ["nvidia-dkms-530", "nvidia-dkms-530-open", "nvidia-tesla-470-kernel-dkms"]
)
def test_a_name_of_another_branch_than_its_version_is_no_driver(name: str) -> None:
    assert candidates(together(offer(name, "535.171.04-0ubuntu2"))) == ()


@pytest.mark.parametrize("name", ["nvidia-driver", "nvidia-headless-535", "nvidia-dkms-any"])
def test_what_builds_no_modules_is_no_driver_of_its_own(name: str) -> None:
    assert candidates(together(offer(name, "535.171.04-0ubuntu2"))) == ()


@pytest.mark.parametrize(
    ("name", "compute", "desktop"),
    [
        ("nvidia-dkms-580", "nvidia-headless-580", "nvidia-driver-580"),
        ("nvidia-dkms-580-open", "nvidia-headless-580-open", "nvidia-driver-580-open"),
        ("nvidia-dkms-580-server", "nvidia-headless-580-server", "nvidia-driver-580-server"),
        (
            "nvidia-dkms-580-server-open",
            "nvidia-headless-580-server-open",
            "nvidia-driver-580-server-open",
        ),
    ],
)
def test_the_sets_of_ubuntu_have_the_flavor_in_their_names(
    name: str, compute: str, desktop: str
) -> None:
    (found,) = candidates(together(offer(name, "580.178.04-0ubuntu1")))

    assert compute in found.names("compute")
    assert desktop in found.names("desktop")
    assert desktop not in found.names("compute")
    assert any(one.startswith("nvidia-utils-580") for one in found.names("compute"))
    assert found.is_server == ("server" in name)


@pytest.mark.parametrize(
    ("name", "flavor"),
    [("nvidia-kernel-dkms", "proprietary"), ("nvidia-kernel-open-dkms", "open")],
)
def test_nvidias_packages_for_debian_are_known_by_the_one_that_debian_has_not(
    name: str, flavor: str
) -> None:
    version = "595.45.04-1"
    (found,) = candidates(together(offer(name, version), offer("nvidia-driver-cuda", version)))

    assert (found.version, found.flavor) == ("595.45.04", flavor)
    assert {name, "nvidia-driver-cuda", "libcuda1", "libnvidia-ml1"} <= set(found.compute)
    assert "nvidia-smi" not in found.desktop  # it conflicts
    assert "nvidia-driver" in found.desktop
    assert "nvidia-driver" not in found.compute


def test_the_open_modules_alone_are_no_driver_whose_module_could_be_named() -> None:
    assert candidates(together(offer("nvidia-kernel-open-dkms", "550.54.14-1"))) == ()


@pytest.mark.parametrize(("open_", "flavor"), [("", "proprietary"), ("-open", "open")])
def test_nvidias_packages_for_ubuntu_have_no_branch_in_their_names(open_: str, flavor: str) -> None:
    version, newer = "595.71.05-1ubuntu1", "615.71.09-1ubuntu1"
    names = (f"nvidia-dkms{open_}", "libnvidia-compute", "nvidia-kernel-common")
    older, newest = candidates(
        together(
            *(offer(name, its) for name in names for its in (version, newer)),
            offer(f"nvidia-headless{open_}", newer),
        )
    )

    assert (older.version, newest.version) == ("595.71.05", "615.71.09")
    assert older.flavor == flavor
    assert older.compute == names
    assert newest.compute == (f"nvidia-headless{open_}", *names)
    assert f"nvidia-driver{open_}" in newest.desktop
