"""`rigops drivers --host` on booted hosts: what real apt offers there, judged."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.lab.applying import VERBOSE, sessions
from tests.lab.laptop import Laptop
from tests.lab.tree import Tree
from tests.shards import LAB_DRIVER

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from tests.lab.conftest import Lab
    from tests.lab.hosts import Host
    from tests.lab.laptop import Said

pytestmark = pytest.mark.shard(LAB_DRIVER)

RIGS = ("threadripper-3x3090", "fresh-install", "ubuntu-trap")
NEWER = "6.1.0-50-amd64"  # apt has its headers
ALWAYS_CHANGES = ("/var/log/", "/run/")
# Two kernels more whose headers are not there: of one nobody has them.
NEW_KERNELS = f"cd /boot && touch vmlinuz-{NEWER} vmlinuz-6.1.0-99-none"


@pytest.fixture(scope="module")
def rigs(module_lab: Lab) -> Mapping[str, Host]:
    booted = dict(zip(RIGS, module_lab.up(*RIGS), strict=True))
    booted["threadripper-3x3090"].run(NEW_KERNELS)
    for rig in booted.values():
        rig.run(VERBOSE)
    return booted


@pytest.fixture(scope="module")
def laptop(rigs: Mapping[str, Host], tmp_path_factory: pytest.TempPathFactory) -> Laptop:
    laptop = Laptop(tmp_path_factory.mktemp("laptop"))
    laptop.declare({rig.name: {} for rig in rigs.values()})
    return laptop


@pytest.fixture(scope="module")
def asked(laptop: Laptop, rigs: Mapping[str, Host]) -> Mapping[str, dict[str, Any]]:
    """What each is said to be able to run; they are asked together, and left as they were."""
    names = ",".join(rig.name for rig in rigs.values())
    before = {rig.name: (Tree(rig), sessions(rig)) for rig in rigs.values()}
    said = laptop.rigops("drivers", "--host", names, "-i", "inventory.py", "--json")
    for rig in rigs.values():
        tree, count = before[rig.name]
        assert sessions(rig) - count - 1 == 1  # and the look into the log itself
        changed = {one for one in tree.differences(Tree(rig)) if not one.startswith(ALWAYS_CHANGES)}
        assert changed == set()
    assert (said.code, "Traceback" in said.err) == (0, False), said.err
    hosts = {one["host"]: one for one in said.json()["hosts"]}
    return {rig: hosts[host.name] for rig, host in rigs.items()}


def option(host: dict[str, Any], version: str) -> dict[str, Any]:
    found: dict[str, Any] = next(one for one in host["offered"] if one["version"] == version)
    return found


def of(laptop: Laptop, rig: Host) -> Said:
    return laptop.rigops("drivers", "--host", rig.name, "-i", "inventory.py")


def test_545_is_marked_bad_and_what_to_have_is_told(asked: Mapping[str, dict[str, Any]]) -> None:
    host = asked["threadripper-3x3090"]

    assert host["loaded"] == {"version": "545.29.06", "flavour": "proprietary", "status": "bad"}
    assert host["installed"]["status"] == "bad"
    assert [gpu["model"] for gpu in host["gpus"]] == ["GeForce RTX 3090"] * 3
    bad = option(host, "545.29.06")
    assert (bad["status"], bad["fits"]) == ("bad", False)
    assert "NVIDIA/nccl#1127" in bad["why"]
    assert host["recommended"]["version"] == "535.261.03"
    assert host["recommended"]["declare"] == {"driver": "535"}
    assert "545.29.06" in host["recommended"]["why"]
    assert host["refusal"] is None


def test_kernels_without_headers_are_looked_after(asked: Mapping[str, dict[str, Any]]) -> None:
    """Those that apt has would come along; those that nobody has are told."""
    host = asked["threadripper-3x3090"]

    assert {"release": NEWER, "headers": False} in host["kernels"]
    (note,) = host["recommended"]["notes"]
    assert "no source has linux-headers-6.1.0-99-none" in note


def test_a_fresh_install_is_offered_nothing_and_told_where_there_is_some(
    asked: Mapping[str, dict[str, Any]], laptop: Laptop, rigs: Mapping[str, Host]
) -> None:
    host = asked["fresh-install"]

    assert (host["offered"], host["recommended"], host["loaded"]) == ([], None, None)
    assert 'declare "driver_source": "distribution"' in host["refusal"]["cure"]
    assert "535.261.03" in host["refusal"]["cure"]
    text = of(laptop, rigs["fresh-install"]).out
    assert '"driver_source": "distribution"' in text
    assert "on offer: nothing" in text


def test_a_name_that_brings_another_driver_is_told_as_the_trap_that_it_is(
    asked: Mapping[str, dict[str, Any]], laptop: Laptop, rigs: Mapping[str, Host]
) -> None:
    host = asked["ubuntu-trap"]

    trap, real = option(host, "535.309.01"), option(host, "535.171.04")
    assert not trap["fits"]
    assert "what is named 535 here is not 535" in trap["why"]
    assert "580" in trap["why"]
    assert (real["fits"], real["from"]) == (True, ["noble/restricted"])
    assert host["recommended"]["version"] == "580.178.04"
    assert "what is named 535 here is not 535" in of(laptop, rigs["ubuntu-trap"]).out


def test_what_is_declared_is_resolved_as_plan_would(
    laptop: Laptop, rigs: Mapping[str, Host]
) -> None:
    rig = rigs["ubuntu-trap"]
    other = Laptop(laptop.folder / "declaring")
    other.folder.mkdir()
    other.declare({rig.name: {"driver": "535"}})

    (host,) = other.rigops("drivers", "--host", rig.name, "--json").json()["hosts"]
    plan = other.rigops("plan", "--only", "nvidia_driver", "--json").json()

    assert host["declared"]["version"] == "535.171.04"
    assert "535.171.04" in str(plan["hosts"][0]["packages"])


def test_a_declared_folder_is_looked_into_as_plan_would(
    laptop: Laptop, rigs: Mapping[str, Host], tmp_path: Path
) -> None:
    rig, good = rigs["threadripper-3x3090"], "535.261.03"
    head = f'#!/bin/sh\nlabel="NVIDIA Accelerated Graphics Driver for Linux-x86_64 {good}"\n'
    file = tmp_path / f"NVIDIA-Linux-x86_64-{good}.run"
    file.write_text(head)
    other = Laptop(laptop.folder / "folder")
    other.folder.mkdir()
    other.declare({rig.name: {"driver": "535", "driver_source": f"dir:{tmp_path}"}})

    (host,) = other.rigops("drivers", "--host", rig.name, "--json").json()["hosts"]
    plan = other.rigops("plan", "--only", "nvidia_driver", "--json").json()
    file.write_text("<html>Not found</html>")
    (broken,) = other.rigops("drivers", "--host", rig.name, "--json").json()["hosts"]

    assert (host["declared"]["version"], host["declared"]["refusal"]) == (good, None)
    assert f"{tmp_path} on this machine" in option(host, good)["from"]
    assert plan["hosts"][0]["blocked"] == []
    assert good in str(plan["hosts"][0]["changes"])
    assert "does not begin like NVIDIA's installer" in broken["declared"]["refusal"]["reason"]
    assert broken["recommended"]["version"] == good
    assert broken["recommended"]["declare"] == {"driver": "535", "driver_source": "auto"}
