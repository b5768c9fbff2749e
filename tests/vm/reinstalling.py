"""A machine's system disk as an installer leaves it; made here, where no processor is emulated."""

from __future__ import annotations

import shlex
import subprocess
from dataclasses import dataclass
from typing import TYPE_CHECKING
from uuid import uuid4

from tests.lab import namespace
from tests.lab.errors import LabError
from tests.lab.vm import image, layouts
from tests.lab.vm.machines import System
from tests.vm import driver_packages
from tests.vm.driver_packages import does

if TYPE_CHECKING:
    from pathlib import Path

_LAYOUT = "home"
# No machine id and no host key is that of another installation.
_NEW_IDENTITY = """
echo {machine} >/etc/machine-id
rm -f /etc/ssh/ssh_host_*
ssh-keygen -q -t ed25519 -N '' -C '' -f /etc/ssh/ssh_host_ed25519_key
"""
_PLAIN = r"""
set -e
userdel --remove rig 2>/dev/null
rm /etc/sudoers.d/rig
export DEBIAN_FRONTEND=noninteractive
apt-get -q -y purge $(dpkg-query -W -f '${source:Package}|${Package}\n' |
    sed -nE 's/^nvidia-(graphics-drivers|modprobe|persistenced|settings|xconfig)\|//p')
"""


@dataclass(frozen=True)
class SystemDisk:
    """A raw one. `run` is a command as root inside it."""

    path: Path
    layout: str = _LAYOUT

    @classmethod
    def installed(cls, folder: Path) -> SystemDisk:
        """Anew: other file systems, another machine id and other host keys than any before."""
        disk = cls(folder / f"{uuid4().hex}.raw")
        base = str(image.base(_LAYOUT))
        subprocess.run(["cp", "--sparse=always", base, str(disk.path)], check=True)
        before = disk._uuids()
        disk._renew()
        for old, new in zip(before, disk._uuids(), strict=True):
            assert old != new
            does(disk, f"sed -i s/{old}/{new}/g /etc/fstab /boot/grub/grub.cfg")
        does(disk, _NEW_IDENTITY.format(machine=uuid4().hex))
        driver_packages.can_build(disk, disk.kernel)
        return disk

    @property
    def kernel(self) -> str:
        """That it boots."""
        return self.run("ls /lib/modules").stdout.strip()

    @property
    def host_key(self) -> str:
        public = self.run("cat /etc/ssh/ssh_host_ed25519_key.pub").stdout.split()
        return " ".join(public[:2])

    @property
    def system(self) -> System:
        return System(self.path, self.host_key)

    def is_plain(self) -> None:
        """No user but root, and nothing of the driver."""
        does(self, _PLAIN)

    def run(
        self, command: str, *, given: str = "", timeout: float = 120
    ) -> subprocess.CompletedProcess[str]:
        words = ["env", "PATH=/usr/sbin:/usr/bin:/sbin:/bin", "sh", "-c", command]
        return self._enter([f"chroot /mnt {shlex.join(words)}"], given=given, timeout=timeout)

    def _uuids(self) -> list[str]:
        blkid = "blkid -p -s UUID -o value"
        done = self._enter([f'{blkid} "$root"', f'{blkid} "$boot"'], mounts=False)
        return done.stdout.split()

    def _renew(self) -> None:
        """File systems of their own, as mkfs makes them."""
        root, boot = uuid4(), uuid4()
        renew = [
            f'btrfstune -f -U {root} "$root" >&2',
            'e2fsck -f -p "$boot" >&2',
            f'tune2fs -f -U {boot} "$boot" >&2',
        ]
        done = self._enter(renew, mounts=False)
        if done.returncode != 0:
            raise LabError(f"{self.path} keeps its UUIDs: {done.stderr}")

    def _enter(
        self, steps: list[str], *, mounts: bool = True, given: str = "", timeout: float = 120
    ) -> subprocess.CompletedProcess[str]:
        """In shell, with the devices as $root and $boot, or mounted at /mnt."""
        layout = layouts.layout(self.layout)
        (boot,) = (one for one in layout.beside if one.where == "/boot")
        end = "mountpoint -q /mnt && umount -R /mnt; losetup --detach $root $boot"
        begin = ["root= boot=", f"trap '{end}' EXIT"]
        for name, one in (("root", layout.root), ("boot", boot)):
            span = ["--offset", str(one.start), "--sizelimit", str(one.size)]
            loop = shlex.join(["losetup", "--find", "--show", *span, str(self.path)])
            begin.append(f"{name}=$({loop})")
        if mounts:
            begin.append(f'mount -o subvol={layout.subvolume} "$root" /mnt')
            begin.append(f'mount -o subvol={layout.home} "$root" /mnt/home')
            begin.append('mount "$boot" /mnt/boot')
            begin += [f"mount --bind /{name} /mnt/{name}" for name in ("dev", "proc")]
        return subprocess.run(
            namespace.enter([*begin, *steps]),
            check=False,
            input=given,
            capture_output=True,
            text=True,
            timeout=timeout,
        )
