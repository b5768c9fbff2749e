"""A rig whose cards are simulated, for the preflight program."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest

from rigops.hostside.packing import pack
from tests.lab.silicon.cuda import build
from tests.unit.preflight.rigs import DRIVER, Rig

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(autouse=True)
def packed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rigops.preflight.run.pack", pack)


@pytest.fixture(scope="package")
def libraries(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with libcuda.so.1, as the linker looks for it."""
    if not (shutil.which("gcc")):
        pytest.skip("gcc is not installed")
    folder = tmp_path_factory.mktemp("cuda")
    (folder / "libcuda.so.1").symlink_to(build.build(folder / "built", DRIVER)["libcuda.so.1"])
    return folder


@pytest.fixture
def rig(libraries: Path, tmp_path: Path) -> Rig:
    made = Rig(tmp_path, libraries / "libcuda.so.1")
    made.programs()
    return made
