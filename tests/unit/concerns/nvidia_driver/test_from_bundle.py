"""What is counted beside a host's own sources: the vault, a declared folder, and a .run file."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

import pytest

from rigops.catalog import load
from rigops.concerns.nvidia_driver.from_bundle import driver_facts
from rigops.concerns.nvidia_driver.record import PinnedDriver
from rigops.concerns.nvidia_driver.resolver.answer import DriverAnswer, answer
from rigops.concerns.nvidia_driver.resolver.driver_facts import INSTALLED, Folder
from rigops.concerns.nvidia_driver.resolver.request import Blocker
from rigops.concerns.registry import read
from rigops.inventory.spec.driver import driver as whole_driver
from rigops.probe.bundle import Bundle, Collected
from rigops.probe.package_names import RUN_FILE
from rigops.vault.store import Store
from tests.unit.cli.test_host_drivers import REAL, TEXTS, driver, offers
from tests.unit.record.test_lockfile import HOST, NOW, OLD
from tests.unit.vault.pinned_sets import index_of
from tests.unit.vault.test_deb import deb, tar

if TYPE_CHECKING:
    from pathlib import Path

    from rigops.concerns.nvidia_driver.resolver.driver_facts import DriverFacts
    from rigops.record.lockfile import LockedHost

MARKED: Final = "535.261.03"
GROUND: Final = f"""\
== kernels
6.8.0-31-generic headers
== run-file
/usr/bin/nvidia-uninstall
log NVIDIA driver
digest {"a" * 64}
mark whole {MARKED} proprietary compute {"a" * 64}
"""


def looked(
    locked: LockedHost | None = None, texts: dict[str, str] | None = None, **declared: object
) -> DriverFacts:
    said = {name: Collected(text) for name, text in {**TEXTS, **(texts or {})}.items()}
    bundle = Bundle("rig", None, root=True, sections=said)
    return driver_facts(bundle, load(), read(declared), locked)


def versions(found: DriverFacts) -> list[str]:
    assert found.vault
    return [one.version for one in found.vault.sets]


def filled(folder: Path, *kept: str) -> Store:
    store = Store(folder)
    for one in (NOW, OLD):
        if one.version in kept:
            store.put(one.index, [index_of(one.version).encode()])
    return store


def in_folder(path: Path, name: str = "libcuda1") -> None:
    fields = f"Package: {name}\nVersion: {NOW.version}-1\nArchitecture: amd64\n"
    (path / f"{name}.deb").write_bytes(deb(tar(fields)))


def test_of_what_was_proven_that_counts_of_which_this_machine_has_the_copy(tmp_path: Path) -> None:
    store = filled(tmp_path, OLD.version)

    found = looked(HOST, rigops_vault=str(store.folder))

    assert versions(found) == [OLD.version]
    assert found.locked == HOST.driver.version
    assert found.offers.named("nvidia-dkms-535")
    assert isinstance(answer(found, whole_driver(OLD.version)), DriverAnswer)
    assert isinstance(answer(found, whole_driver(NOW.version)), Blocker)


def test_a_copy_that_is_not_what_the_lock_says_does_not_count(tmp_path: Path) -> None:
    store = filled(tmp_path, NOW.version, OLD.version)
    store.place(NOW.index).write_text(index_of("550.163.01"))

    found = looked(HOST, rigops_vault=str(tmp_path))

    assert versions(found) == [OLD.version]


def test_a_host_without_an_entry_in_the_lockfile_has_no_pinned_set(tmp_path: Path) -> None:
    filled(tmp_path, NOW.version)

    found = looked(None, rigops_vault=str(tmp_path))

    assert (versions(found), found.locked, found.set_) == ([], "", None)


@pytest.mark.parametrize("is_desktop", [True, False])
def test_a_machine_that_lost_its_driver_gets_the_part_of_it_that_it_had(
    *, is_desktop: bool
) -> None:
    more = (replace(NOW.packages[0], name="nvidia-driver"),) if is_desktop else ()
    had = replace(NOW, packages=(*NOW.packages, *more))
    installed = "== dpkg-query -W\nlibcuda1\t535.171.04-0ubuntu2\tamd64\tii \tnvidia\n"

    lost = looked(replace(HOST, sets=(had,)))
    still = looked(replace(HOST, sets=(had,)), {"packages": installed})

    pinned = PinnedDriver(version=NOW.version, flavor="proprietary", declared="")

    assert lost.set_ == still.set_ == ("desktop" if is_desktop else "compute")
    assert replace(still, pinned=pinned).set_ is None


def test_drivers_of_a_declared_folder_come_from_there_alone(tmp_path: Path) -> None:
    in_folder(tmp_path)
    texts = {"driver-offers": offers(*driver("535", REAL), ("dkms", "3.0", "make"))}

    found = looked(None, texts, driver_source=f"dir:{tmp_path}")

    assert isinstance(found.folder, Folder)
    assert found.folder.name == str(tmp_path)
    there = found.folder.offers(found.offers)
    (libcuda,) = there.named("libcuda1")
    assert libcuda.places == (f"{tmp_path} on this machine",)
    assert there.named("dkms")
    assert not there.named("nvidia-dkms-535")
    assert found.offers.named("nvidia-dkms-535")


def test_a_folder_that_cannot_be_used_is_told_with_its_fix(tmp_path: Path) -> None:
    (tmp_path / "NVIDIA-Linux-x86_64-535.261.03.run").write_text("<html>Not found</html>")

    found = looked(driver_source=f"dir:{tmp_path}")

    assert isinstance(found.folder, Blocker)
    assert "does not begin like NVIDIA's installer" in found.folder.reason
    assert "download it again" in found.folder.fix
    assert found.offers.every


def test_a_folder_that_is_not_declared_is_not_looked_for(tmp_path: Path) -> None:
    in_folder(tmp_path)

    assert looked(driver="535").folder is None


def test_what_rigops_put_there_from_a_run_file_counts() -> None:
    found = looked(None, {"driver-ground": GROUND})

    (ours,) = found.offers.named(RUN_FILE)
    assert (ours.version, ours.places) == (MARKED, (INSTALLED,))
    assert found.offers.named("nvidia-dkms-535")


def test_where_apt_is_not_nothing_of_it_counts(tmp_path: Path) -> None:
    store = filled(tmp_path, NOW.version)
    in_folder(tmp_path)
    texts = {"packages": "== pacman -Q\nlinux 6.8-1\n"}

    found = looked(HOST, texts, driver_source=f"dir:{tmp_path}", rigops_vault=str(store.folder))

    assert found.machine.manager == "pacman"
    assert (versions(found), found.folder) == ([], None)
