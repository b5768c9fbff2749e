from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.lab.silicon.cuda.build import build
from tests.unit.lab.cuda_rig import VERSION, Rig

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


@pytest.fixture(scope="session")
def simulated(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Path]:
    return build(tmp_path_factory.mktemp("libraries"), VERSION)


@pytest.fixture
def rig(simulated: Mapping[str, Path], tmp_path: Path) -> Rig:
    made = Rig(tmp_path, simulated["libcuda.so.1"], simulated["libnccl.so.2"])
    made.configure()
    return made
