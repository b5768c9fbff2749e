from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from rigops.cli.apply_common import host_requests, select_hosts
from rigops.concerns.registry import keys
from rigops.errors import UsageError
from rigops.inventory import load

if TYPE_CHECKING:
    from rigops.inventory import Inventory

INVENTORY = """
v100s = [("t180-a", {"kernel_args": ["a"]}), "t180-b"]
desk = ["threadripper", "@docker/x"]
"""


@pytest.fixture
def inventory(tmp_path: Path) -> Inventory:
    path = tmp_path / "inventory.py"
    path.write_text(INVENTORY)
    return load(path, keys())


@pytest.mark.parametrize(
    ("patterns", "names"),
    [
        ([], ["t180-a", "t180-b", "threadripper"]),
        (["v100s"], ["t180-a", "t180-b"]),
        (["t180-*", "desk"], ["t180-a", "t180-b", "threadripper"]),
        (["threadripper"], ["threadripper"]),
        (["*-b"], ["t180-b"]),
    ],
    ids=" ".join,
)
def test_hosts_are_chosen_by_name_group_or_glob(
    inventory: Inventory, patterns: list[str], names: list[str]
) -> None:
    assert [host.name for host in host_requests(inventory, patterns)] == names


def test_a_chosen_host_brings_what_was_declared_for_it(inventory: Inventory) -> None:
    (host,) = host_requests(inventory, ["t180-a"])

    assert host.spec.kernel_args == ("a",)


@pytest.mark.parametrize("patterns", [["v100"], ["t180-a", "v100"]])
def test_a_pattern_that_fits_nothing_is_an_error_with_the_nearest_name(
    inventory: Inventory, patterns: list[str]
) -> None:
    with pytest.raises(UsageError) as refused:
        host_requests(inventory, patterns)

    (problem,) = refused.value.problems
    assert (problem.key, problem.value) == ("--limit", "v100")
    assert "v100s" in problem.fix


def test_an_inventory_is_named_once(tmp_path: Path) -> None:
    one, two = tmp_path / "one.py", tmp_path / "two.py"
    for path in (one, two):
        path.write_text(INVENTORY)

    with pytest.raises(UsageError, match="two inventories"):
        select_hosts(one, two, limit=(), only=(), skip=())
    digests = [
        select_hosts(*named, limit=(), only=(), skip=())[2] for named in ((one, one), (None, one))
    ]
    assert len(set(digests)) == 1


def test_a_catalog_is_named_from_the_inventory_wherever_the_command_is_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "rigs"
    folder.mkdir()
    (folder / "own.toml").write_text("")
    (folder / "inventory.py").write_text('rigs = [("rig", {"catalog": "own.toml"}), "other"]\n')
    monkeypatch.chdir(tmp_path)

    rig, other = host_requests(load(Path("rigs/inventory.py"), keys()), [])

    assert rig.data["catalog"] == rig.spec.catalog == str(folder / "own.toml")
    assert "catalog" not in other.data


@pytest.mark.parametrize("text", [None, "[[drivers]]\nbranch = 535\n", "nonsense"])
def test_a_catalog_that_cannot_be_used_is_an_error_of_the_inventory(
    tmp_path: Path, text: str | None
) -> None:
    if text is not None:
        (tmp_path / "own.toml").write_text(text)
    (tmp_path / "inventory.py").write_text('rigs = [("rig", {"catalog": "own.toml"}), "other"]\n')
    inventory = load(tmp_path / "inventory.py", keys())

    with pytest.raises(UsageError) as refused:
        host_requests(inventory, ["rig"])

    assert refused.value.problems[0].file == str(tmp_path / "own.toml")
    assert [one.name for one in host_requests(inventory, ["other"])] == ["other"]


@pytest.mark.parametrize(
    ("word", "names"), [("threadripper", ["threadripper"]), ("v100s", ["t180-a", "t180-b"])]
)
def test_a_host_or_group_may_stand_where_an_inventory_would(
    inventory: Inventory, monkeypatch: pytest.MonkeyPatch, word: str, names: list[str]
) -> None:
    monkeypatch.chdir(inventory.path.parent)

    hosts, _, digest = select_hosts(Path(word), None, limit=(), only=(), skip=())

    assert [host.name for host in hosts] == names
    assert digest == inventory.digest


@pytest.mark.parametrize(
    ("word", "message"),
    [("tripp", "no such host or group in"), ("x.py", "no such inventory"), ("a/x", "no such inv")],
)
def test_what_is_neither_says_what_it_was_taken_for(
    inventory: Inventory, monkeypatch: pytest.MonkeyPatch, word: str, message: str
) -> None:
    monkeypatch.chdir(inventory.path.parent)

    with pytest.raises(UsageError, match=message):
        select_hosts(Path(word), None, limit=(), only=(), skip=())
