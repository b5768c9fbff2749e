from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from rigops.concerns.nvidia_driver.resolver.answer import DriverAnswer, NotCollected, answer
from rigops.concerns.nvidia_driver.resolver.driver_facts import folder_of
from rigops.concerns.nvidia_driver.resolver.request import Blocker
from rigops.concerns.nvidia_driver.resolver.vault_sets import Pool, VaultContents
from rigops.concerns.registry import read
from rigops.inventory.spec.driver import driver
from tests.unit.concerns.nvidia_driver.resolver.choices import RIG, facts
from tests.unit.concerns.nvidia_driver.resolver.test_options_beside_sources import (
    FOLDER,
    NOW,
    OLD,
    in_folder,
)

if TYPE_CHECKING:
    from pathlib import Path


def test_a_folder_that_cannot_be_used_is_refused_with_the_fix(tmp_path: Path) -> None:
    (tmp_path / "NVIDIA.run").touch()

    found = folder_of(read({"driver_source": f"dir:{tmp_path}"}))

    assert isinstance(found, Blocker)
    assert "no NVIDIA driver (.run): name a .run file as NVIDIA does: " in str(found)


def test_of_a_folder_with_two_drivers_only_the_files_of_one_are_sent() -> None:
    found = answer(
        facts(
            RIG, "bookworm", folder=in_folder(NOW, OLD), driver="535", driver_source=f"dir:{FOLDER}"
        ),
        driver("535"),
    )

    assert isinstance(found, DriverAnswer)
    assert found.from_vault
    assert found.from_vault.version == NOW
    assert {one.version for one in found.from_vault.packages if one.name == "libcuda1"} == {
        f"{NOW}-1"
    }


def test_a_package_of_the_folder_that_is_another_in_the_hosts_vault_is_refused() -> None:
    known = facts(
        RIG, "bookworm", folder=in_folder(NOW), driver="535", driver_source=f"dir:{FOLDER}"
    )
    (file,) = (one.file for one, _ in in_folder(NOW).records if one.name == "libcuda1")
    other = VaultContents(pool=Pool(digests={file: "0" * 64}))

    found = answer(replace(known, contents=other), driver("535"))

    assert isinstance(found, Blocker)
    assert "another build of libcuda1" in found.reason


def test_the_folder_and_the_vault_are_collected_before_they_decide() -> None:
    known = facts(RIG, "bookworm", driver="535", driver_source=f"dir:{FOLDER}")
    read_ = replace(known, folder=in_folder(NOW), contents=None)

    assert answer(known, driver("535")) == NotCollected("folder")
    assert answer(read_, driver("535")) == NotCollected("vault")
