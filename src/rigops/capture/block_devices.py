"""Which disks a path, a file system and the root lie on."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import Final

from rigops.dataclass import dataclass
from rigops.probe.mounts import Mount, Mounts, mount_over
from rigops.probe.sections.identity import Device, Identity

BOOT_FOLDERS: Final = ("/boot", "/boot/efi", "/efi")
SWAP: Final = "swap"

_NETWORK: Final = frozenset({"nfs", "nfs4", "cifs", "smb3", "9p", "virtiofs", "ceph", "fuse.sshfs"})
_PART_OF: Final = re.compile(r"(?P<disk>(?:nvme[0-9]+n|mmcblk)[0-9]+(?=p[0-9])|[a-z]+(?=[0-9]))")
_BY: Final = {"UUID": "uuid", "PARTUUID": "part_uuid", "LABEL": "label"}


@dataclass(frozen=True)
class Placed:
    """Disks by name. None: not known. `line`: the raw line that says so."""

    disks: frozenset[str] | None
    line: str = ""


@dataclass(frozen=True)
class BlockDevices:
    """`arguments`: of the running kernel, which names its root where the mount does not."""

    identity: Identity
    mounts: Mounts
    arguments: tuple[str, ...] = ()

    @cached_property
    def by_name(self) -> dict[str, Device]:
        return {one.name: one for one in self.identity.devices or ()}

    @cached_property
    def _by_number(self) -> dict[str, Device]:
        return {one.number: one for one in self.identity.devices or () if one.number}

    @property
    def disks(self) -> tuple[Device, ...]:
        """Those with a medium that are part of nothing."""
        return tuple(
            one
            for one in self.by_name.values()
            if one.type == "disk" and not one.parents and one.bytes and one.name[:4] != "zram"
        )

    def disks_under(self, name: str) -> frozenset[str] | None:
        device = self.by_name.get(name)
        if device is None:
            return frozenset({name})
        if device.backing:
            over = self.mount_of(device.backing)
            # A file on the device itself would go round in circles.
            if over is None or device in self.devices_of(over):
                return None
            return self.of_mount(over).disks
        return self._joined(device.parents) if device.parents else frozenset({name})

    def on_disk(self, name: str) -> Iterator[Device]:
        """The block devices on it, itself included."""
        return (one for one in self.by_name.values() if name in (self.disks_under(one.name) or ()))

    def mount_of(self, path: str) -> Mount | None:
        """The last mount over it."""
        return mount_over(posixpath.normpath(path), self.mounts)

    def devices_of(self, mount: Mount) -> tuple[Device, ...]:
        """Several of a btrfs or a pool of ZFS."""
        if mount.type == "zfs":
            pool = mount.source.partition("/")[0]
            return tuple(
                one
                for one in self.by_name.values()
                if one.file_system == "zfs_member" and one.label == pool
            )
        found = self._device_at(mount.source)
        if found is None:
            return ()
        return self._same_file_system(found)

    def of_mount(self, mount: Mount) -> Placed:
        if mount.type in _NETWORK:
            return Placed(frozenset(), mount.line)
        devices = self.devices_of(mount)
        return Placed(self._joined(one.name for one in devices), mount.line)

    def of_file_system(self, uuid: str) -> Placed:
        """Empty: it is not attached."""
        if self.identity.devices is None:
            return Placed(None)
        found = [one for one in self.by_name.values() if (one.uuid or "").lower() == uuid.lower()]
        disks = self._joined(one.name for one in found) if found else frozenset()
        return Placed(disks, found[0].line if found else "")

    @cached_property
    def of_root(self) -> Placed:
        """A root that is no device, such as an overlay, lies where the kernel found its root."""
        mount = self.mount_of("/")
        if mount is not None and mount.source != "/dev/root":
            placed = self.of_mount(mount)
            if placed.disks:
                return placed
        for argument in self.arguments:
            if argument.startswith("root="):
                return Placed(self._named(argument.removeprefix("root=")), argument)
        return Placed(None, mount.line if mount else "")

    def _named(self, root: str) -> frozenset[str] | None:
        key, equals, value = root.partition("=")
        if equals and key in _BY:
            found = [
                one for one in self.by_name.values() if getattr(one, _BY[key]) == value.strip('"')
            ]
            return self._joined(one.name for one in found)
        if not root.startswith("/dev/"):
            return None
        device = self._device_at(root)
        if device is not None:
            return self._joined(one.name for one in self._same_file_system(device))
        part = _PART_OF.match(root.removeprefix("/dev/"))
        return frozenset({part["disk"]}) if part else None

    def _device_at(self, source: str) -> Device | None:
        number = self.identity.nodes.get(source)
        if number is not None:
            return self._by_number.get(number)
        return self.by_name.get(source.removeprefix("/dev/"))

    def _same_file_system(self, device: Device) -> tuple[Device, ...]:
        if device.file_system != "btrfs" or not device.uuid:
            return (device,)
        return tuple(
            one
            for one in self.by_name.values()
            if one.uuid == device.uuid and one.file_system == "btrfs"
        )

    def _joined(self, names: Iterable[str]) -> frozenset[str] | None:
        """None: there are none, or one of them is not known."""
        found: frozenset[str] = frozenset()
        for one in names:
            under = self.disks_under(one)
            if under is None:
                return None
            found |= under
        return found or None
