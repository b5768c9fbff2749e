"""Installations without an installer: disks as it leaves them, and then its last commands for real.

An installer partitions a disk as the rendered file says, unpacks a system, installs GRUB, and runs
the late commands. Here the system is the tree of the lab's machines, and a machine that has the
disk as its second one runs the rest: the commands are exactly the rendered ones.
"""

from __future__ import annotations

import json
import re
import shlex
import subprocess
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, cast
from uuid import uuid4

from rigops.autoinstall import preseed, render, user_data, user_data_model
from rigops.autoinstall.installation import Choices, Installation, decide
from rigops.catalog import load
from tests.lab import cache, namespace
from tests.lab.errors import LabError
from tests.lab.vm import access, guest, image, qemu
from tests.unit.autoinstall.captured import BIOS, NVME

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from rigops.autoinstall.installation import Root
    from rigops.autoinstall.releases import Distribution
    from tests.lab.processes import Process

USER = "rig"  # there is one in the tree, as there is one in a system of Debian's installer
_SIZE = 6 << 30
_MIB = 1 << 20
_TYPES = {"": "21686148-6449-6E6F-744E-656564454649"}
_LINUX = "0FC63DAF-8483-4772-8E79-3D69D8477DE4"
_PATIENCE = 300.0
_RECIPE = re.compile(
    r"(?P<least>\d+) \d+ (?P<most>-?\d+) (?P<kind>\w+) (?P<rest>(?:\$?\w+\{[^}]*\} ?)+)\."
)
# What installers have to run a command inside the new system.
_INSIDE = """\
for one in dev proc sys run; do mount --rbind --make-rslave /$one /target/$one; done
code=0
chroot /target "$@" || code=$?
for one in dev proc sys run; do umount -l -R /target/$one; done
exit $code
"""
_PROGRAMS = {
    "curtin": f'#!/bin/sh\nuntil [ "$1" = -- ]; do shift; done\nshift\n{_INSIDE}',
    "in-target": f"#!/bin/sh\n{_INSIDE}",
}


@dataclass(frozen=True)
class Part:
    """`kind` "": GRUB's own. `mib` 0: the rest of the disk."""

    kind: str
    where: str
    mib: int


@dataclass(frozen=True)
class Case:
    distribution: Distribution
    root: Root

    @property
    def name(self) -> str:
        return f"{self.distribution}-{self.root}"

    @property
    def subvolume(self) -> str:
        """That the installer makes by itself."""
        return "@rootfs" if (self.distribution, self.root) == ("debian", "btrfs") else ""

    def installation(self) -> Installation:
        """For the lab's key and user."""
        user = replace(BIOS.users[0], name=USER)
        key = cache.key().with_suffix(".pub").read_text().strip()
        choices = Choices(distribution=self.distribution, root=self.root, keys=(key,))
        capture = replace(BIOS, users=(user,), disks=(NVME,))
        return decide(capture, choices, load())

    def parts(self) -> list[Part]:
        installation = self.installation()
        if self.distribution == "debian":
            text = render.render_preseed(installation)
            return list(_of_recipe(preseed.answer_of(text, "partman-auto/expert_recipe")))
        return list(_of_actions(user_data.document(installation, ())))

    def late_commands(self) -> list[str]:
        installation = self.installation()
        if self.distribution == "debian":
            text = render.render_preseed(installation)
            return [preseed.answer_of(text, "preseed/late_command")]
        return render.late_commands(installation)


def _of_recipe(recipe: str) -> Iterator[Part]:
    for one in _RECIPE.finditer(recipe):
        where = re.search(r"mountpoint\{ (\S+) \}", one["rest"])
        kind = one["kind"] if where else ""
        yield Part(kind, where[1] if where else "", 0 if one["most"] == "-1" else int(one["least"]))


def _of_actions(document: dict[str, object]) -> Iterator[Part]:
    actions = cast("list[dict[str, str]]", user_data_model.storage(document))
    formats = {one["volume"]: one for one in actions if one["type"] == "format"}
    mounts = {one["device"]: one["path"] for one in actions if one["type"] == "mount"}
    for one in actions:
        if one["type"] != "partition":
            continue
        size = str(one["size"])
        mib = 0 if size == "-1" else int(size[:-1]) * (1024 if size.endswith("G") else 1)
        its = formats.get(one["id"])
        yield Part(its["fstype"] if its else "", mounts[its["id"]] if its else "", mib)


def make_disk(disk: Path, case: Case) -> None:
    """Partitions and file systems as the file says, with a system on them and its fstab."""
    parts = case.parts()
    with disk.open("wb") as file:
        file.truncate(_SIZE)
    table, spans, at = ["label: gpt"], [], 1
    for part in parts:
        mib = part.mib or (_SIZE // _MIB - 1 - at)
        kind = _TYPES.get(part.kind, _LINUX)
        table.append(f"start={at}MiB, size={mib}MiB, type={kind}")
        spans.append((at * _MIB, mib * _MIB))
        at += mib
    _run(["sfdisk", "--quiet", str(disk)], "\n".join(table) + "\n")
    steps = ["devices=", "trap 'umount -R /mnt; losetup --detach $devices' EXIT"]
    fstab = ""
    order = sorted(zip(parts, spans, strict=True), key=lambda one: one[0].where)
    for number, (part, (start, size)) in enumerate(order):
        if not part.where:
            continue
        uuid = str(uuid4())
        loop = ["losetup", "--find", "--show", "--offset", str(start), "--sizelimit", str(size)]
        steps.append(
            f'd{number}=$({shlex.join([*loop, str(disk)])}); devices="$devices $d{number}"'
        )
        make = "mkfs.btrfs --quiet --uuid" if part.kind == "btrfs" else "mkfs.ext4 -q -U"
        steps.append(f'{make} {uuid} "$d{number}" >&2')
        steps.append(f'mkdir -p /mnt{part.where}; mount "$d{number}" /mnt{part.where}')
        if part.where == "/" and case.subvolume:
            steps.append(f"btrfs -q subvolume create /mnt/{case.subvolume}; umount /mnt")
            steps.append(f'mount -o subvol={case.subvolume} "$d{number}" /mnt')
        options = f"defaults,subvol={case.subvolume}" if case.subvolume else "defaults"
        fstab += f"UUID={uuid} {part.where} {part.kind} "
        fstab += f"{options if part.where == '/' else 'defaults'} 0 1\n"
    own = disk.with_suffix(".own")
    own.mkdir()
    guest.write(own)
    steps += [f"cp -a {shlex.quote(str(tree))}/. /mnt/" for tree in (image.system(), own)]
    steps.append(f"printf %s {shlex.quote(fstab)} >/mnt/etc/fstab")
    # On a busy machine the emulated timer is late, and a kernel that checks it panics.
    steps.append("sed -i 's/console=ttyS0/& no_timer_check/' /mnt/etc/default/grub")
    # Packages that each of these installers brings, and the lab's tree has not.
    steps.append("mkdir -p /mnt/etc/network /mnt/etc/sudoers.d /mnt/etc/apt/apt.conf.d")
    _run(namespace.enter(steps))


def _run(command: list[str], given: str = "") -> None:
    done = subprocess.run(command, check=False, input=given, capture_output=True, text=True)
    if done.returncode != 0:
        raise LabError(f"the disk could not be made:\n{done.stderr[-3000:]}")


@dataclass(frozen=True)
class Booted:
    """A machine that was started from a disk, by GRUB or (with words for QEMU) in another way."""

    process: Process
    access: access.Access
    console: Path

    @classmethod
    def start(cls, folder: Path, disk: Path, kind: str, direct: tuple[str, ...] = ()) -> Booted:
        folder.mkdir()
        hardware = qemu.Hardware(
            disk=disk,
            kind=kind,
            console=folder / "console.log",
            silicon=folder / "silicon.tar.gz",
            port=access.free_port(),
            safe=False,
        )
        guest.pack(hardware.silicon)
        way = access.Access(hardware.port, image.host_key("ext4"), folder)
        way.write()
        booted = cls(qemu.start(hardware, direct), way, hardware.console)
        try:
            way.wait(booted.process, _PATIENCE)
        except LabError as error:
            booted.process.kill()
            said = hardware.console.read_text(errors="replace")[-3000:]
            raise LabError(f"{error}; its console said:\n{said}") from error
        return booted

    def end(self) -> None:
        """Switched off, with all written."""
        self.access.run("systemctl poweroff")
        qemu.wait(self.process, _PATIENCE)


def install(folder: Path, cases: tuple[Case, ...]) -> dict[str, Path]:
    """The disk of each case, after its late commands."""
    disks = {case.name: folder / f"{case.name}.raw" for case in cases}
    words: list[str] = []
    for number, case in enumerate(cases):
        make_disk(disks[case.name], case)
        drive = f"file={disks[case.name]},format=raw,if=none,id=target{number},cache=unsafe"
        words += ["-drive", drive]
        words += ["-device", f"ide-hd,drive=target{number},bus=ide.{number + 1},serial={case.name}"]
    base = folder / "installer.qcow2"
    made = ["qemu-img", "create", "-q", "-f", "qcow2", "-F", "raw", "-b"]
    subprocess.run([*made, str(image.base("ext4")), str(base)], check=True)
    installer = Booted.start(folder / "installer", base, "qcow2", tuple(words))
    try:
        for name, text in _PROGRAMS.items():
            place = f"/usr/local/bin/{name}"
            done = installer.access.run(f"cat >{place} && chmod 755 {place}", given=text)
            assert done.returncode == 0, done.stderr
        for case in cases:
            _finish(installer.access, case)
        installer.end()
    finally:
        installer.process.kill()
    return disks


def _finish(way: access.Access, case: Case) -> None:
    link = f"/dev/disk/by-id/ata-QEMU_HARDDISK_{case.name}"  # the kernel's names come by chance
    device = way.ssh(f"udevadm settle && readlink -e {link}")
    mounts = [(number, part.where) for number, part in enumerate(case.parts(), 1) if part.where]
    option = f"-o subvol={case.subvolume}" if case.subvolume else ""
    steps = ["set -e; mkdir -p /target"]
    for number, where in sorted(mounts, key=lambda one: one[1]):
        steps.append(f"mount {option if where == '/' else ''} {device}{number} /target{where}")
    steps.append(f"in-target sh -ec 'grub-install {device}; update-grub'")
    way.ssh("\n".join(steps), timeout=_PATIENCE)
    for command in case.late_commands():
        done = way.run('sh -c "$(cat)"', given=command, timeout=_PATIENCE)
        assert done.returncode == 0, f"{case.name}: {done.stdout}{done.stderr}"
    way.ssh("umount -R /target; sync", timeout=_PATIENCE)


def mounts(way: access.Access) -> dict[str, tuple[str, str]]:
    """Kind and subvolume of what is mounted, by place."""
    said = way.ssh("findmnt --json --list --real --output TARGET,FSTYPE,FSROOT")
    return {
        one["target"]: (one["fstype"], one["fsroot"]) for one in json.loads(said)["filesystems"]
    }
