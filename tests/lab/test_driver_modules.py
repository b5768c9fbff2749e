"""The owner's own kernel modules on a simulated rig: what plan refuses."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.lab.driver_rig import GOOD, Rig, tended
from tests.own_tree import files
from tests.shards import LAB_DRIVER

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.shard(LAB_DRIVER)

MODPROBE = "/etc/modprobe.d/00-rigops-nvidia-modules.conf"


@pytest.fixture(scope="module")
def rig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    with tended(tmp_path_factory, "threadripper-3x3090=own-modules") as rig:
        yield rig


def _tree(folder: Path, version: str) -> str:
    for name, text in files(version, 7).items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return str(folder)


def _reasons(host: Any) -> dict[str, str]:
    return {one["concern"]: one["reason"] for one in host["blocked"]}


def test_a_container_without_a_kernel_of_its_own_is_refused_before_anything_changes(
    rig: Rig, tmp_path: Path
) -> None:
    host = rig.plan(1, driver="535", driver_modules=_tree(tmp_path, GOOD))

    assert "it runs with that of the machine around it" in _reasons(host)["driver_modules"]
    assert not rig.there(MODPROBE, "/var/lib/rigops/driver-modules")


def test_a_tree_of_no_offered_version_is_refused_before_anything_changes(
    rig: Rig, tmp_path: Path
) -> None:
    tree = _tree(tmp_path, "595.71.05")

    other = _reasons(rig.plan(1, driver="595.71.05", driver_modules=tree))
    excluded = _reasons(rig.plan(1, driver="535", driver_modules=tree))

    assert set(other) == set(excluded) == {"nvidia_driver", "driver_modules"}
    assert "595.71.05" in other["nvidia_driver"]
    assert '"driver": "535" excludes 595.71.05' in excluded["driver_modules"]
    assert not rig.there(MODPROBE, "/var/lib/rigops/driver-modules")
