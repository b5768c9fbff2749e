from __future__ import annotations

from collections import Counter

from rigops.concerns import registry
from rigops.inventory.spec import Key, RigSpec, examine
from rigops.inventory.spec.read import GENERAL
from rigops.inventory.spec.scalars import whole_number
from tests.unit.test_deploys import DEPLOYS

OF_ITS_OWN = Key("toy_level", "1 to 9", whole_number(1, 9, ""))


def test_no_key_belongs_to_two_concerns() -> None:
    named = [key.name for one in registry.CONCERNS for key in one.keys]

    assert [name for name, count in Counter(named).items() if count > 1] == []
    assert not set(named) & {key.name for key in GENERAL}


def test_each_concern_of_this_version_has_a_deploy_for_plain_pyinfra_and_no_other_has() -> None:
    files = {path.stem for path in DEPLOYS.glob("*.py")} - {"rig"}

    assert files == registry.names_in_this_version()


def test_a_key_that_no_field_is_made_for_is_read_and_counts_as_declared() -> None:
    spec, problems = examine({"toy_level": 3}, {OF_ITS_OWN.name: OF_ITS_OWN})

    assert problems == []
    assert spec[OF_ITS_OWN] == 3
    assert "toy_level" in spec.declared


def test_a_key_with_a_field_is_the_same_by_either_way() -> None:
    key = registry.keys()["kernel_args"]

    assert RigSpec(kernel_args=("iommu=pt",))[key] == ("iommu=pt",)
    assert RigSpec()[key] is None
