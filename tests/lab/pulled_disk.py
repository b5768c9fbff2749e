"""A disk of a host that can be pulled out while it is in use, as one at a USB cable.

It is a loop device whose file is on an ext4 of its own. Once that is shut down, the device answers
each read and write with an error, and what it had not flushed is lost.
"""

from __future__ import annotations

import fcntl
import os
import stat
import struct
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tests.lab import disks, machine
from tests.lab.sshd import until

if TYPE_CHECKING:
    from tests.lab.hosts import Host

_EVERY_DISK: Final = 3  # the last one is no disk of the rig
_CARRIER, _CARRIED = "/dev/carrier", "/run/carrier"
_IMAGE: Final = f"{_CARRIED}/image"
_SIZE_MB: Final = 400
_HOLDER: Final = "holds-disk"  # in use until it is pulled: then it is gone with its last mount
_SHUTDOWN: Final = 0x8004587D  # EXT4_IOC_SHUTDOWN
_WITHOUT_FLUSH: Final = struct.pack("I", 2)


@dataclass(frozen=True)
class PulledDisk:
    """Until the host's next boot it is there instead of the disk that has this name."""

    host: Host
    name: str

    def make(self) -> None:
        """Empty, and plugged in."""
        self._node(_CARRIER, self._carrier)
        self._does(f"mkfs.ext4 -q -F {_CARRIER}; mkdir -p {_CARRIED}")
        self._does(f"while umount {self.name} 2>/dev/null; do :; done")
        self.plug()

    def plug(self) -> None:
        """After a pull: as soon as nothing uses it any more."""
        until(self._is_free, f"the end of what uses {self.name}")
        self._does(
            f"mount {_CARRIER} {_CARRIED}; test -e {_IMAGE} || truncate -s {_SIZE_MB}M {_IMAGE}"
        )
        device = _run("losetup", "--find", "--show", f"{self._root}{_IMAGE}")
        try:
            self._node(self.name, Path(device))
            self._does(
                f"systemd-run -q --unit={_HOLDER} --service-type=exec"
                f" -p StandardInput=file:{self.name} sleep infinity"
            )
        finally:
            _run("losetup", "--detach", device)
        self._does(f"blkid {self.name} || :")

    def _is_free(self) -> bool:
        """Mount namespaces that have ended hold it for a moment."""
        self.host.run(f"umount {_CARRIED}")
        return not Path("/sys/fs/ext4", self._carrier.name).exists()

    def pull(self) -> None:
        carried = os.open(f"{self._root}{_CARRIED}", os.O_RDONLY)
        try:
            fcntl.ioctl(carried, _SHUTDOWN, _WITHOUT_FLUSH)
        finally:
            os.close(carried)
        self._does(f"rm {self.name}; systemctl stop {_HOLDER}")

    @property
    def _carrier(self) -> Path:
        return disks.make(self.host.record.folder, _EVERY_DISK)[-1]

    @property
    def _root(self) -> str:
        return f"/proc/{machine.leader(self.host.record)}/root"

    def _node(self, name: str, device: Path) -> None:
        place = Path(f"{self._root}{name}")
        place.unlink(missing_ok=True)
        os.mknod(place, stat.S_IFBLK | 0o660, device.stat().st_rdev)

    def _does(self, command: str) -> str:
        done = self.host.run(command)
        assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
        return done.stdout.strip()


def _run(*command: str) -> str:
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return done.stdout.strip()
