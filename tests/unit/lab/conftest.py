"""The fake libraries, built once, and a rig for them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.lab.silicon.cuda.build import build
from tests.unit.lab.cuda_rig import VERSION, Rig

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(scope="package")
def libraries(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return build(tmp_path_factory.mktemp("libraries"), VERSION)


@pytest.fixture
def rig(libraries: dict[str, Path], tmp_path: Path) -> Rig:
    made = Rig(tmp_path, libraries["libcuda.so.1"], libraries["libnccl.so.2"])
    made.configure()
    return made
