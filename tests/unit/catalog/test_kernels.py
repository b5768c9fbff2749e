"""Up to which kernel a release is known to build."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from rigops.catalog import find_branch, load
from rigops.catalog.kernels import broken_from, newest_kernel
from rigops.errors import UsageError
from tests.unit.catalog.entries import DRIVER, EVIDENCE, KERNEL_CHANGE, changed, write

if TYPE_CHECKING:
    from pathlib import Path

    from rigops.catalog.model import ModuleFlavor

_CEILING = "{{ versions = '{versions}', newest = '{newest}', {evidence} }}"


def _kernels(*pairs: tuple[str, str]) -> str:
    rows = (_CEILING.format(versions=one, newest=two, evidence=EVIDENCE) for one, two in pairs)
    return f"[{', '.join(rows)}]"


@pytest.mark.parametrize(
    ("version", "kernel"),
    [
        ("535.54.03", "6.7"),
        ("535.104.05", "6.7"),
        ("535.154.05", "6.7"),
        ("535.161.07", "6.8"),
        ("535.171.04", "6.8"),
        ("535.183.06", "6.10"),
        ("535.216.03", "6.14"),
        ("535.247.01", "6.15"),
        ("535.309.01", "6.16"),
        ("545.29.06", "6.7"),
        ("550.67", "6.9"),
        ("470.256.02", "6.8"),
        ("580.178.04", "7.2"),
        ("570.211.01", ""),
        ("590.48.01", "6.18"),
    ],
)
def test_a_release_has_its_own_ceiling(version: str, kernel: str) -> None:
    branch = find_branch(load(), version[:3])

    assert branch
    assert newest_kernel(branch, version) == kernel


def test_every_ceiling_of_the_catalog_is_the_first_for_some_release() -> None:
    for branch in load().drivers:
        reached = {newest_kernel(branch, one.version) for one in branch.releases}
        assert {one.newest for one in branch.kernels} <= reached


def test_newer_releases_build_for_no_older_kernels() -> None:
    for branch in load().drivers:
        series = [
            tuple(map(int, found.split(".")))
            for one in branch.releases
            if (found := newest_kernel(branch, one.version))
        ]
        assert series == sorted(series), branch.branch


def test_a_users_ceilings_come_before_those_of_the_catalog(tmp_path: Path) -> None:
    text = f'[[drivers]]\nbranch = "535"\nkernels = {_kernels(("==535.171.04", "6.14"))}\n'

    branch = find_branch(load(write(tmp_path, text)), "535")

    assert branch
    assert newest_kernel(branch, "535.171.04") == "6.14"
    assert newest_kernel(branch, "535.154.05") == "6.7"


@pytest.mark.parametrize(
    ("pair", "message"),
    [
        (("535", "6.8"), "kernels[0].versions is not a version specifier"),
        (("", "six"), "kernels[0].newest is not a kernel series"),
        (("", "6.8.1"), "kernels[0].newest is not a kernel series"),
    ],
)
def test_a_ceiling_that_cannot_be_meant_is_refused(
    tmp_path: Path, pair: tuple[str, str], message: str
) -> None:
    text = changed(DRIVER, "kernels", _kernels(pair))

    with pytest.raises(UsageError) as caught:
        load(write(tmp_path, text))

    assert [problem.message for problem in caught.value.problems] == [message]


@pytest.mark.parametrize(
    ("version", "flavor", "kernel", "at"),
    [
        ("570.211.01", "open", "6.1.186-1", ""),
        ("570.211.01", "open", "6.1.187-1", "6.1.187"),
        ("570.211.01", "open", "6.2.200", ""),
        ("570.211.01", "open", "6.12.118-1", "6.12.118"),
        ("570.211.01", "open", "6.18.32", ""),
        ("570.211.01", "open", "6.19.1-arch1-1", "6.19"),
        ("570.211.01", "proprietary", "6.1.187-1", ""),
        ("525.147.05", "open", "6.1.187-1", ""),
        ("590.44.01", "open", "6.1.187-1", "6.1.187"),
        ("590.48.01", "open", "6.1.187-1", ""),
        ("595.45.04", "open", "6.1.187-1", ""),
        ("580.119.02", "proprietary", "6.18.32", ""),
        ("580.119.02", "proprietary", "7.0.9-1-cachyos", "6.19"),
        ("580.126.09", "proprietary", "6.19.7", ""),
        ("580.126.20", "open", "7.0.4", "7.0"),
        ("580.142", "open", "7.0.4", ""),
        ("580.142", "open", "7.1.0", "7.1"),
        ("580.159.04", "open", "7.1.2", ""),
        ("580.173.02", "open", "7.2.6", "7.2"),
        ("580.178.04", "open", "7.2.6", ""),
        ("595.45.04", "open", "7.0.4", "7.0"),
        ("595.58.03", "open", "7.0.4", ""),
        ("610.43.03", "open", "7.2.0", "7.2"),
        ("610.57.04", "open", "7.2.0", ""),
        ("620.70.06", "open", "7.3.0", ""),
    ],
)
def test_a_release_stops_building_where_the_kernel_changed_and_not_before(
    version: str, flavor: ModuleFlavor, kernel: str, at: str
) -> None:
    assert broken_from(load(), version, flavor, kernel) == at


def test_a_package_with_patches_of_its_own_for_a_later_kernel_builds_for_the_change_too() -> None:
    assert broken_from(load(), "535.309.01", "open", "6.1.187-1", "6.16")
    assert not broken_from(load(), "535.309.01", "open", "6.1.187-1", "7.2")


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("kernels", '["6.1.187"]', "kernels has no series as its last"),
        ("kernels", '["next", "6.19"]', "kernels has no series as its last"),
        ("fixed", "[]", "fixed is empty"),
        ("fixed", '["580"]', "fixed[0] is not a version"),
        ("since", '"old"', "since is not a version"),
        ("flavors", '["closed"]', "flavors[0] has an unknown value"),
    ],
)
def test_a_change_that_cannot_be_meant_is_refused(
    tmp_path: Path, field: str, value: str, message: str
) -> None:
    text = changed(KERNEL_CHANGE, field, value)

    with pytest.raises(UsageError) as caught:
        load(write(tmp_path, text))

    assert [problem.message for problem in caught.value.problems] == [message]
