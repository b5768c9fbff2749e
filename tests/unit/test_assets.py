from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from rigops import assets
from rigops.errors import RigopsError

if TYPE_CHECKING:
    from pathlib import Path


def test_the_checkout_is_searched_when_rigops_runs_from_src(tmp_path: Path) -> None:
    (tmp_path / "deploys").mkdir()
    assert assets.find("deploys", package=tmp_path / "src" / "rigops") == tmp_path / "deploys"


def test_the_package_wins_over_the_checkout(tmp_path: Path) -> None:
    package = tmp_path / "src" / "rigops"
    (package / "deploys").mkdir(parents=True)
    (tmp_path / "deploys").mkdir()
    assert assets.find("deploys", package=package) == package / "deploys"


def test_a_path_inside_a_folder_is_found(tmp_path: Path) -> None:
    (tmp_path / "templates").mkdir()
    (tmp_path / "templates" / "guard.service.j2").touch()
    found = assets.find("templates/guard.service.j2", package=tmp_path)
    assert found == tmp_path / "templates" / "guard.service.j2"


def test_an_installed_rigops_takes_nothing_from_folders_above_it(tmp_path: Path) -> None:
    (tmp_path / "deploys").mkdir()
    with pytest.raises(RigopsError):
        assets.find("deploys", package=tmp_path / "site-packages" / "rigops")


def test_what_is_absent_means_a_broken_installation_and_how_to_mend_it(tmp_path: Path) -> None:
    with pytest.raises(RigopsError, match="missing from this installation") as caught:
        assets.find("deploys", package=tmp_path)
    assert "--force-reinstall" in caught.value.problems[0].fix
