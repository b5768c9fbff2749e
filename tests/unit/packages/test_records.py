from __future__ import annotations

import pytest

from rigops.errors import RigopsError
from rigops.packages.records import OwnedPackage, OwnedPackages

ASKED = OwnedPackage("a", "cpu_tuning", asked=True)
NEEDED = OwnedPackage("b", "borg", asked=False)


def test_the_record_is_read_as_it_was_written() -> None:
    owned = OwnedPackages().having([ASKED, NEEDED])

    assert OwnedPackages.parse(owned.to_json()) == owned
    assert owned.without(["a"]).packages == {"b": NEEDED}


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"schema": "rigops.owned_packages/1"}'])
def test_a_damaged_record_is_an_error_with_a_cure_and_never_an_empty_one(text: str) -> None:
    with pytest.raises(RigopsError) as error:
        OwnedPackages.parse(text)

    assert "packages.json" in error.value.problems[0].fix
