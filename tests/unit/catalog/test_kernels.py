"""Up to which kernel a release is known to build."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from rigops.catalog import find_branch, load
from rigops.catalog.lookup import newest_kernel
from rigops.errors import UsageError
from tests.unit.catalog.entries import DRIVER, EVIDENCE, changed, write

if TYPE_CHECKING:
    from pathlib import Path

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
        ("580.178.04", "7.0"),
        ("570.211.01", ""),
    ],
)
def test_a_release_has_its_own_ceiling_else_that_of_its_branch(version: str, kernel: str) -> None:
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
