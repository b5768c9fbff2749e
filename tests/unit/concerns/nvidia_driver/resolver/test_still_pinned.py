"""A driver that was resolved before stays, as long as it would still be the answer."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from rigops.catalog import load
from rigops.concerns.nvidia_driver.record import PinnedDriver
from rigops.concerns.nvidia_driver.resolver.answer import not_installed, still_pinned
from rigops.concerns.nvidia_driver.resolver.driver_facts import DriverFacts
from rigops.concerns.nvidia_driver.resolver.machine import Kernel, Machine
from rigops.concerns.nvidia_driver.resolver.request import Blocker, Resolution, identity
from rigops.concerns.registry import read
from rigops.probe.package_names import RUN_FILE
from rigops.probe.sections.packages import Packages
from tests.unit.concerns.nvidia_driver.resolver.machines import NOBLE, declared, with_cards

_KERNEL = "6.8.0-31-generic"
_SPEC = read({"driver": "535"})
_PACKAGES = {"nvidia-headless-535": "535.171.04-0ubuntu2"}
_MACHINE = replace(with_cards(NOBLE, "3090"), kernels=(Kernel(_KERNEL),), installed=dict(_PACKAGES))


def _answer(machine: Machine, **pinned: Any) -> Resolution | Blocker | None:
    record = PinnedDriver(
        **{
            "version": "535.171.04",
            "flavor": "proprietary",
            "declared": identity(_SPEC),
            "packages": _PACKAGES,
            **pinned,
        }
    )
    facts = DriverFacts(machine=machine, catalog=load(), spec=_SPEC)
    return still_pinned(record, facts, declared("535"))


def test_what_is_installed_as_it_was_resolved_stays() -> None:
    found = _answer(_MACHINE)

    assert isinstance(found, Resolution)
    assert (found.version, found.packages) == ("535.171.04", _PACKAGES)


def test_where_a_package_is_another_it_is_resolved_anew() -> None:
    other = {"nvidia-headless-535": "535.309.01-0ubuntu1"}

    assert _answer(replace(_MACHINE, installed=other)) is None


def test_once_a_kernel_is_there_that_its_modules_do_not_build_for_it_is_resolved_anew() -> None:
    newer = Kernel("6.1.0-53-amd64", version="6.1.187-1")
    opened = replace(with_cards(NOBLE, "3090"), kernels=(newer,), installed=dict(_PACKAGES))
    built = replace(newer, built=("535.171.04",))

    assert _answer(opened, flavor="open") is None
    assert isinstance(_answer(opened), Resolution)
    assert isinstance(_answer(replace(opened, kernels=(built,)), flavor="open"), Resolution)


def test_with_a_card_that_it_does_not_drive_it_is_refused() -> None:
    assert isinstance(_answer(with_cards(_MACHINE, "3090", "RTX 5090")), Blocker)


def test_modules_built_here_are_refused_once_secure_boot_is_on_without_their_key() -> None:
    found = _answer(replace(_MACHINE, secure_boot=True, has_key=False))

    assert isinstance(found, Blocker)
    assert "Secure Boot is on" in found.reason
    assert isinstance(_answer(replace(_MACHINE, secure_boot=True, has_key=True)), Resolution)


def test_modules_of_the_distribution_stay_for_their_kernels_only() -> None:
    signed = replace(_MACHINE, secure_boot=True, has_key=False)

    assert isinstance(_answer(signed, prebuilt=(_KERNEL,)), Resolution)
    newer = replace(signed, kernels=(Kernel(_KERNEL), Kernel("6.8.0-151-generic")))
    assert _answer(newer, prebuilt=(_KERNEL,)) is None


def test_apt_has_no_package_of_a_run_file_to_install() -> None:
    assert not_installed((RUN_FILE, "dkms"), Packages()) == ("dkms",)


def test_headers_go_with_their_kernel_and_stay_where_no_kernel_is_known() -> None:
    also = ("dkms", f"linux-headers-{_KERNEL}", "linux-headers-6.8.0-30-generic")

    known, unknown = (
        _answer(replace(_MACHINE, kernels=kernels), also=also)
        for kernels in ((Kernel(_KERNEL.upper()),), ())
    )

    assert isinstance(known, Resolution)
    assert isinstance(unknown, Resolution)
    assert (known.also, unknown.also) == (also[:2], also)


def test_a_tool_in_another_version_than_the_pinned_one_is_resolved_anew() -> None:
    tools = {"nvidia-persistenced": "535.171.04-1"}

    assert isinstance(_answer(replace(_MACHINE, tools=tools), beside=tools), Resolution)
    for other in ({"nvidia-persistenced": "535.261.03-1"}, {}):
        assert _answer(replace(_MACHINE, tools=other), beside=tools) is None


def test_a_tool_that_only_has_newer_versions_stays_in_the_pinned_one() -> None:
    tools = {"nvidia-modprobe": "570.133.07-1"}

    assert isinstance(_answer(replace(_MACHINE, tools=tools), beside=tools), Resolution)


def test_tools_that_the_record_does_not_name_are_pinned_as_they_are() -> None:
    tools = {"nvidia-modprobe": "535.309.01-1", "nvidia-settings": "510.47.03-1"}

    found = _answer(replace(_MACHINE, tools=tools))

    assert isinstance(found, Resolution)
    assert found.by_apt == {**_PACKAGES, **tools}


def test_a_tool_of_a_newer_branch_that_the_record_does_not_name_is_resolved() -> None:
    assert _answer(replace(_MACHINE, tools={"nvidia-persistenced": "545.29.06-1"})) is None
