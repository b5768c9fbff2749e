"""rigops and pyinfra must see the same hosts with the same data in the same file."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING

from rigops.concerns.registry import keys
from rigops.inventory import load

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

# pyinfra patches the whole process when it is imported, so it gets one of its own, and each
# inventory a fork of that. One line each.
AS_PYINFRA_SEES_IT = """
import json, os, sys
from pyinfra.api import State
from pyinfra.context import ctx_state
from pyinfra_cli.inventory import make_inventory

def show(name):
    sys.path.append(os.getcwd())
    ctx_state.set(State())
    inventory = make_inventory(name, cwd=os.getcwd())
    print(json.dumps({host.name: host.data.dict() for host in inventory}), flush=True)

for folder in sys.argv[2:]:
    if os.fork() == 0:
        os.chdir(folder)
        show(sys.argv[1])
        os._exit(0)
    if os.wait()[1]:
        sys.exit(folder)
"""

INVENTORIES = {
    "a list of names": {"inventory.py": 'rigs = ["one", "two"]'},
    "host data": {"inventory.py": 'rigs = [("one", {"driver": "535"}), "two"]'},
    "group data inline": {"inventory.py": 'rigs = (["one", "two"], {"driver": "535"})'},
    "the later group wins": {
        "inventory.py": (
            'b = (["one"], {"driver": "535", "x_b": 1})\na = (["one"], {"driver": "580"})\n'
        )
    },
    "host data of two groups is merged": {
        "inventory.py": (
            'a = [("one", {"driver": "535", "x_a": 1})]\nb = [("one", {"driver": "580"})]\n'
        )
    },
    "all is written out and leaves a host away": {
        "inventory.py": 'all = (["one"], {"x_all": 1})\nrigs = ["one", "two"]\n'
    },
    "all has host data": {
        "inventory.py": 'all = [("one", {"x_from": "all"})]\nrigs = [("one", {"x_from": "rigs"})]\n'
    },
    "group data files": {
        "inventory.py": 'rigs = (["one"], {"driver": "535", "x_inline": 1})\nother = ["two"]\n',
        "group_data/all.py": 'driver = "580"\nx_all = True\n',
        "group_data/rigs.py": 'x_inline = 2\nkernel_args = ["iommu=pt"]\n',
        "group_data/inventory.py": "x_file_group = 7\n",
        "group_data/nobody.py": "x_nobody = 1\n",
    },
    "imports of a group data file are no data": {
        "inventory.py": 'rigs = ["one"]',
        "group_data/all.py": "import os\nfrom math import pi, floor as down\nx_pi = pi\n",
    },
    "__all__ decides what a group data file exports": {
        "inventory.py": 'rigs = ["one"]',
        "group_data/all.py": 'import os\n__all__ = ["x_one"]\nx_one, x_two = 1, 2\n',
    },
    "group data asks pyinfra for the inventory": {
        "inventory.py": 'rigs = ["one", "two"]\nx = ["three"]\n',
        "group_data/rigs.py": (
            "from pyinfra import inventory\n"
            'x_names = [h.name for h in inventory.get_group("rigs")]\n'
        ),
    },
    "local and ssh connectors": {
        "inventory.py": 'rigs = ["@local", "@ssh/one", ("@ssh/two", {"ssh_hostname": "three"})]',
        "group_data/@local.py": "x_here = True\n",
    },
    "names with an underscore are constants": {
        "inventory.py": '_driver = ["535", "545"]\nrigs = [("one", {"driver": _driver[0]})]'
    },
    "numbers and dicts in a list are no hosts": {
        "inventory.py": 'watts = [1, 2]\nsupplies = [{"a": 1}]\nrigs = ["one"]\n'
    },
    "hosts that are computed, with a module of the user's": {
        "inventory.py": (
            "from names import NAMES as _names\n"
            'rigs = [(f"rig{n}", {"x_n": n}) for n in range(len(_names))]\n'
        ),
        "names.py": 'NAMES = ("a", "b", "c")\n',
    },
    "pyinfra's global arguments": {
        "inventory.py": 'rigs = ["one"]',
        "group_data/rigs.py": '_sudo = True\nssh_user = "me"\n',
    },
}


def test_every_host_has_the_data_that_pyinfra_gives_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folders = {name: tmp_path / str(number) for number, name in enumerate(INVENTORIES)}
    for name, folder in folders.items():
        _write(folder, INVENTORIES[name])
    seen = _as_pyinfra_sees_it("inventory.py", *folders.values())

    for (name, folder), theirs in zip(folders.items(), seen, strict=True):
        with monkeypatch.context() as there:
            there.setattr(sys, "path", list(sys.path))
            there.chdir(folder)
            ours = {host.name: host.data for host in load(folder / "inventory.py", keys()).hosts}

        assert json.loads(json.dumps(ours)) == theirs, name


def test_group_data_beside_the_inventory_wins_over_that_of_the_current_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _write(
        tmp_path,
        {
            "lab/inventory.py": 'rigs = ["one"]',
            "lab/group_data/rigs.py": "x_from = 'beside'\n",
            "group_data/rigs.py": "x_from = 'here'\nx_here = 1\n",
        },
    )
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.chdir(tmp_path)

    inventory = load(tmp_path / "lab/inventory.py", keys())

    ours = {host.name: host.data for host in inventory.hosts}
    assert ours == {"one": {"x_from": "beside", "x_here": 1}}
    assert [ours] == _as_pyinfra_sees_it("lab/inventory.py", tmp_path)


def test_reading_an_inventory_does_not_import_pyinfra(tmp_path: Path) -> None:
    _write(tmp_path, INVENTORIES["group data files"])
    code = (
        "import sys; from pathlib import Path; from rigops.inventory import load;"
        "from rigops.concerns.registry import keys;"
        "load(Path('inventory.py'), keys());"
        "assert not {'pyinfra', 'gevent', 'paramiko'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], cwd=tmp_path, check=True)


def _write(folder: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


def _as_pyinfra_sees_it(inventory: str, *folders: Path) -> list[object]:
    run = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", AS_PYINFRA_SEES_IT, inventory, *folders],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
    )
    assert run.returncode == 0, run.stderr
    return [json.loads(line) for line in run.stdout.splitlines()]
