"""What an apply does about containers with cards, by what systemd and their runtime allow."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, cast

import pytest

from rigops.converge import gpu_containers
from rigops.converge.errors import DeployError
from rigops.plan.change import Change, Package, PackageChanges, Plan
from rigops.probe.bundle import Bundle, Collected
from rigops.probe.gpu_units import Device, GpuUnit
from rigops.transport import Result

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from rigops.converge.gpu_containers import GpuContainer

CTL = Device(195, 255, "rw")
UVM = Device(508, 0, "rw")
LEGACY = GpuUnit(
    unit="docker-1a2b.scope", cgroup="/system.slice/docker-1a2b.scope", engine="docker",
    name="vllm", policy="strict", runtime=(CTL, UVM), systemd=(CTL, UVM),
)  # fmt: skip
TOLD = GpuUnit(
    unit="docker-2b3c.scope", cgroup="/system.slice/docker-2b3c.scope", engine="docker",
    name="tgi", policy="strict", told=(CTL, UVM), runtime=(CTL, UVM), systemd=(CTL, UVM),
)  # fmt: skip
CUT = GpuUnit(
    unit="libpod-3c4d.scope", cgroup="/machine.slice/libpod-3c4d.scope", engine="podman",
    policy="strict", runtime=(CTL,), systemd=(),
)  # fmt: skip
UNREAD = GpuUnit(unit="docker-4d5e.scope", cgroup="/x", engine="docker", policy="strict")
FREE = GpuUnit(unit="docker-5e6f.scope", cgroup="/y", engine="docker", name="free")
SERVICE = GpuUnit(unit="ollama.service", cgroup="/system.slice/ollama.service")

UPGRADE = {"base": PackageChanges(upgrade=(Package("curl", "1", "2"),))}
NEW_UNIT = Change("gpu_tuning", "unit", "/etc/systemd/system/a.service", None, "x")
CHANGED_UNIT = Change("gpu_tuning", "unit", "/etc/systemd/system/a.service", "x", "y")


@dataclass
class Host:
    """`units`: those of each look, the last one for all that follow."""

    looks: list[tuple[GpuUnit, ...]]
    scripts: list[str] = field(default_factory=list)
    stderr: bytes = b""

    def wrap(self, argv: Sequence[str]) -> list[str]:
        return list(argv)

    def run(self, _: Sequence[str], stdin: bytes, __: float) -> Result:
        self.scripts.append(stdin.decode())
        return Result(exit_code=0, stdout=b"", stderr=self.stderr)


def host(monkeypatch: pytest.MonkeyPatch, *looks: tuple[GpuUnit, ...]) -> Host:
    found = Host(list(looks))

    def find(channel: Host) -> tuple[GpuContainer, ...]:
        units = channel.looks.pop(0) if len(channel.looks) > 1 else channel.looks[0]
        return gpu_containers.containers(units)

    monkeypatch.setattr(gpu_containers, "find", find)
    return found


def planned(
    units: Iterable[GpuUnit],
    plan: Plan,
    how: Literal["protect", "refuse", "leave"] = "protect",
    *,
    may_interrupt: bool = False,
) -> tuple[GpuContainer, ...]:
    return gpu_containers.add_to(
        plan, lambda: gpu_containers.containers(tuple(units)), how, may_interrupt=may_interrupt
    )


def rows(changes: Iterable[Change]) -> list[str]:
    return [f"{one.subject}: {one.before} -> {one.after}" for one in changes]


@pytest.mark.parametrize("plan", [Plan(), Plan(changes=(NEW_UNIT,))])
def test_where_nothing_has_systemd_reload_nobody_looks(plan: Plan) -> None:
    def find() -> tuple[GpuContainer, ...]:
        raise AssertionError

    assert gpu_containers.add_to(plan, find, "protect", may_interrupt=False) == ()


@pytest.mark.parametrize("plan", [Plan(packages_by=UPGRADE), Plan(changes=(CHANGED_UNIT,))])
def test_what_a_reload_would_take_is_kept_first_and_what_it_took_comes_back(
    plan: Plan,
) -> None:
    found = planned((LEGACY, TOLD, CUT, FREE, SERVICE), plan)

    assert rows(plan.changes)[:2] == [
        "cards of vllm: lost at the next reload of systemd -> kept",
        "cards of libpod-3c4d: lost -> kept",
    ]
    assert not plan.blocked
    assert [(one.title, one.state, one.devices) for one in found] == [
        ("vllm", "at_risk", ("195:255", "508:0")),
        ("tgi", "kept", ()),
        ("libpod-3c4d", "cut", ("195:255",)),
        ("free", "kept", ()),
    ]


@pytest.mark.parametrize(
    ("how", "units", "may_interrupt", "says"),
    [
        ("protect", (UNREAD, LEGACY), False, "(docker-4d5e): stop them first, or --allow-busy"),
        ("refuse", (TOLD,), False, "containers use the cards (tgi): stop them first"),
        ("protect", (UNREAD,), True, ""),
        ("refuse", (TOLD,), True, ""),
        ("leave", (UNREAD, LEGACY), False, ""),
        ("refuse", (), False, ""),
    ],
)
def test_what_cannot_be_kept_is_in_the_way(
    how: Literal["protect", "refuse", "leave"],
    units: tuple[GpuUnit, ...],
    may_interrupt: bool,  # noqa: FBT001 - a parameter of the test
    says: str,
) -> None:
    plan = Plan(packages_by=UPGRADE)

    planned(units, plan, how, may_interrupt=may_interrupt)

    assert [concern for concern, _ in plan.blocked] == (["base"] if says else [])
    assert all(says in reason for _, reason in plan.blocked)
    assert not plan.changes


def test_what_is_left_alone_is_named() -> None:
    plan = Plan(packages_by=UPGRADE)

    planned((LEGACY, TOLD), plan, "leave")

    assert [text for _, text in plan.notices] == [
        "vllm may lose the cards where systemd reloads: create it again then"
    ]


def test_a_change_of_the_driver_names_what_runs_above_it() -> None:
    plan = Plan(packages_by={"nvidia_driver": PackageChanges(install=(Package("a", None, "1"),))})

    planned((TOLD,), plan)

    ((_, text),) = plan.notices
    assert text.startswith("the driver changes below tgi: ")


def test_all_are_told_in_one_go_and_looked_at_again(monkeypatch: pytest.MonkeyPatch) -> None:
    after = (TOLD, GpuUnit(unit="docker-9.scope", cgroup="/", policy="strict", runtime=(CTL,)))
    at = host(monkeypatch, (LEGACY, CUT, TOLD), after)

    told = gpu_containers.protect(cast("Any", at), "protect")

    assert [one.unit for one in told] == [LEGACY.unit, CUT.unit]
    assert at.scripts == [
        (
            "systemctl set-property --runtime -- docker-1a2b.scope "
            "'DeviceAllow=/dev/char/195:255 rw' 'DeviceAllow=/dev/char/508:0 rw'\n"
            "systemctl set-property --runtime -- libpod-3c4d.scope "
            "'DeviceAllow=/dev/char/195:255 rw'"
        )
    ]
    gpu_containers.require_kept(cast("Any", at), told)  # a newer container is no part of it


def test_a_container_that_cannot_be_kept_ends_the_run_before_its_changes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    at = host(monkeypatch, (LEGACY,))
    at.stderr = b"Failed to set unit properties: Access denied\n"

    with pytest.raises(DeployError) as error:
        gpu_containers.protect(cast("Any", at), "protect")

    assert "the cards of vllm cannot be kept" in str(error.value)
    assert "Access denied" in str(error.value)


def test_one_that_systemd_forgot_meanwhile_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    at = host(monkeypatch, (LEGACY,))

    with pytest.raises(DeployError, match="no longer knows the cards of vllm"):
        gpu_containers.require_kept(cast("Any", at), gpu_containers.containers((LEGACY,)))


def test_nothing_is_told_where_it_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    at = host(monkeypatch, (LEGACY,))

    assert gpu_containers.protect(cast("Any", at), "leave") == ()
    assert at.scripts == []


SPECS = """== stat cdi
1700000000 /etc/cdi/nvidia.yaml
1700000000 /var/run/cdi/nvidia.yaml
== grep libcuda cdi
/etc/cdi/nvidia.yaml:libcuda.so.535.183.01
/var/run/cdi/nvidia.yaml:libcuda.so.535.261.03
== stat libcuda
1700000000 /usr/lib/x86_64-linux-gnu/libcuda.so.535.261.03
"""


def test_after_a_new_driver_specs_are_renewed_and_a_stale_one_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    answer = Bundle("rig", None, root=True, sections={"container": Collected(SPECS)})
    monkeypatch.setattr(gpu_containers, "_asked", lambda *_: answer)
    at = Host([])

    (said,) = gpu_containers.stale_specs(cast("Any", at))

    assert said.startswith("/etc/cdi/nvidia.yaml names driver 535.183.01, which is no longer there")
    assert "systemctl restart nvidia-cdi-refresh.service" in at.scripts[0]
