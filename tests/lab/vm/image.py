"""The disks that machines start from: built once per layout, with GRUB installed from inside."""

from __future__ import annotations

import json
import shlex
import shutil
import subprocess
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

from tests.lab import bootstrap, cache, image, layers
from tests.lab.errors import LabError
from tests.lab.packages.sources import AT, source
from tests.lab.vm import access, disk, guest, layouts, qemu

if TYPE_CHECKING:
    from tests.lab.vm.layouts import Layout

PACKAGES = (
    "systemd", "systemd-sysv", "systemd-journal-remote", "dbus", "udev", "kmod", "procps",
    "openssh-server", "sudo", "iproute2", "pciutils", "less", "python3", "ca-certificates",
    "btrfs-progs", "e2fsprogs", "dosfstools", "linux-image-amd64", "initramfs-tools", "lz4",
    "lsb-release",
)  # fmt: skip
_BIOS = ("grub-pc",)
_UEFI = ("grub-efi-amd64", "grub-efi-amd64-signed", "shim-signed", "mokutil", "efibootmgr")
_HERE = Path(__file__).parent
_SETUP = _HERE / "tree_setup.sh"
_PATIENCE = 300.0
_MODULES = ("ahci", "sd_mod", "ext4", "btrfs")
# Before the kernel's package makes its initial ramdisk: a small one is read and unpacked sooner.
# QEMU translates code anew for each address that it runs at: without random addresses a program
# starts five times as fast.
_RAMDISK = f"""
mkdir -p "$1/etc/initramfs-tools/conf.d" "$1/usr/share/initramfs-tools/modules.d"
printf 'MODULES=list\\nCOMPRESS=lz4\\n' > "$1/etc/initramfs-tools/conf.d/lab"
printf '%s\\n' {" ".join(_MODULES)} > "$1/usr/share/initramfs-tools/modules.d/lab"
mkdir -p "$1/etc/initramfs-tools/scripts/init-top"
printf '#!/bin/sh\\n[ "$1" = prereqs ] || echo 0 > /proc/sys/kernel/randomize_va_space\\n' \\
    > "$1/etc/initramfs-tools/scripts/init-top/lab"
chmod 755 "$1/etc/initramfs-tools/scripts/init-top/lab"
"""
_INSTALL = "grub-install /dev/sda && update-grub"
_INSTALL_SIGNED = """
grub-install --target=x86_64-efi --uefi-secure-boot --force-extra-removable --no-nvram &&
update-grub
"""
_FORGET = "systemd.mask=systemd-journal-flush.service"  # machines have not seen this boot
_TREE = "root"


def base(layout: str, more: tuple[str, ...] = ()) -> Path:
    """A raw disk that boots through GRUB; machines only ever write beside it.

    `more`: packages of Debian's own beside those that every machine has.
    """
    return _folder(layout, more) / "disk.raw"


def host_key(layout: str, more: tuple[str, ...] = ()) -> str:
    """The public half of what every machine of this disk answers with."""
    return (_folder(layout, more) / "host_key").read_text().strip()


def _folder(layout: str, more: tuple[str, ...]) -> Path:
    divided = layouts.layout(layout)
    is_uefi = layout == layouts.UEFI
    install = _INSTALL_SIGNED if is_uefi else _INSTALL
    tree = system((*(_UEFI if is_uefi else _BIOS), *more))
    makers = ("layouts.py", "disk.py", "guest.py", "inside/lab-cards.service")
    recipe = [
        layout,
        str(tree),
        install,
        _FORGET,
        *((_HERE / name).read_text() for name in makers),
    ]
    digest = sha256(json.dumps(recipe).encode())
    return cache.built(
        "vm-disk", digest.hexdigest()[:16], lambda new: _build(new, layout, divided, tree, install)
    )


def system(more: tuple[str, ...] = _BIOS) -> Path:
    """The tree of a machine, as it is before it is on a disk. `more`: with its GRUB."""
    repository = layers.repository()
    hook = _hook(repository)
    recipe = [*PACKAGES, *more, bootstrap.SUITE, _RAMDISK, _SETUP.read_text(), hook]
    digest = sha256(json.dumps(recipe).encode()).hexdigest()[:16]
    return cache.built("vm-tree", digest, lambda new: _build_tree(new, hook, more)) / _TREE


def _hook(repository: Path) -> str:
    """What mmdebstrap runs last, in sh, with the tree as $1."""
    given = {
        "KEY": cache.key().with_suffix(".pub").read_text().strip(),
        "SOURCES": source("debian", bootstrap.SUITE),
    }
    words = " ".join(f"{name}={shlex.quote(value)}" for name, value in given.items())
    return f"""
set -eu
mkdir "$1{AT}"
mount --bind -o ro {shlex.quote(str(repository))} "$1{AT}"
trap 'umount "$1{AT}"' EXIT
{words} chroot "$1" sh -eu < {shlex.quote(str(_SETUP))}
"""


def _build_tree(new: Path, hook: str, more: tuple[str, ...]) -> None:
    image.tell("building the tree of the machines, once: about a minute")
    bootstrap.make(
        "the tree",
        new / _TREE,
        (*PACKAGES, *more),
        f"--setup-hook={_RAMDISK}",
        f"--customize-hook={hook}",
    )


def _build(new: Path, name: str, layout: Layout, tree: Path, install: str) -> None:
    image.tell(f"building the disk {name!r}, once: about two minutes")
    own = new / "own"
    own.mkdir()
    guest.write(own)
    disk.make(new / "disk.raw", layout, (tree, own))
    shutil.rmtree(own)
    public = (tree / "etc/ssh/ssh_host_ed25519_key.pub").read_text().split()
    (new / "host_key").write_text(" ".join(public[:2]) + "\n")
    _install_bootloader(new, layout, tree, install)


def _install_bootloader(new: Path, layout: Layout, tree: Path, install: str) -> None:
    """By the machine itself, which this once starts without one."""
    (kernel,), (ramdisk,) = (
        sorted(tree.glob(f"boot/{one}-*")) for one in ("vmlinuz", "initrd.img")
    )
    root = f"root=UUID={layout.root.uuid} rootflags=subvol={layout.subvolume} ro"
    words = f"{root} console=ttyS0 {_FORGET}"
    hardware = qemu.Hardware(
        disk=new / "disk.raw",
        kind="raw",
        console=new / "console.log",
        silicon=new / "silicon.tar.gz",
        port=access.free_port(),
        safe=False,
    )
    guest.pack(hardware.silicon)
    way = access.Access(hardware.port, (new / "host_key").read_text().strip(), new)
    machine = qemu.start(
        hardware, ("-kernel", str(kernel), "-initrd", str(ramdisk), "-append", words, "-no-reboot")
    )
    try:
        way.write()
        way.wait(machine, _PATIENCE)
        way.ssh(install, timeout=_PATIENCE)
        way.run("systemctl poweroff")
        qemu.wait(machine, _PATIENCE)
    except (LabError, subprocess.TimeoutExpired) as error:
        console = hardware.console.read_text(errors="replace")[-3000:]
        raise LabError(f"GRUB could not be installed: {error}\n{console}") from error
    finally:
        machine.kill()
