"""The inventories that people copy have to be right."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from rigops.catalog import load as load_catalog
from rigops.concerns.registry import concern_of, keys, names_in_this_version
from rigops.inventory import load
from rigops.power import from_inventory

FOLDER = Path(__file__).resolve().parents[2] / "inventory"
README = FOLDER.parent / "README.md"


@pytest.mark.parametrize("name", ["demo.py", "homelab.py"])
def test_an_example_is_read_without_a_warning(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(FOLDER)

    inventory = load(FOLDER / name, keys())

    assert [host.name for host in inventory.hosts] == ["threadripper", "t180"]
    assert all(host.spec.driver is not None for host in inventory.hosts)
    assert inventory.warnings == ()
    able = {None, *names_in_this_version()}
    declared = {key for host in inventory.hosts for key in host.spec.declared}
    assert [key for key in declared if concern_of(key) not in able] == []


def test_the_supplies_and_circuits_of_the_home_lab_carry_its_cards(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(FOLDER)

    for host in load(FOLDER / "homelab.py", keys()).hosts:
        found = from_inventory(host.name, host.spec, load_catalog())
        assert found.feeds.are_declared
        assert found.budget().excesses == ()
        assert found.doubts(found.budget()) == ()


def test_the_inventory_of_the_readme_declares_only_what_this_version_can_do(
    tmp_path: Path,
) -> None:
    (text,) = re.findall(r"```python\n(# inventory\.py\n.*?)```", README.read_text(), re.DOTALL)
    (tmp_path / "inventory.py").write_text(text)

    (host,) = load(tmp_path / "inventory.py", keys()).hosts

    assert {concern_of(key) for key in host.spec.declared} <= {None, *names_in_this_version()}
