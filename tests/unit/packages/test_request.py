from __future__ import annotations

import pytest

from rigops.packages.dpkg import DpkgState, Entry
from rigops.packages.request import PackageRequest


def state(*entries: Entry) -> DpkgState:
    return DpkgState(manager="apt", architecture="amd64", entries=entries)


HAS_ONE = state(Entry("a", "amd64", "1.0", "i"))


@pytest.mark.parametrize(
    ("wanted", "met"),
    [
        (PackageRequest({"a": None}), True),
        (PackageRequest({"a": "1.0"}), True),
        (PackageRequest({"a": "2.0"}), False),
        (PackageRequest({"b": None}), False),
        (PackageRequest({}, ("b",)), True),
        (PackageRequest({}, ("a",)), False),
    ],
)
def test_a_request_is_met_when_names_and_versions_are_there(
    wanted: PackageRequest, *, met: bool
) -> None:
    assert wanted.is_met_by(HAS_ONE) is met


def test_a_package_that_was_only_unpacked_does_not_meet_it() -> None:
    assert not PackageRequest({"a": None}).is_met_by(state(Entry("a", "amd64", "1.0", "U")))


def test_what_is_installed_is_asked_for_as_it_is_and_absent_removals_are_left_out() -> None:
    request = PackageRequest({"a": None, "b": None, "c": "3"}, remove=("d",))

    assert request.words(HAS_ONE) == ("a=1.0", "b", "c=3")
    assert PackageRequest({"b": None}, ("a",)).words(HAS_ONE) == ("b", "a-")


@pytest.mark.parametrize(
    "wanted",
    [
        PackageRequest({"a": None}, ("a",)),
        PackageRequest({"nvidia-.*": None}),
        PackageRequest({"a-": None}),
        PackageRequest({"-o=x": None}),
        PackageRequest({"a": "1/stable"}),
        PackageRequest({"a": ""}),
        PackageRequest({}, ("task^",)),
    ],
)
def test_what_apt_would_take_for_something_else_is_a_fault(wanted: PackageRequest) -> None:
    assert wanted.fault


def test_ordinary_names_and_versions_are_no_fault() -> None:
    request = PackageRequest(
        {"g++": None, "libc6:i386": "2:2.36-9+deb12u1~x", "linux-image-6.1.0-50-amd64": "6"}
    )

    assert request.fault is None
