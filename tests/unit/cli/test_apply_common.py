from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

import click
import pytest
from click.testing import CliRunner

from rigops.cli.apply_common import Selected, host_requests, inventory_options
from rigops.cli.options import host_arguments
from rigops.concerns.registry import keys
from rigops.errors import UsageError
from rigops.inventory import load
from tests.unit.forks import forked

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rigops.inventory import Inventory

select: Callable[..., Selected] = inventory_options(lambda *, selected: selected)

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


@pytest.mark.parametrize(
    ("hosts", "limit", "key"),
    [((), ("v100",), "--limit"), ((), ("t180-a", "v100"), "--limit"), (("v100",), (), "HOST")],
)
def test_a_pattern_that_fits_nothing_is_an_error_with_the_nearest_name(
    inventory: Inventory, hosts: Sequence[str], limit: Sequence[str], key: str
) -> None:
    with pytest.raises(UsageError) as refused:
        select(hosts=hosts, inventory_path=inventory.path, limit=limit, only=(), skip=())

    (problem,) = refused.value.problems
    assert (problem.key, problem.value) == (key, "v100")
    assert "v100s" in problem.fix


@pytest.mark.parametrize(
    ("words", "names"),
    [
        ((), ["t180-a", "t180-b", "threadripper"]),
        (("threadripper", "t180-b"), ["t180-b", "threadripper"]),
        (("v100s",), ["t180-a", "t180-b"]),
    ],
)
def test_hosts_are_arguments_as_many_as_one_likes(
    inventory: Inventory, words: Sequence[str], names: list[str]
) -> None:
    found = select(hosts=words, inventory_path=inventory.path, limit=(), only=(), skip=())

    assert [host.name for host in found.requests] == names
    assert found.digest == inventory.digest


@pytest.fixture
def told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    """What a command makes of its words, in a folder with these files, or its error."""
    monkeypatch.chdir(tmp_path)
    for name in ("rack.py", "rack", "two.py"):
        Path(name).touch()
    Path("rig1").mkdir()

    @click.command()
    @host_arguments("[HOST]…")
    def command(*, hosts: tuple[str, ...], inventory_path: Path | None) -> None:
        click.echo(f"{' '.join(hosts)} in {inventory_path}")

    def tell(*words: str) -> str:
        result = CliRunner().invoke(command, words)
        return result.output.strip() or str(result.exception)

    return tell


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("", "in None"),
        ("rig1 rig5", "rig1 rig5 in None"),
        ("rack.py", "in rack.py"),
        ("rack", "in rack"),
        ("rig5 rack.py rig1", "rig5 rig1 in rack.py"),
        ("rig5 -i rack.py", "rig5 in rack.py"),
        ("rack.py -i rack.py", "in rack.py"),
        ("./rack me@10.0.0.5:22 @docker/x", "me@10.0.0.5:22 @docker/x in rack"),
        ("none.py", "in none.py"),
        ("rack.py two.py", "two inventories: rack.py and two.py"),
        ("rack.py -i two.py", "two inventories: rack.py and two.py"),
    ],
)
def test_a_word_that_is_a_file_is_the_inventory(
    told: Callable[..., str], words: str, said: str
) -> None:
    assert told(*words.split()).startswith(said)


_ARGUMENTS: Final = """
import click
from rigops.cli.main import rigops
for name in words:
    found = rigops.get_command(click.Context(rigops), name).params
    print(name, *[(one.name, one.nargs) for one in found if isinstance(one, click.Argument)])
"""


def test_every_command_of_hosts_takes_several_of_them_and_the_inventory_in_one_way() -> None:
    names = (
        "apply", "backup", "capture", "doctor", "fix", "plan", "power", "preflight", "release",
        "snapshots",
    )  # fmt: skip
    done = forked(_ARGUMENTS, *names)  # what converges replaces a process' threads

    assert done.out.splitlines() == [f"{name} ('hosts', -1)" for name in names]


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


@pytest.mark.parametrize("word", ["x.py", "a/x"])
def test_what_is_no_inventory_is_said_to_be_none(
    inventory: Inventory, monkeypatch: pytest.MonkeyPatch, word: str
) -> None:
    monkeypatch.chdir(inventory.path.parent)

    with pytest.raises(UsageError, match="no such inventory"):
        select(hosts=(), inventory_path=Path(word), limit=(), only=(), skip=())
