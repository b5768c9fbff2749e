"""The command that writes the first inventory, for this machine and for hosts that answer."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

import rigops.hosts.access as seen
from rigops.concerns.registry import keys
from rigops.inventory import load
from rigops.transport import TransportError
from tests.unit.cli.test_doctor import Rig
from tests.unit.cli.test_host_drivers import TEXTS
from tests.unit.probe import answers

if TYPE_CHECKING:
    from pathlib import Path

    from rigops.transport import Target
    from tests.unit.cli.conftest import Rigops


@pytest.fixture(autouse=True)
def rigs(monkeypatch: pytest.MonkeyPatch) -> None:
    def connect(target: Target, **_: object) -> Rig:
        if target.alias == "gone":
            raise TransportError("dns", "no address", host=target.name, fix="look it up")
        return Rig(target.name, {**TEXTS, **answers.BROKEN})

    monkeypatch.setattr(seen, "connect", connect)


def test_the_file_loads_and_declares_only_what_is_there(rigops: Rigops, tmp_path: Path) -> None:
    said = rigops("init", "new/rigs", "--host", "me@10.0.0.7:2222", "--host", "tower")

    path = tmp_path / "new/rigs/inventory.py"
    assert (said.code, said.out) == (0, "")
    lines = path.read_text().splitlines()
    rows = re.findall(r"^  new/rigs/inventory.py:(\d+)  (\S.*?)  \S", said.err, re.MULTILINE)
    assert len(rows) == 4
    assert all(lines[int(number) - 1].strip() == f"# {keys}," for number, keys in rows)
    assert (
        "or: rigops fix -i new/rigs/inventory.py\nNext: rigops plan new/rigs/inventory.py"
        in said.err
    )
    inventory = load(path, keys())
    assert [host.name for host in inventory.hosts] == ["10.0.0.7", "tower"]
    assert inventory.hosts[0].data["ssh_user"] == "me"
    assert inventory.hosts[0].data["ssh_port"] == 2222
    for host in inventory.hosts:
        assert host.spec.declared == {"gpus"}
        assert host.spec.gpus is not None
        assert host.spec.gpus.models == (("GeForce RTX 3090", 2),)
    assert '# "driver": "535",' in path.read_text()


def test_accepted_suggestions_are_declared(rigops: Rigops, tmp_path: Path) -> None:
    said = rigops("init", "--accept", "--host", "tower")

    (host,) = load(tmp_path / "inventory.py", keys()).hosts
    assert host.data["driver"] == "535"
    assert host.data["kernel_args"] == ["iommu=pt"]
    assert "known to be bad" in (tmp_path / "inventory.py").read_text()
    assert said.err.endswith(
        "Wrote inventory.py. Every suggestion is declared.\nNext: rigops plan\n"
    )


def test_a_file_that_is_there_is_never_touched(rigops: Rigops, tmp_path: Path) -> None:
    path = tmp_path / "inventory.py"
    path.write_text("mine = []\n")

    said = rigops("init", "--host", "tower")

    assert said.code == 0
    assert path.read_text() == "mine = []\n"
    assert '"tower"' in said.out
    assert "not overwritten" in said.err
    (tmp_path / "pasted.py").write_text(f"rigs = [\n{said.out}]\n")
    assert [host.name for host in load(tmp_path / "pasted.py", keys()).hosts] == ["tower"]


def test_a_folder_that_is_a_file_is_an_error_before_any_host_is_reached(
    rigops: Rigops, tmp_path: Path
) -> None:
    (tmp_path / "rigs").write_text("")

    said = rigops("init", "rigs", "--host", "gone")

    assert said.code == 2
    assert "'rigs' is a file" in said.err
    assert "not reached" not in said.err


def test_a_host_that_is_not_reached_is_left_out_and_said(rigops: Rigops, tmp_path: Path) -> None:
    said = rigops("init", "--host", "gone", "--host", "tower")

    assert said.code == 3
    assert "gone: dns: no address" in said.err
    assert "look it up" in said.err
    assert [host.name for host in load(tmp_path / "inventory.py", keys()).hosts] == ["tower"]


def test_nothing_is_written_where_nobody_was_reached(rigops: Rigops, tmp_path: Path) -> None:
    assert rigops("init", "--host", "gone").code == 3
    assert not (tmp_path / "inventory.py").exists()


def test_one_address_with_two_ports_gets_two_names(rigops: Rigops, tmp_path: Path) -> None:
    rigops("init", "--host", "me@rig:22", "--host", "me@rig:2222")

    hosts = load(tmp_path / "inventory.py", keys()).hosts
    assert [host.name for host in hosts] == ["rig", "rig-2"]
    assert hosts[1].data["ssh_hostname"] == "rig"


def test_what_a_host_says_cannot_become_code(
    rigops: Rigops, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    evil = 'x"\n    import os  # '
    texts = {**answers.BROKEN, "proc-cmdline": f"pci={evil} iommu=pt\n"}
    monkeypatch.setattr(seen, "connect", lambda target, **_: Rig(target.name, texts))

    rigops("init", "--host", "tower")

    assert "\n    import os" not in (tmp_path / "inventory.py").read_text()
    load(tmp_path / "inventory.py", keys())
