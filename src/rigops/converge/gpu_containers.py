"""Containers with cards while a host is changed: a reload of systemd must not take their cards.

Its own rules for devices come into force again with each reload, and they lack what the runtime
allowed behind its back. So systemd gets these devices first, of all units in one go:
from 257 on each order to one of them may bring the rules of its neighbors into force.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

from rigops.concerns import registry
from rigops.converge.connector import HostChannel
from rigops.converge.errors import DeployError
from rigops.dataclass import dataclass
from rigops.inventory.spec.model import GpuContainers as How
from rigops.ownership.file_work import unit_changed_by
from rigops.plan.change import Change, Plan
from rigops.probe.bundle import Bundle
from rigops.probe.collect import collect
from rigops.probe.gpu_units import Device, GpuUnit
from rigops.probe.section import Section
from rigops.probe.sections.container import SECTION as CONTAINER
from rigops.probe.sections.gpu_cgroups import SECTION as GPU_CGROUPS
from rigops.transport.errors import clean

SYSTEMD: Final = "systemd"  # in a plan, for what it is to read
NAME: Final = "gpu_containers"  # of the key, and of its part in a plan
_DEADLINE_S: Final = 120.0
_REFRESH: Final = "nvidia-cdi-refresh.service"
_UNREADABLE: Final = (
    "a reload of systemd can take the cards from containers, and what they hold cannot be read "
    "here, which takes python3 and bpf"
)
_INSTEAD: Final = "stop them first, or --allow-busy"
_BEFORE: Final = {"at_risk": "lost at the next reload of systemd", "cut": "lost"}


@dataclass(frozen=True)
class GpuContainer:
    """A container whose cards a reload can touch. `devices`: those that it would lose, or has."""

    unit: str
    name: str
    engine: str
    state: str  # kept, at_risk, cut, unreadable
    devices: tuple[str, ...]

    @property
    def title(self) -> str:
        return self.name or self.unit.removesuffix(".scope")[:25]


_UNKNOWN: Final = GpuContainer("", "unknown containers", "", "unreadable", ())


def reloading(plan: Plan) -> frozenset[str]:
    """Concerns with which systemd may reload: by packages as they like, and by changed units."""
    changed = (one.concern for one in plan.changes if _is_reread(one))
    unread = (concern for concern, _ in plan.housekeeping if concern == SYSTEMD)
    blocked = {concern for concern, _ in plan.blocked}
    return frozenset((*plan.packages_by, *changed, *unread)) - blocked


def _is_reread(change: Change) -> bool:
    """A new unit needs no reload; a new drop-in may be of a unit that is loaded."""
    is_new = change.before is None and ".d/" not in change.subject
    return bool(unit_changed_by(change.subject)) and change.after is not None and not is_new


def find(channel: HostChannel) -> tuple[GpuContainer, ...]:
    """As the host is now."""
    answer = _asked(channel, GPU_CGROUPS).sections.get(GPU_CGROUPS.name)
    if answer is None or not answer.is_complete:
        return (_UNKNOWN,)
    return containers(GPU_CGROUPS.parse(answer.text).units)


def containers(units: Sequence[GpuUnit]) -> tuple[GpuContainer, ...]:
    """A service with a root of its own is none, unless systemd restricts its devices."""
    return tuple(_found(one) for one in units if one.unit and (one.engine or one.policy))


def _found(unit: GpuUnit) -> GpuContainer:
    if unit.cut:
        state, devices = "cut", (*unit.lacks, *unit.cut)
    elif unit.policy and not unit.is_readable:
        state, devices = "unreadable", ()
    else:
        state, devices = ("at_risk", unit.lacks) if unit.lacks else ("kept", ())
    return GpuContainer(
        unit.unit, unit.name, unit.engine, state, tuple(dict.fromkeys(map(_number, devices)))
    )


def _number(device: Device) -> str:
    return f"{device.major}:{device.minor}"


def add_to(
    plan: Plan, find: Callable[[], tuple[GpuContainer, ...]], how: How, *, may_interrupt: bool
) -> tuple[GpuContainer, ...]:
    """What the plan does about them. They are looked for only where it may have systemd reload."""
    concerns = reloading(plan)
    found = find() if concerns else ()
    if reason := _blocker(found, how, may_interrupt=may_interrupt):
        plan.blocked += tuple((concern, reason) for concern in sorted(concerns))
    elif told := _to_protect(found, how):
        changes = (
            Change(NAME, "setting", f"cards of {one.title}", _BEFORE[one.state], "kept")
            for one in told
        )
        plan.changes = (*changes, *plan.changes)
        plan.headlines = ((NAME, f"keep the cards of {_named(told)}"), *plan.headlines)
    plan.notices += tuple((NAME, text) for text in _notices(found, how, plan))
    return found


def _blocker(found: Sequence[GpuContainer], how: How, *, may_interrupt: bool) -> str:
    """Why nothing that may have systemd reload is changed while they run, or nothing."""
    unreadable = [one for one in found if one.state == "unreadable"]
    if may_interrupt or how == "leave":
        return ""
    if how == "refuse" and found:
        return f"containers use the cards ({_named(found)}): {_INSTEAD}"
    return f"{_UNREADABLE} ({_named(unreadable)}): {_INSTEAD}" if unreadable else ""


def _to_protect(found: Sequence[GpuContainer], how: How) -> list[GpuContainer]:
    return [one for one in found if one.devices] if how != "leave" else []


def _notices(found: Sequence[GpuContainer], how: How, plan: Plan) -> Iterator[str]:
    left = [one for one in found if one.state == "unreadable" or (one.devices and how == "leave")]
    if left:
        yield f"{_named(left)} may lose the cards where systemd reloads: create it again then"
    if found and changes_driver(plan):
        yield (
            f"the driver changes below {_named(found)}: what runs there keeps the libraries of the "
            "old one until it is started again, and where its engine stored them (podman, CDI) "
            "until it is created again"
        )


def changes_driver(plan: Plan) -> bool:
    return any(one.name in plan.packages_by for one in registry.CONCERNS if one.brings_driver)


def protect(channel: HostChannel, how: How) -> tuple[GpuContainer, ...]:
    """All that run now, those too that came after the plan. DeployError: nothing is changed yet."""
    told = tuple(_to_protect(find(channel), how))
    if not told:
        return ()
    orders = [
        shlex.join(
            (
                *("systemctl", "set-property", "--runtime", "--", one.unit),
                *(f"DeviceAllow=/dev/char/{device} rw" for device in one.devices),
            )
        )
        for one in told
    ]
    done = channel.run(channel.wrap(["sh", "-s"]), "\n".join(orders).encode(), _DEADLINE_S)
    if left := _at_risk(channel, told):
        said = clean((done.stderr or done.stdout).decode(errors="replace"))
        because = f": {said}" if said else ""
        raise DeployError(
            f"the cards of {_named(left)} cannot be kept through a reload of systemd{because}; "
            'stop the containers first, or declare "gpu_containers": "leave"'
        )
    return told


def require_kept(channel: HostChannel, told: Sequence[GpuContainer]) -> None:
    """After the changes."""
    if told and (left := _at_risk(channel, told)):
        raise DeployError(
            f"systemd no longer knows the cards of {_named(left)}: it takes them at its next "
            "reload; run this again"
        )


def _at_risk(channel: HostChannel, told: Sequence[GpuContainer]) -> list[GpuContainer]:
    """By the rules that systemd holds. An open proves nothing: from 257 on it cuts later."""
    units = {one.unit for one in told}
    return [one for one in find(channel) if one.unit in units and one.devices]


def stale_specs(channel: HostChannel) -> Iterator[str]:
    """What names another driver after a change of it; specs that are made at boot are renewed."""
    refresh = f"systemctl cat {_REFRESH} >/dev/null 2>&1 || exit 0\nsystemctl restart {_REFRESH}\n"
    channel.run(channel.wrap(["sh", "-s"]), refresh.encode(), _DEADLINE_S)
    answer = _asked(channel, CONTAINER).sections.get(CONTAINER.name)
    if answer is None:
        return
    found = CONTAINER.parse(answer.text)
    installed = {one.path.partition("/libcuda.so.")[2] for one in found.libraries}
    for spec in dict.fromkeys(one.spec for one in found.named):
        versions = {one.version for one in found.named if one.spec == spec}
        if installed and not versions & installed:
            yield (
                f"{spec} names driver {', '.join(sorted(versions))}, which is no longer there: "
                f"`sudo nvidia-ctk cdi generate --output={spec}`, and create the containers again"
            )


def _asked(channel: HostChannel, section: Section[Any]) -> Bundle:
    privilege = channel.privilege if channel.privilege.kind == "password" else None
    return collect(channel.connection, (section,), as_root=privilege).bundle


def _named(found: Sequence[GpuContainer]) -> str:
    return ", ".join(one.title for one in found)
