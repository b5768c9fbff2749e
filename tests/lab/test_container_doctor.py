"""Doctor on hosts whose containers keep their cards, will lose them, or have lost them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from rigops.probe.script import script
from rigops.probe.sections import gpu_cgroups, uname
from tests.lab import containers, cost
from tests.lab.laptop import Laptop
from tests.shards import LAB_CONTAINERS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.lab.conftest import Lab
    from tests.lab.containers import Container
    from tests.lab.hosts import Host

pytestmark = pytest.mark.shard(LAB_CONTAINERS)

RIG = "nvlink-2x3090"
MOST_PROCESSES = 4


@dataclass(frozen=True)
class Asked:
    host: Host
    laptop: Laptop

    def findings(self) -> dict[str, Mapping[str, Any]]:
        """By check and container, as `cut hooked`."""
        self.laptop.declare({self.host.name: {}})
        only = ("--only", "container.cut", "--only", "container.reload")
        seen = self.laptop.doctor("-i", "inventory.py", *only).seen(self.host.name)
        assert (seen.host["notes"], seen.host["unread"]) == ([], {})
        return {
            f"{one['id'].rpartition('.')[2]} {_name(one['subject'])}": one
            for one in seen.host["findings"]
        }

    def statuses(self) -> dict[str, str]:
        return {name: one["status"] for name, one in self.findings().items()}


def _name(subject: str) -> str:
    """`docker-1a2b1a2b1a2b (hooked)` is hooked."""
    return subject.rpartition("(")[2].removesuffix(")")


@pytest.fixture(scope="module", params=["bookworm", "trixie"])
def asked(
    request: pytest.FixtureRequest, module_lab: Lab, tmp_path_factory: pytest.TempPathFactory
) -> Asked:
    host = module_lab.one(RIG, f"suite={request.param}", "containers=on")
    return Asked(host, Laptop(tmp_path_factory.mktemp("laptop")))


def processes(host: Host) -> int:
    """That the section takes beyond a script with another one."""
    counts = [
        cost.of_script(host, script([one])).processes
        for _ in range(3)
        for one in (uname.SECTION, gpu_cgroups.SECTION)
    ]
    return min(counts[1::2]) - min(counts[::2])


@pytest.fixture(scope="module")
def hooked(asked: Asked) -> Container:
    assert asked.statuses() == {"cut host": "skipped", "reload host": "skipped"}
    assert processes(asked.host) <= 0
    return containers.start(asked.host, "hooked")


def test_a_container_that_the_hook_gave_its_cards_will_lose_them(
    asked: Asked, hooked: Container
) -> None:
    found = asked.findings()["reload hooked"]

    assert found["status"] == "warn"
    assert found["subject"] == f"docker-{hooked.id[:12]} (hooked)"
    assert found["summary"] == "its cards go at the next reload of systemd"
    assert asked.statuses()["cut host"] == "ok"


def test_it_costs_few_processes(asked: Asked, hooked: Container) -> None:
    assert hooked.may_open()
    assert processes(asked.host) <= MOST_PROCESSES


def test_what_doctor_prints_protects_it_from_a_reload(asked: Asked, hooked: Container) -> None:
    told = _command(asked.findings()["reload hooked"])
    assert asked.host.run(told).returncode == 0

    containers.reload(asked.host, hooked.slice)

    assert hooked.may_open()
    assert asked.statuses() == {"cut host": "ok", "reload host": "ok"}


def test_one_that_lost_its_cards_gets_them_back_without_a_restart(
    asked: Asked, hooked: Container
) -> None:
    hooked.restart()  # with a scope of its own again
    containers.reload(asked.host, hooked.slice)
    assert not hooked.may_open()
    found = asked.findings()["cut hooked"]
    assert found["status"] == "fail"
    assert "systemd reloaded at 20" in found["summary"]

    assert asked.host.run(_command(found)).returncode == 0

    assert hooked.may_open()
    assert asked.statuses() == {"cut host": "ok", "reload host": "ok"}


@pytest.mark.parametrize("runtime", ["runc", "crun"])
def test_podman_s_containers_with_nodes_are_told_apart(
    asked: Asked, hooked: Container, runtime: Any
) -> None:
    del hooked
    name = f"named-{runtime}"
    named = containers.start(asked.host, name, engine="podman", runtime=runtime, way="cdi")
    before = asked.statuses().get(f"reload {name}", "ok")

    containers.reload(asked.host, named.slice)

    after = asked.statuses().get(f"cut {name}", "ok")
    assert (before == "warn", after == "fail") == (not named.may_open(), not named.may_open())
    named.remove()


def _command(found: Mapping[str, Any]) -> str:
    (command,) = re.findall(r"`sudo (systemctl [^`]*)`", found["remedy"]["text"])
    return str(command)
