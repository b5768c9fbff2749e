from __future__ import annotations

from dataclasses import replace

import pytest

from rigops.packages.apt_simulated import Room, Simulated
from rigops.packages.apt_simulated import parse as simulated_from
from rigops.packages.dpkg import DpkgState, Entry
from rigops.packages.dpkg import parse as state_from
from rigops.packages.request import (
    PackageRequest,
    blocker,
    not_to_be_configured,
    old_lists,
    unfinished,
)
from rigops.plan.change import Package
from tests.unit.packages.test_apt_simulated import fixture

EMPTY = DpkgState(manager="apt", architecture="amd64")
MB = 10**6


def why(name: str, *held: str, **install: str | None) -> str | None:
    request = PackageRequest({key.replace("_", "-"): version for key, version in install.items()})
    return blocker(request, EMPTY, simulated_from(fixture(name)), held)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("no-such-version", "apt knows no rigdemo 3.0 (nearest: 2.0, 10.0); sudo apt-get update"),
        ("no-such-package", "apt knows no package rigdemo-nowhere: is its source enabled?"),
        ("unmet", "apt cannot: rigdemo-needy: Depends: rigdemo-absent (>= 5)"),
        ("no-lists", "apt has no package lists here: sudo apt-get update"),
    ],
)
def test_a_refusal_is_said_with_what_helps(name: str, reason: str) -> None:
    assert (why(name) or "").startswith(reason)


def test_a_package_that_ends_in_a_plus_is_named_whole() -> None:
    said = Simulated(errors=("Unable to locate package g+",), has_lists=True)

    reason = blocker(PackageRequest({"g++": None}), EMPTY, said, ()) or ""

    assert reason.startswith("apt knows no package g++: ")


def test_packages_of_one_version_are_named_together() -> None:
    reason = why("driver-in-another-version") or ""

    assert "ask for nvidia-driver-libs=535.183.01-1, nvidia-driver-bin=535.183.01-1, " in reason


def test_a_hold_is_in_the_way_unless_it_may_be_broken() -> None:
    request = {"rigdemo": "1.0", "rigdemo_new": None}

    assert why("downgrade-and-rival", **request) == "rigdemo is held: sudo apt-mark unhold rigdemo"
    assert why("downgrade-and-rival", "rigdemo", **request) is None


def test_an_answer_that_is_not_the_request_is_no_success() -> None:
    assert why("nothing", dkms="9") == "apt would not bring dkms to 9"
    assert why("downgrade-and-rival", "rigdemo", rigdemo_rival=None) == (
        "apt would remove rigdemo-rival, which is to be installed"
    )
    unwanted = PackageRequest({"rigdemo-new": None}, remove=("rigdemo-lib",))
    found = simulated_from(fixture("downgrade-and-rival"))
    assert "rigdemo-lib is to be removed" in (blocker(unwanted, EMPTY, found, ["rigdemo"]) or "")


def test_nothing_readable_is_never_a_success() -> None:
    assert blocker(PackageRequest({}), EMPTY, Simulated(), []) == (
        "apt refused without an error message"
    )


def simulation(**room: Room) -> Simulated:
    return Simulated(
        done=True,
        steps=(Package("linux-image-6.1.0-50-amd64", None, "6.1.176-1"),),
        download=100 * MB,
        growth=400 * MB,
        room=room,
        boot_files={"initrd": 70 * MB, "vmlinuz": 10 * MB},
    )


def test_archives_and_what_they_become_are_counted_on_the_same_disk() -> None:
    full = simulation(archives=Room("/", 450 * MB), usr=Room("/", 450 * MB))
    fits = simulation(archives=Room("/var", 120 * MB), usr=Room("/", 450 * MB))

    assert blocker(PackageRequest({}), EMPTY, full, []) == (
        "/ has 450 MB free and this takes 500 MB: make room, for example with sudo apt-get clean"
    )
    assert blocker(PackageRequest({}), EMPTY, fits, []) is None


def test_a_new_kernel_needs_room_for_its_initrd_and_one_that_is_made_aside() -> None:
    assert blocker(PackageRequest({}), EMPTY, simulation(boot=Room("/boot", 149 * MB)), []) == (
        "/boot has 149 MB free and this takes 150 MB: make room, for example with "
        "sudo apt-get autoremove"
    )
    assert blocker(PackageRequest({}), EMPTY, simulation(boot=Room("/boot", 150 * MB)), []) is None


def test_a_disk_without_room_for_dpkg_itself_is_seen() -> None:
    found = replace(simulation(dpkg=Room("/var", 5 * MB)), growth=0, download=0)

    assert "/var has 5 MB free" in (blocker(PackageRequest({}), EMPTY, found, []) or "")


def test_what_dpkg_left_is_named_with_its_state() -> None:
    state = state_from(fixture("state-unpacked"))
    damaged = DpkgState(unfinished=(Entry("x", "all", "1", "H", must_be_reinstalled=True),))

    assert unfinished(state) == (
        "dpkg did not finish with rigdemo-lib (unpacked and not configured)"
    )
    assert not_to_be_configured(state) is None
    assert "sudo apt-get install --reinstall x" in (not_to_be_configured(damaged) or "")
    assert unfinished(state_from(fixture("state"))) == ""
    assert unfinished(DpkgState(interrupted=True)) == "dpkg was interrupted"


def test_old_lists_are_told_and_newer_ones_are_not() -> None:
    day = 24 * 3600

    assert old_lists(Simulated(lists_age_s=31 * day)) == (
        "apt's package lists are 31 days old: sudo apt-get update brings newer ones"
    )
    assert old_lists(Simulated(lists_age_s=30 * day)) is None
    assert old_lists(Simulated()) is None
