"""GPU devices of containers: what their runtime gave them, and what systemd knows of it.

A reload of systemd puts its own list back. A device that a runtime allowed behind systemd's back,
as NVIDIA's legacy hook does, is gone with it, and the container keeps its node without the right to
open it.
"""

from __future__ import annotations

from typing import NamedTuple

from rigops.dataclass import dataclass


class Device(NamedTuple):
    """A character device. `minor`: None for all of them. `access`: of the letters r and w."""

    major: int
    minor: int | None
    access: str


@dataclass(frozen=True, kw_only=True)
class GpuUnit:
    """The containers in one unit of systemd, or in a control group that belongs to none.

    `policy`: the DevicePolicy that a reload applies, "" where the unit restricts no device.
    `runtime`: what the runtime's own program allows, and `systemd`: what systemd's does now, all of
    it where systemd has none; None: not read. All three lists are of NVIDIA's devices alone.
    """

    unit: str  # "" for a control group that systemd does not manage
    cgroup: str
    started: int | None = None  # since 1970
    name: str = ""  # the container's
    engine: str = ""  # docker, podman, …
    policy: str = ""
    told: tuple[Device, ...] = ()  # DeviceAllow
    runtime: tuple[Device, ...] | None = None
    systemd: tuple[Device, ...] | None = None
    line: str = ""

    @property
    def is_readable(self) -> bool:
        """Whether `lacks` and `cut` are known. A unit without a policy loses nothing."""
        return not self.policy or (self.runtime is not None and self.systemd is not None)

    @property
    def lacks(self) -> tuple[Device, ...]:
        """What the next reload takes from it."""
        return _without(self.runtime or (), self.told) if self.policy else ()

    @property
    def cut(self) -> tuple[Device, ...]:
        """What a reload has taken from it already."""
        return () if self.systemd is None else _without(self.runtime or (), self.systemd)


@dataclass(frozen=True, kw_only=True)
class GpuCgroups:
    """`generator_at`: the last reload, since 1970. `unread`: why no program could be read."""

    units: tuple[GpuUnit, ...] = ()
    generator_at: int | None = None
    systemd: int | None = None  # its version
    unread: str = ""
    unparsed: tuple[str, ...] = ()


def _without(devices: tuple[Device, ...], allowed: tuple[Device, ...]) -> tuple[Device, ...]:
    return tuple(one for one in devices if not any(_covers(other, one) for other in allowed))


def _covers(allowed: Device, device: Device) -> bool:
    return (
        allowed.major == device.major
        and allowed.minor in {None, device.minor}
        and set(device.access) <= set(allowed.access)
    )
