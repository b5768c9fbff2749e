"""What the journal keeps of a plan."""

from __future__ import annotations

from rigops.concerns.journal_values import values_of
from rigops.plan.change import Change, Package, PackageChanges, Plan


def test_packages_that_change_alike_are_one_value() -> None:
    names = [f"lib{number}" for number in range(6)]
    upgraded = tuple(Package(name, "545", "535") for name in names)
    changes = PackageChanges(downgrade=upgraded, install=(Package("dkms", None, "3"),))

    found = {
        (one.subject, one.before, one.after) for one in values_of(Plan(packages_by={"d": changes}))
    }

    assert found == {("dkms", None, "3"), ("lib0, lib1, lib2, lib3 and 2 more", "545", "535")}


def test_what_is_in_a_file_stays_out_and_an_absent_one_is_absent() -> None:
    written = Change("monitoring", "file", "/etc/rigops/notify", None, "https://user:pw@chat\n")

    (value,) = values_of(Plan(changes=(written, written)))

    assert (value.before, value.after) == (None, "")
