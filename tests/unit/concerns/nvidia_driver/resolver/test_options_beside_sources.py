"""What was proven and is kept, and what lies in a folder, beside what real archives offer."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import pytest

from rigops.concerns.nvidia_driver.record import PinnedDriver
from rigops.concerns.nvidia_driver.resolver.driver_facts import Folder, installed_run_file
from rigops.concerns.nvidia_driver.resolver.machine import RunFile
from rigops.concerns.nvidia_driver.resolver.offers import Offers
from rigops.concerns.nvidia_driver.resolver.request import Blocker
from rigops.concerns.nvidia_driver.resolver.vault_sets import offers
from rigops.probe.package_names import RUN_FILE
from rigops.vault.directory import Directory
from tests.unit.concerns.nvidia_driver.resolver.choices import RIG, chosen, of, with_driver
from tests.unit.vault.pinned_sets import index_of, records

V100: Final = "Tesla V100-SXM2-32GB"
UNUSABLE = Blocker("the declared driver_source cannot be used", "E: no route")
OLD, NOW = "535.183.01", "535.261.03"
FOLDER: Final = "/srv/debs"
IN_FOLDER: Final = f"{FOLDER} on this machine"


def in_folder(*versions: str, without: str = "") -> Folder:
    every = (one for version in versions for one in records(version) if one[0].name != without)
    return Folder(FOLDER, tuple(every), Directory(FOLDER))


def test_what_was_proven_and_is_kept_can_be_had_without_any_source() -> None:
    choice = chosen(RIG, unusable=UNUSABLE, proven=(NOW, OLD), driver="535")

    assert [(one.version, one.places, one.fits) for one in choice.options] == [
        (NOW, ("vault",), True),
        (OLD, ("vault",), True),
    ]
    assert choice.recommended is not None
    assert (choice.recommended.version, choice.recommended.declare) == (NOW, {"driver": "535"})
    assert choice.blocker is None
    assert choice.declared is not None
    assert (choice.declared.version, choice.declared.blocker) == (NOW, None)


def test_what_is_kept_and_in_a_source_is_told_to_be_in_both() -> None:
    found = of(chosen(RIG, "bookworm", proven=(NOW, OLD)), NOW)

    assert found.places == ("bookworm/non-free", "vault")
    assert of(chosen(RIG, "bookworm", proven=(NOW, OLD)), OLD).places == ("vault",)


@pytest.mark.parametrize("how", ["installed", "locked", "pinned"])
def test_what_is_there_or_was_there_comes_from_the_vault_before_a_newer_one(how: str) -> None:
    machine = with_driver(RIG, f"{OLD}-1") if how == "installed" else RIG
    pinned = PinnedDriver(version=OLD, flavor="proprietary", declared="")

    found = chosen(
        machine,
        "bookworm",
        proven=(NOW, OLD),
        locked=OLD if how == "locked" else "",
        pinned=pinned if how == "pinned" else None,
        driver="535",
    )

    assert found.declared is not None
    assert found.declared.version == OLD


def test_another_one_that_is_kept_is_no_reason_not_to_take_what_the_sources_have() -> None:
    found = chosen(RIG, own=offers(index_of(OLD)), proven=(NOW,), driver="535")

    assert found.declared is not None
    assert found.declared.version == OLD
    assert found.recommended is not None
    assert (found.recommended.version, found.recommended.declare) == (NOW, {"driver": NOW})


def test_a_newer_one_than_the_locked_is_recommended_by_its_version() -> None:
    found = chosen(RIG, "bookworm", proven=(OLD,), locked=OLD).recommended

    assert found is not None
    assert (found.version, found.declare) == (NOW, {"driver": NOW})


def test_what_only_another_source_than_the_declared_has_comes_from_the_vault() -> None:
    without = chosen(RIG, "bookworm", driver="535", driver_source="vendor").declared
    found = chosen(RIG, "bookworm", proven=(NOW,), driver="535", driver_source="vendor").declared

    assert without is not None
    assert without.blocker is not None
    assert found is not None
    assert (found.version, found.blocker) == (NOW, None)


def test_another_branch_than_the_declared_is_none_of_the_vaults() -> None:
    found = chosen(RIG, "bookworm", proven=(NOW,), locked=NOW, driver="550").declared

    assert found is not None
    assert found.blocker is not None


def test_of_a_folder_what_lies_there_is_declared_and_nothing_else() -> None:
    source = f"dir:{FOLDER}"

    choice = chosen(RIG, "bookworm", folder=in_folder(OLD), driver="535", driver_source=source)
    absent = chosen(RIG, "bookworm", folder=in_folder(OLD), driver=NOW, driver_source=source)

    assert choice.declared is not None
    assert (choice.declared.version, choice.declared.blocker) == (OLD, None)
    assert (of(choice, OLD).places, of(choice, OLD).fits) == ((IN_FOLDER,), True)
    assert of(choice, NOW).places == ("bookworm/non-free",)
    assert absent.declared is not None
    assert absent.declared.blocker is not None
    assert absent.declared.blocker.reason.startswith(f"of {FOLDER}: ")


def test_what_is_in_the_folder_and_a_source_is_told_to_be_in_both() -> None:
    choice = chosen(RIG, "bookworm", folder=in_folder(NOW), driver_source=f"dir:{FOLDER}")

    assert of(choice, NOW).places == ("bookworm/non-free", IN_FOLDER)


def test_what_the_declared_folder_lacks_is_recommended_with_another_source() -> None:
    source = f"dir:{FOLDER}"

    there = chosen(RIG, "bookworm", folder=in_folder(NOW), driver_source=source).recommended
    elsewhere = chosen(RIG, "bookworm", folder=in_folder(OLD), driver_source=source).recommended

    assert there is not None
    assert there.declare == {"driver": "535"}
    assert elsewhere is not None
    assert (elsewhere.version, elsewhere.declare) == (
        NOW,
        {"driver": "535", "driver_source": "auto"},
    )


def test_parts_in_the_folder_and_parts_in_the_sources_make_no_driver() -> None:
    every = offers(index_of(OLD)).every
    libraries = Offers(tuple(one for one in every if one.name == "libcuda1"))
    folder = in_folder(OLD, without="libcuda1")

    choice = chosen(RIG, own=libraries, folder=folder, driver_source=f"dir:{FOLDER}")

    assert not of(choice, OLD).fits
    assert "libcuda1 is missing" in of(choice, OLD).why


def test_a_folder_that_cannot_be_used_refuses_only_what_is_declared() -> None:
    broken = Blocker("it has no .deb files", "put some there")

    choice = chosen(
        RIG, "bookworm", folder=broken, driver="535", driver_source=f"dir:{FOLDER}", proven=(OLD,)
    )

    assert choice.declared is not None
    assert choice.declared.blocker == broken
    assert choice.recommended is not None
    assert choice.recommended.declare == {"driver": "535", "driver_source": "auto"}


def test_what_rigops_put_there_from_a_run_file_stays() -> None:
    ours = RunFile("/usr/bin/nvidia-uninstall", NOW, "whole", "proprietary", "desktop")
    machine = replace(RIG, run_file=ours, installed={RUN_FILE: NOW}, flavor="proprietary")
    own = Offers(installed_run_file(machine))

    choice = chosen(machine, own=own, driver="535")

    assert (of(choice, NOW).places, of(choice, NOW).fits) == (("installed here",), True)
    assert choice.blocker is None
    assert choice.recommended is not None
    assert choice.recommended.why.startswith(f"{NOW} is installed and known to be good")
    assert choice.declared is not None
    assert choice.declared.version == NOW


def test_a_run_file_that_does_not_do_is_no_source() -> None:
    ours = RunFile("/usr/bin/nvidia-uninstall", "545.29.06", "whole")
    machine = replace(RIG, run_file=ours, installed={RUN_FILE: "545.29.06"})

    choice = chosen(machine, own=Offers(installed_run_file(machine)), unusable=UNUSABLE)

    assert (of(choice, "545.29.06").status, choice.recommended) == ("bad", None)
    assert choice.blocker == UNUSABLE
