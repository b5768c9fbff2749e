"""Containers with cards while rigops changes their host: real engines, real reloads of systemd."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import pytest

from tests.lab import hosts
from tests.lab.containers import reload, start, start_unit
from tests.lab.laptop import Laptop
from tests.lab.tended import Tended
from tests.shards import LAB_CONTAINERS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tests.lab.containers import Container

pytestmark = pytest.mark.shard(LAB_CONTAINERS)

SUITES: Final = ("bookworm", "trixie")
NODES: Final = ("nvidiactl", "nvidia0")


@dataclass(frozen=True)
class Rig(Tended):
    """Each declaration has another size of /dev/shm, whose unit is loaded: it has to be reread."""

    sizes: list[int] = field(default_factory=lambda: [64])

    @property
    def size(self) -> int:
        return self.sizes[-1]

    def change(self, code: int = 0, *options: str, **declared: object) -> Mapping[str, Any]:
        self.sizes.append(self.size + 1)
        return self.apply(code, *options, limits={"shm": f"{self.size}M"}, **declared)

    def planned(self, code: int = 0, **declared: object) -> Mapping[str, Any]:
        return self.plan(code, limits={"shm": f"{self.size + 1}M"}, **declared)

    def may_open(self, container: Container) -> bool:
        """Also once systemd 257 has brought its rules into force: with the next unit."""
        self.does(start_unit(container.slice))
        return all(container.may_open(node) for node in NODES)


@pytest.fixture(scope="module", params=SUITES)
def rig(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    name = f"kept-{request.param}"
    options = ["containers=on", f"suite={request.param}"]
    with hosts.running([f"threadripper-3x3090={name}", *options]) as (host,):
        rig = Rig(Laptop(tmp_path_factory.mktemp("laptop")), host)
        rig.change()
        yield rig


def of(host: Mapping[str, Any]) -> dict[str, str]:
    return {one["name"]: one["state"] for one in host["gpu_containers"]}


@pytest.mark.parametrize(
    ("engine", "runtime"),
    [("docker", "runc"), ("docker", "crun"), ("podman", "runc"), ("podman", "crun")],
)
def test_a_container_keeps_its_cards_through_a_reload_of_apply(
    rig: Rig, engine: Any, runtime: Any
) -> None:
    is_kept_by_its_runtime = runtime == "crun" and rig.host.name == "kept-bookworm"
    container = start(rig.host, "vllm", engine=engine, runtime=runtime)
    try:
        (planned,) = rig.planned()["gpu_containers"]
        applied = rig.change()

        assert (planned["name"], planned["engine"]) == ("vllm", engine)
        assert planned["unit"] == container.unit
        told = [one["subject"] for one in applied["changes"] if one["concern"] == "gpu_containers"]
        assert (planned["state"] == "kept") == is_kept_by_its_runtime
        assert told == ([] if is_kept_by_its_runtime else ["cards of vllm"])
        assert rig.may_open(container)
        reload(rig.host, container.slice)
        assert rig.may_open(container)
        assert of(rig.planned()) == {"vllm": "kept"}
    finally:
        container.remove()


def test_one_that_was_cut_has_its_cards_again_and_its_neighbor_keeps_them(rig: Rig) -> None:
    first = start(rig.host, "first")
    reload(rig.host, first.slice)
    second = start(rig.host, "second", cards=(1,))
    try:
        was_cut = not first.may_open()
        states = of(rig.planned())
        rig.change()

        assert was_cut
        assert states == {"first": "cut", "second": "at_risk"}
        assert rig.may_open(first)
        assert second.may_open("nvidia1")
        assert not second.may_open("nvidiactl") or second.may_open("nvidia1")
    finally:
        first.remove()
        second.remove()


def test_what_cannot_be_read_is_refused_by_name(rig: Rig) -> None:
    container = start(rig.host, "vllm")
    python = rig.does("readlink -f /usr/bin/python3")
    rig.does(f"mv {python} {python}.away")
    try:
        refused = rig.planned(1)
        assert of(refused) == {"": "unreadable"}
        (blocked,) = [one for one in refused["blocked"] if one["concern"] == "base"]
        assert container.unit[:15] in blocked["reason"]
        assert "--allow-busy" in blocked["reason"]
        assert rig.change(1)["outcome"] == "refused"
        assert rig.may_open(container)
    finally:
        rig.does(f"mv {python}.away {python}")
        container.remove()


def test_refuse_names_the_containers_and_leave_changes_below_them(rig: Rig) -> None:
    container = start(rig.host, "vllm")
    try:
        refused = rig.planned(1, gpu_containers="refuse")
        (blocked,) = [one for one in refused["blocked"] if one["concern"] == "base"]
        assert blocked["reason"].startswith("containers use the cards (vllm)")
        assert rig.change(0, "--allow-busy", gpu_containers="refuse")["outcome"] == "changed"
        assert rig.may_open(container)
        container.restart()
        left = rig.change(gpu_containers="leave")
        assert any(text.startswith("vllm may lose the cards") for text in left["notices"])
        assert not rig.may_open(container)
    finally:
        container.remove()


def test_a_host_as_declared_is_not_asked_for_containers(rig: Rig) -> None:
    container = start(rig.host, "vllm")
    try:
        planned = rig.plan(limits={"shm": f"{rig.size}M"})
        assert planned["status"] == "converged"
        assert planned["gpu_containers"] == []
    finally:
        container.remove()
