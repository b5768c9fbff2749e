"""Every mistake people make in an inventory: exit 2, the place, the key and the fix."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

    from tests.unit.cli.conftest import Rigops

UUID = "GPU-0f7a6b0a-9c1e-4d55-8b3e-0123456789ab"


def host(data: str) -> str:
    return f'rigs = [("box", {{{data}}})]\n'


# What was written, and what the answer has to say.
WRONG = {
    "typo in a host's key": (host('"gpu_power_limt": 285'), ["gpu_power_limt", "gpu_power_limit"]),
    "typo without a reserved prefix": (host('"kernelargs": []'), ["kernelargs", "kernel_args"]),
    "key in capitals": (host('"DRIVER": "535"'), ["DRIVER", "'driver'"]),
    "concern for a key": (host('"thermal_guard": 83'), ["thermal_guard", "'thermal_limit'"]),
    "another concern for a key": (host('"gpu_tuning": 83'), ["'gpu_power_limit'"]),
    "key without its prefix": (host('"power_limit": 285'), ["power_limit", "gpu_power_limit"]),
    "unknown key under a reserved prefix": (
        host('"gpu_color": "red"'),
        ["gpu_color", "x_gpu_color"],
    ),
    "typo inside a dict": (
        host('"snapshots": {"subvolumes": ["/"], "kep": "7d"}'),
        ["snapshots['kep']", "did you mean 'keep'"],
    ),
    "version as a float": (host('"driver": 535.183'), ["driver", "in quotes"]),
    "package name for a driver": (host('"driver": "nvidia-driver-535"'), ["driver", '"535"']),
    "latest for a driver": (host('"driver": "latest"'), ["driver", '">=535,<536"']),
    "specifier that nothing satisfies": (
        host('"driver": ">=536,<535"'),
        ["driver", "no version can satisfy"],
    ),
    "specifier that is none": (host('"driver": ">>535"'), ["driver", "not a version range"]),
    "unknown flavor": (host('"driver_flavor": "opne"'), ["driver_flavor", "did you mean 'open'"]),
    "unsigned source": (
        host('"driver_source": {"URIs": "file:/a", "Suites": "./", "Trusted": "yes"}'),
        ["driver_source['Trusted']", "Signed-By"],
    ),
    "login in a source": (
        host('"driver_source": {"URIs": "https://me:hunter2@a/b", "Suites": "s"}'),
        ["driver_source['URIs']", "auth.conf.d"],
    ),
    "kernel arguments as one text": (host('"kernel_args": "iommu=pt"'), ["['iommu=pt']"]),
    "unsafe kernel argument": (
        host('"kernel_args": ["quiet; rm -rf /"]'),
        ["kernel_args[0]", "letters, digits"],
    ),
    "kernel argument that runs a command": (
        host('"kernel_args": ["a=$(reboot)"]'),
        ["kernel_args[0]", "dollar"],
    ),
    "two kernel arguments in one": (
        host('"kernel_args": ["iommu=pt quiet"]'),
        ["'iommu=pt', 'quiet'"],
    ),
    "the same kernel argument twice": (host('"kernel_args": ["a", "a"]'), ["kernel_args[1]"]),
    "number as text for a boolean": (host('"gpu_persistence": "yes"'), ["write True"]),
    "boolean for a number of GPUs": (host('"gpus": True'), ["gpus", "number of GPUs"]),
    "bad GPU UUID": (host('"gpus": ["GPU-123"]'), ["gpus[0]", "nvidia-smi -L"]),
    "GPU by its number": (host('"gpu_power_limit": {0: 285}'), ["UUID, PCI address"]),
    "power limit with a wrong unit": (host('"gpu_power_limit": "285kW"'), ['"285W"']),
    "power limit out of every range": (host('"gpu_power_limit": 99999'), ["99999 W is outside"]),
    "more than the whole": (host('"gpu_power_limit": "180%"'), ["outside 0 to 100"]),
    "clocks upside down": (host('"gpu_clocks": "graphics=1410,210"'), ["graphics=210,1410"]),
    "frequency without a unit": (host('"cpu_max_freq": 3200'), ['"3.2GHz"']),
    "unknown governor": (host('"cpu_governor": "perfomance"'), ["'performance'"]),
    "boiling temperature": (host('"thermal_limit": 300'), ["300 °C is outside"]),
    "margin of a whole room": (
        host('"thermal_limit": {"margin": 80}'),
        ["thermal_limit['margin']", "80 °C is outside"],
    ),
    "circuit without volts": (host('"circuits": "16A"'), ['"120V/15A"']),
    "power supply on no circuit": (
        host('"psus": [{"watts": 750, "circuit": "B"}], "circuits": {"A": "120V/15A"}'),
        ["psus[0]['circuit']", "unknown circuit 'B'"],
    ),
    "plain passphrase": (
        host('"borg": {"repository": "/b", "paths": ["/h"], "passphrase": "hunter2"}'),
        ["borg['passphrase']", "passphrase_command"],
    ),
    "plain passphrase in disguise": (
        host('"borg": {"repository": "/b", "paths": ["/h"], "passphrase_command": "echo hunter2"}'),
        ["borg['passphrase_command']", "plain text"],
    ),
    "password in a repository": (
        host('"borg": {"repository": "ssh://me:hunter2@nas/b", "paths": ["/h"]}'),
        ["borg['repository']", "password"],
    ),
    "backup that keeps nothing known": (
        host('"borg": {"repository": "/b", "paths": ["/h"], "keep": "7 days"}'),
        ["borg['keep']", "24h 7d 4w"],
    ),
    "relative path": (
        host('"snapshots": {"subvolumes": ["home"]}'),
        ["snapshots['subvolumes'][0]", "absolute path"],
    ),
    "constant list": ('DRIVERS = ["535", "545"]\nrigs = ["box"]\n', ["DRIVERS", "_DRIVERS"]),
    "constant list of words": ('KERNEL_ARGS = ["quiet"]\nrigs = ["box"]\n', ["_KERNEL_ARGS"]),
    "constant list that no host is in": ('args = ["iommu=pt"]\nrigs = ["box"]\n', ["_args"]),
    "constant tuple": ('DRIVER = ("535", "545")\nrigs = ["box"]\n', ["DRIVER", "_DRIVER"]),
    "empty tuple": ('NOTHING = ()\nrigs = ["box"]\n', ["NOTHING", "_NOTHING"]),
    "host with its user": ('rigs = ["me@box:2222"]\n', ["'ssh_user': 'me'", "'ssh_port': 2222"]),
    "host as a list": ('rigs = ["a", ["box", {}]]\n', ['("name", {data})']),
    "number for an address": ('rigs = ["10.0.0"]\n', ["'10.0.0' is not a host name"]),
    "data without a name": ('rigs = [("", {})]\n', ["rigs"]),
    "port that is none": (host('"ssh_port": "ssh"'), ["ssh_port", "1 to 65535"]),
    "option smuggled into a host name": (
        host('"ssh_hostname": "-oProxyCommand=reboot"'),
        ["ssh_hostname", "host name or address"],
    ),
    "line break smuggled into a user": (
        host('"ssh_user": "me\\n  ProxyCommand reboot"'),
        ["ssh_user", "user name"],
    ),
    "syntax error": ('rigs = [("box", {)]\n', ["inventory.py:1", "not valid Python"]),
    "import error": ("import nosuchmodule\n", ["inventory.py:1", "install 'nosuchmodule'"]),
    "name error": ('rigs = [("box", {"driver": v535})]\n', ["inventory.py:1", "NameError"]),
    "true as in JSON": (
        'rigs = [("box", {"gpu_persistence": true})]\n',
        ["inventory.py:1", "fix: write True"],
    ),
    "a program that ends": ("import sys\nsys.exit(0)\n", ["inventory.py:2", "SystemExit"]),
    "empty file": ("", ["no host", "rigs = ["]),
    "nothing but constants": ('_a = ["b"]\nc = 1\n', ["no host"]),
    "not text": ("\udcff", ["UTF-8"]),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_inventory_is_refused_with_its_place_and_the_fix(
    name: str, rigops: Rigops, tmp_path: Path
) -> None:
    text, expected = WRONG[name]
    (tmp_path / "inventory.py").write_bytes(text.encode(errors="surrogateescape"))

    said = rigops("ssh-config")

    assert said.code == 2
    assert said.out == ""
    assert "inventory.py" in said.err
    for fragment in expected:
        assert fragment in said.err
    assert "Traceback" not in said.err
    assert "hunter2" not in said.err
    as_json = rigops("ssh-config", "--json")
    assert as_json.code == 2
    assert as_json.json()["schema"] == "rigops.error/1"
    assert "hunter2" not in as_json.out


def test_a_missing_inventory_is_named_with_the_ways_to_name_one(rigops: Rigops) -> None:
    said = rigops("ssh-config", "-i", "nowhere.py")

    assert said.code == 2
    assert "nowhere.py" in said.err
    assert "`rigops init`" in said.err


def test_a_folder_is_no_inventory(rigops: Rigops, tmp_path: Path) -> None:
    (tmp_path / "rigs").mkdir()

    said = rigops("ssh-config", "-i", "rigs")

    assert said.code == 2
    assert "rigs" in said.err


def test_all_mistakes_are_shown_at_once_and_each_with_its_line(
    rigops: Rigops, tmp_path: Path
) -> None:
    (tmp_path / "group_data").mkdir()
    (tmp_path / "group_data/rigs.py").write_text('x_mine = 1\ngpu_clocks = "fast"\n')
    (tmp_path / "inventory.py").write_text(
        'DRIVERS = ["535", "545"]\n'
        "rigs = [\n"
        '    ("one", {\n'
        '        "driver": "lates",\n'
        '        "gpu_power_limit": -5,\n'
        "    }),\n"
        '    "two",\n'
        "]\n"
        'more = (["one"], {"p2p": "always"})\n'
    )

    said = rigops("ssh-config")

    assert said.code == 2
    assert said.err.startswith("5 errors:\n")
    for place in (
        "inventory.py:1: DRIVERS",
        "inventory.py:4: host one: driver",
        "inventory.py:5: host one: gpu_power_limit",
        "inventory.py:9: host one: p2p",
        "group_data/rigs.py:2: host one, two: gpu_clocks",
    ):
        assert place in said.err


def test_an_error_as_json_has_the_fields_of_its_schema(rigops: Rigops, tmp_path: Path) -> None:
    (tmp_path / "inventory.py").write_text(host('"gpu_power_limit": "285kW"'))

    (error,) = rigops("ssh-config", "--json").json()["errors"]

    assert {"file", "host", "key", "value", "accepted", "message"} <= error.keys()
    assert error["file"] == "inventory.py"
    assert error["host"] == "box"
    assert error["key"] == "gpu_power_limit"
    assert error["value"] == "'285kW'"
    assert '"285W"' in error["accepted"]


def test_a_broken_group_data_file_does_not_hide_the_inventorys_own_mistakes(
    rigops: Rigops, tmp_path: Path
) -> None:
    (tmp_path / "group_data").mkdir()
    (tmp_path / "group_data/all.py").write_text("driver = = 5\n")
    (tmp_path / "inventory.py").write_text(host('"p2p": "maybe"'))

    said = rigops("ssh-config")

    assert "group_data/all.py:1" in said.err
    assert "p2p" in said.err


def test_a_key_that_stands_alone_at_the_top_is_warned_about(rigops: Rigops, tmp_path: Path) -> None:
    (tmp_path / "inventory.py").write_text('driver = "535"\nrigs = ["box"]\n')

    said = rigops("ssh-config")

    assert said.code == 0
    assert "driver at the top level" in said.err


def test_group_data_for_a_misspelled_group_is_warned_about(rigops: Rigops, tmp_path: Path) -> None:
    (tmp_path / "group_data").mkdir()
    (tmp_path / "group_data/rig.py").write_text('driver = "535"\n')
    (tmp_path / "group_data/of_another_inventory.py").write_text('driver = "535"\n')
    (tmp_path / "inventory.py").write_text('rigs = ["box"]\n')

    said = rigops("ssh-config")

    assert said.code == 0
    assert "no group 'rig'; this file declares nothing; did you mean 'rigs'?" in said.err
    assert "another" not in said.err


def test_what_an_inventory_prints_stays_out_of_the_output(rigops: Rigops, tmp_path: Path) -> None:
    (tmp_path / "inventory.py").write_text('print("hello")\nrigs = ["box"]\n')

    said = rigops("ssh-config", "--json")

    assert said.json()["hosts"][0]["host"] == "box"
    assert "hello" in said.err


@pytest.mark.parametrize(
    "data",
    [
        '"x_gpu": 1, "rack": 3, "ssh_user": "me", "_sudo": True',
        '"driver": None, "gpu_power_limit": None',
        f'"gpu_power_limit": {{"{UUID}": 285, "0A:00.0": "250W", "3090": "80%", "default": 300}}',
        '"kernel_args": [], "module_options": {}, "limits": {}, "nccl": {}, "borg": {}',
    ],
)
def test_what_is_right_is_left_alone(data: str, rigops: Rigops, tmp_path: Path) -> None:
    (tmp_path / "inventory.py").write_text(host(data))

    assert rigops("ssh-config").code == 0
