"""Which packages come with some of a driver, by their relations."""

from __future__ import annotations

import pytest

from rigops.concerns.nvidia_driver.resolver.resolution import closure
from tests.unit.concerns.nvidia_driver.resolver.archives import archive, offer, together

_V = "535.261.03"
_OLD = "535.261.03-1"
_NEW = "535.261.03-2"


def test_what_packages_ask_for_comes_in_the_version_of_the_driver() -> None:
    offers = together(
        offer("nvidia-smi", _OLD, "libnvidia-ml1 (>= 319), libc6 (>= 2.34)"),
        offer("libnvidia-ml1", _OLD),
        offer("libnvidia-ml1", "550.163.01-2"),
    )

    found = closure(["nvidia-smi"], _V, offers)

    assert {name: one.version for name, one in found.packages.items()} == {
        "nvidia-smi": _OLD,
        "libnvidia-ml1": _OLD,
    }
    assert found.is_complete


def test_packages_that_ask_for_each_other_come_to_an_end() -> None:
    offers = together(
        offer("libcuda1", _OLD, "nvidia-alternative"), offer("nvidia-alternative", _OLD, "libcuda1")
    )

    assert set(closure(["libcuda1"], _V, offers).packages) == {"libcuda1", "nvidia-alternative"}


def test_of_alternatives_the_one_that_is_wanted_anyway_is_enough() -> None:
    """Whatever comes first in the field, and whoever brings it."""
    offers = together(
        offer("nvidia-driver", _OLD, f"nvidia-kernel-dkms | nvidia-open-kernel-{_V}, nvidia-smi"),
        offer("nvidia-smi", _OLD, "nvidia-open-kernel-dkms"),
        offer("nvidia-kernel-dkms", _OLD),
        offer("nvidia-open-kernel-dkms", _OLD, provides=f"nvidia-open-kernel-{_V}"),
    )

    found = closure(["nvidia-driver"], _V, offers)

    assert "nvidia-kernel-dkms" not in found.packages


def test_of_alternatives_that_nobody_else_wants_the_first_comes() -> None:
    offers = together(
        offer("nvidia-driver", _OLD, "nvidia-kernel-dkms | nvidia-open-kernel-dkms"),
        offer("nvidia-kernel-dkms", _OLD),
        offer("nvidia-open-kernel-dkms", _OLD),
    )

    found = closure(["nvidia-driver"], _V, offers)

    assert set(found.packages) == {"nvidia-driver", "nvidia-kernel-dkms"}


def test_of_alternatives_the_one_of_this_version_comes() -> None:
    offers = together(
        offer("nvidia-smi", _OLD, "libnvidia-ml1 | libnvidia-tesla-535-ml1"),
        offer("libnvidia-ml1", "550.163.01-2"),
        offer("libnvidia-tesla-535-ml1", _OLD),
    )

    assert "libnvidia-tesla-535-ml1" in closure(["nvidia-smi"], _V, offers).packages


def test_where_apt_would_take_another_package_first_nothing_is_added() -> None:
    offers = together(
        offer("nvidia-opencl-icd", _OLD, "ocl-icd-libopencl1 | nvidia-libopencl1 | libopencl1"),
        offer("nvidia-libopencl1", _OLD, provides="libopencl1"),
    )

    found = closure(["nvidia-opencl-icd"], _V, offers)

    assert set(found.packages) == {"nvidia-opencl-icd"}
    assert found.is_complete


@pytest.mark.parametrize(
    ("asked", "provides"),
    [
        ("nvidia-kernel-support--v1", "nvidia-kernel-support--v1"),
        ("libnvidia-ml.so.1 (>= 319)", f"libnvidia-ml.so.1 (= {_V})"),
        (f"firmware-nvidia-gsp-x (= {_V})", f"firmware-nvidia-gsp-x (= {_V})"),
        (f"nvidia-alternative-{_V}", f"nvidia-alternative-{_V}, other"),
    ],
)
def test_a_package_that_provides_the_name_answers(asked: str, provides: str) -> None:
    offers = together(
        offer("nvidia-smi", _OLD, asked),
        offer("nvidia-kernel-support", _OLD, provides=provides),
        offer("nvidia-kernel-support", "550.163.01-2", provides=provides),
    )

    found = closure(["nvidia-smi"], _V, offers)

    assert found.packages["nvidia-kernel-support"].version == _OLD
    assert found.is_complete


def test_a_provided_version_that_is_another_one_answers_nothing() -> None:
    offers = together(
        offer("nvidia-smi", _OLD, "firmware-nvidia-gsp-x (= 550.163.01)"),
        offer("firmware-nvidia-gsp", _OLD, provides=f"firmware-nvidia-gsp-x (= {_V})"),
    )

    assert not closure(["nvidia-smi"], _V, offers).is_complete


def test_an_exact_version_is_taken_by_its_letter() -> None:
    offers = together(
        offer("nvidia-smi", _OLD, f"libnvidia-ml1 (= {_OLD})"),
        offer("libnvidia-ml1", _OLD),
        offer("libnvidia-ml1", _NEW),
    )

    assert closure(["nvidia-smi"], _V, offers).packages["libnvidia-ml1"].version == _OLD


@pytest.mark.parametrize(("build", "version"), [("", _NEW), (_OLD, _OLD), (_NEW, _NEW)])
def test_of_several_builds_the_preferred_one_is_taken_else_the_newest(
    build: str, version: str
) -> None:
    offers = together(offer("nvidia-smi", _OLD), offer("nvidia-smi", _NEW))

    assert closure(["nvidia-smi"], _V, offers, build).packages["nvidia-smi"].version == version


def test_a_package_that_leads_to_another_driver_is_told() -> None:
    offers = together(
        offer("nvidia-dkms-535", "535.309.01-0ubuntu2", "nvidia-dkms-580"),
        offer("nvidia-dkms-580", "580.178.04-0ubuntu1"),
    )

    found = closure(["nvidia-dkms-535"], "535.309.01", offers)

    assert found.elsewhere == ("nvidia-dkms-535 535.309.01-0ubuntu2 asks for nvidia-dkms-580",)
    assert not found.is_complete


def test_a_name_that_only_another_driver_provides_leads_there_too() -> None:
    offers = together(
        offer("nvidia-utils-535", "535.309.01-0ubuntu2", "libcuda.so.1 (>= 580) | libcuda-x"),
        offer("libnvidia-compute-580", "580.178.04-0ubuntu1", provides="libcuda.so.1 (= 580)"),
        offer("libnvidia-compute-570", "570.178.04-0ubuntu1", provides="libcuda-x"),
    )

    found = closure(["nvidia-utils-535"], "535.309.01", offers)

    assert found.elsewhere == (
        "nvidia-utils-535 535.309.01-0ubuntu2 asks for libcuda.so.1 (>= 580) or libcuda-x",
    )


def test_what_is_no_driver_is_left_to_apt() -> None:
    offers = together(
        offer("nvidia-smi", _OLD, "dkms, xorg-video-abi-25 | xorg-video-abi-24, nvidia-support"),
        offer("nvidia-support", "20220217+3"),
    )

    found = closure(["nvidia-smi"], _V, offers)

    assert set(found.packages) == {"nvidia-smi"}
    assert found.is_complete


def test_what_is_around_the_driver_is_there_beside_it_in_any_version() -> None:
    offers = together(
        offer("nvidia-persistenced", "550.163.01-1", "libnvidia-cfg1 | libnvidia-tesla-535-cfg1"),
        offer("libnvidia-cfg1", "550.163.01-2"),
        offer("libnvidia-tesla-535-cfg1", _OLD),
    )

    found = closure(["nvidia-persistenced"], _V, offers)

    assert found.also == ("nvidia-persistenced",)
    assert set(found.packages) == {"libnvidia-tesla-535-cfg1"}


def test_what_is_around_the_driver_may_ask_for_more_of_it() -> None:
    offers = together(
        offer("nvidia-smi", _OLD, "nvidia-support"),
        offer("nvidia-support", "20220217+3", "nvidia-alternative"),
        offer("nvidia-alternative", _OLD),
    )

    assert "nvidia-alternative" in closure(["nvidia-smi"], _V, offers).packages


def test_it_is_not_tied_even_where_it_has_the_same_version() -> None:
    offers = together(offer("nvidia-persistenced", _OLD))

    found = closure(["nvidia-persistenced"], _V, offers)

    assert (found.also, found.packages) == (("nvidia-persistenced",), {})


@pytest.mark.parametrize("name", ["libcuda1", "nvidia-persistenced"])
def test_what_nobody_offers_is_missing(name: str) -> None:
    assert closure([name], _V, together()).missing == (name,)


def test_a_package_of_another_version_only_is_missing() -> None:
    offers = together(offer("libcuda1", "550.163.01-2"))

    assert closure(["libcuda1"], _V, offers).missing == ("libcuda1",)


def test_what_all_drivers_share_may_be_of_another_version() -> None:
    offers = together(
        offer("nvidia-tesla-535-egl-icd", _OLD, "nvidia-egl-common"),
        offer("nvidia-egl-common", "550.163.01-2"),
    )

    found = closure(["nvidia-tesla-535-egl-icd"], _V, offers)

    assert found.packages["nvidia-egl-common"].version == "550.163.01-2"
    assert found.is_complete


def test_every_real_driver_is_whole_and_every_empty_package_is_not() -> None:
    offers = archive("bookworm", "bookworm-security", "noble", "noble-updates", "jammy-updates")
    whole = {
        one.name: closure([one.name], str(one.upstream), offers, one.version).is_complete
        for one in offers.every
        if one.name.startswith("nvidia-dkms-") and one.name != "nvidia-dkms-550-open"
    }

    names = "470 470-server 545 545-open 580 580-open 580-server 580-server-open 595 595-open"
    real = {f"nvidia-dkms-{name}" for name in names.split()}
    assert {name for name, is_complete in whole.items() if is_complete} == real
