"""From what was collected of a host to its capture."""

from __future__ import annotations

import re
from base64 import b64decode, b64encode
from collections.abc import Iterable, Iterator
from hashlib import sha256
from typing import Final

from rigops import __version__
from rigops.capture.block_devices import BOOT_FOLDERS, SWAP
from rigops.capture.document import (
    Backup,
    Borg,
    Capture,
    Declared,
    Disk,
    Driver,
    FileSystem,
    Gpu,
    Interface,
    Limits,
    Mount,
    Network,
    P2p,
    P2pPair,
    Package,
    Partition,
    PublicKey,
    System,
    User,
    judged,
)
from rigops.capture.requirements import judge
from rigops.capture.requirements.backups import last_verified, newest_backup
from rigops.capture.requirements.places import backed_up, not_backed_up
from rigops.capture.subject import Subject
from rigops.concerns.borg.decide import local_path
from rigops.doctor.card import Card
from rigops.doctor.views.proof import last_proof
from rigops.probe.mounts import Mount as Mounted
from rigops.probe.sections.bootloader import SECTION as BOOTLOADER
from rigops.probe.sections.identity import SECTION as IDENTITY
from rigops.probe.sections.identity import Connection, Device
from rigops.probe.sections.limits import SECTION as LIMITS
from rigops.probe.sections.limits import Range
from rigops.probe.sections.network import SECTION as NETWORK
from rigops.probe.sections.network import Interface as Named
from rigops.probe.sections.nvidia_version import SECTION as DRIVER
from rigops.probe.sections.os_release import SECTION as OS_RELEASE
from rigops.probe.sections.packages import SECTION as PACKAGES
from rigops.probe.sections.pci import ADDRESS
from rigops.probe.sections.proc_cmdline import SECTION as COMMAND_LINE
from rigops.probe.sections.uname import SECTION as UNAME

_MEMBERS: Final = frozenset({"zfs_member", "LVM2_member", "linux_raid_member", "crypto_LUKS"})
_FOLLOWS: Final = re.compile(r"(?:linux-image|linux-generic|linux-virtual|proxmox-default|pve)")
_RELEASE: Final = re.compile(r"[0-9]\.[0-9]")
_PSEUDO: Final = frozenset({"overlay", "squashfs", "tmpfs", "iso9660"})
_SUBVOLUME: Final = "subvol="


def describe(subject: Subject) -> Capture:
    requirements = judge(subject)
    identity = subject.snapshot[IDENTITY].or_empty
    return Capture(
        host=subject.host,
        status=judged(requirements),
        at=subject.at,
        rigops=__version__,
        requirements=requirements,
        system=_system(subject),
        declared=_declared(subject),
        driver=_driver(subject),
        gpus=tuple(_gpu(subject, card) for card in subject.examined.cards),
        p2p=_p2p(subject),
        limits=_limits(subject),
        disks=tuple(_disks(subject)),
        file_systems=tuple(_file_systems(subject)),
        backed_up=backed_up(subject),
        not_backed_up=tuple(one.path for one in not_backed_up(subject)),
        users=tuple(
            User(**vars(one), is_login=one.name == subject.login) for one in identity.people or ()
        ),
        keys=tuple(
            key for path, line in identity.own_keys.items() for key in _public((line,), path)
        ),
        packages=identity.manual,
        network=Network(
            interfaces=tuple(_interfaces(subject)),
            nameservers=identity.nameservers,
            search=identity.search,
        ),
        borg=_borg(subject),
        backups=tuple(_backups(subject)),
        host_keys=tuple(_public(identity.host_keys)),
    )


def _system(subject: Subject) -> System:
    snapshot = subject.snapshot
    release, kernel = snapshot[OS_RELEASE].or_empty, snapshot[UNAME].or_empty
    said = snapshot[IDENTITY].or_empty.system
    return System(
        os_id=release.id,
        os_version=release.version_id,
        os_codename=release.codename,
        os_name=release.pretty_name,
        hostname=said.get("hostname"),
        machine_id=said.get("machine-id"),
        architecture=kernel.machine,
        firmware=said.get("firmware"),
        kernel=kernel.release,
        kernel_packages=tuple(
            one.name
            for one in snapshot[PACKAGES].or_empty.packages
            if one.is_installed and _FOLLOWS.match(one.name) and not _RELEASE.search(one.name)
        ),
        arguments=snapshot[COMMAND_LINE].or_empty.arguments,
        bootloader="grub" if snapshot[BOOTLOADER].or_empty.menu is not None else None,
        timezone=said.get("timezone"),
        locale=said.get("locale"),
        keyboard=said.get("keyboard"),
        keyboard_variant=said.get("keyboard-variant"),
    )


def _declared(subject: Subject) -> Declared:
    spec = subject.spec
    return Declared(
        driver=spec.driver.text if spec.driver else None,
        driver_flavor=spec.driver_flavor,
        kernel_args=spec.kernel_args or (),
        keys=tuple(sorted(spec.declared)),
    )


def _driver(subject: Subject) -> Driver | None:
    """The proven one with its packages; else the one that is loaded."""
    loaded, locked = subject.snapshot[DRIVER].or_empty, subject.locked
    if locked is None:
        if loaded.version is None:
            return None
        return Driver(version=loaded.version, flavor=loaded.flavor or "")
    absent = {*subject.controller.missing, *subject.controller.damaged}
    pinned = locked.sets[0] if locked.sets else None
    return Driver(
        version=locked.driver.version,
        flavor=locked.driver.flavor,
        proven_at=locked.at,
        packages=tuple(
            Package(**vars(one), is_in_vault=f"{one.name} {one.version}" not in absent)
            for one in (pinned.packages if pinned else ())
        ),
    )


def _gpu(subject: Subject, card: Card) -> Gpu:
    function, smi = card.function, card.smi
    link, fastest = (function.link, function.fastest_link) if function else (None, None)
    path = re.findall(ADDRESS, function.path or "") if function else []
    return Gpu(
        uuid=smi.uuid if smi else None,
        name=card.name,
        address=card.address,
        slot=_slot(subject.snapshot[IDENTITY].or_empty.slots, [card.address, *path[-2::-1]]),
        bus_path=tuple(path[:-1]),
        link_width=link.width if link else smi.width if smi else None,
        max_link_width=fastest.width if fastest else smi.width_max if smi else None,
        link_gts=link.gt_per_s if link else None,
        max_link_gts=fastest.gt_per_s if fastest else None,
        power_limit_watts=smi.watts_limit if smi else None,
        persistence=smi.persistence if smi else None,
    )


def _slot(slots: dict[str, str] | object, addresses: Iterable[str]) -> str | None:
    """The board names a slot for the card in it, or for the port above that."""
    known = slots if isinstance(slots, dict) else {}
    return next((known[one] for one in addresses if one in known), None)


def _p2p(subject: Subject) -> P2p | None:
    last = last_proof(subject.examined)
    proven = last.proven if last else None
    if proven is None:
        return None
    return P2p(
        at=proven.at,
        level=proven.level,
        pairs=tuple(
            P2pPair(source=one.source, target=one.target, verdict=one.verdict)
            for one in proven.pairs
        ),
    )


def _limits(subject: Subject) -> Limits:
    found = subject.snapshot[LIMITS].or_empty
    bounds = {"memlock": found.memlock, "nofile": found.nofile}
    return Limits(
        unlimited=tuple(name for name, one in bounds.items() if one and one.soft == "unlimited"),
        shm_bytes=found.shm_bytes,
        memlock_bytes=_bound(found.memlock),
        nofile=_bound(found.nofile),
    )


def _bound(found: Range | None) -> int | None:
    return found.soft if found and isinstance(found.soft, int) else None


def _disks(subject: Subject) -> Iterator[Disk]:
    blocks = subject.blocks
    mounts = _mounts_by_device(subject)
    for disk in blocks.disks:
        inside = list(blocks.on_disk(disk.name))
        yield Disk(
            name=disk.name,
            model=disk.model,
            size_bytes=disk.bytes,
            transport=disk.transport,
            is_rotational=disk.is_rotational,
            is_removable=disk.is_removable,
            id_serial=disk.udev.get("ID_SERIAL"),
            id_serial_short=disk.udev.get("ID_SERIAL_SHORT") or disk.serial,
            wwn=disk.udev.get("ID_WWN_WITH_EXTENSION") or disk.udev.get("ID_WWN") or disk.wwn,
            id_path=disk.udev.get("ID_PATH"),
            holds=tuple(_holds(subject, disk, inside)),
            partitions=tuple(
                Partition(
                    name=one.name,
                    size_bytes=one.bytes,
                    type=one.type,
                    file_system=one.file_system,
                    uuid=one.uuid,
                    label=one.label,
                    part_uuid=one.part_uuid,
                    mounted_at=tuple(mount.target for mount in mounts.get(one.name, ())),
                )
                for one in inside
                if one is not disk or one.file_system
            ),
        )


def _mounts_by_device(subject: Subject) -> dict[str, list[Mounted]]:
    found: dict[str, list[Mounted]] = {}
    for mount in subject.blocks.mounts:
        for device in subject.blocks.devices_of(mount):
            found.setdefault(device.name, []).append(mount)
    return found


def _holds(subject: Subject, disk: Device, inside: Iterable[Device]) -> Iterator[str]:
    blocks = subject.blocks
    if disk.name in (blocks.of_root.disks or ()):
        yield "root"
    mounts = _mounts_by_device(subject)
    every = list(inside)
    targets = {one.name: {mount.target for mount in mounts.get(one.name, ())} for one in every}
    if any(targets[one.name] & set(BOOT_FOLDERS) for one in every):
        yield "boot"
    if any(one.file_system == SWAP for one in every):
        yield SWAP
    backups = _backup_devices(subject)
    if any(one.name in backups for one in every):
        yield "backups"
    root = blocks.mount_of("/")
    of_root = {one.name for one in blocks.devices_of(root)} if root else set()
    # A small FAT that is not mounted, as firmware partitions of installers are.
    if any(
        one.file_system not in {None, SWAP, *_MEMBERS}
        and one.name not in of_root | backups
        and not targets[one.name] & set(BOOT_FOLDERS)
        and not (one.file_system == "vfat" and (one.bytes or 0) <= _MOST_FIRMWARE)
        for one in every
    ):
        yield "data"


_MOST_FIRMWARE: Final = 2 << 30


def _backup_devices(subject: Subject) -> set[str]:
    blocks = subject.blocks
    found: set[str] = set()
    if path := local_path(subject.repository):
        mount = blocks.mount_of(path)
        found |= {one.name for one in blocks.devices_of(mount)} if mount else set()
    if sent := subject.sent_snapshots:
        wanted = (sent.send_to or "").lower()
        found |= {one.name for one in blocks.by_name.values() if (one.uuid or "").lower() == wanted}
    return found


def _file_systems(subject: Subject) -> Iterator[FileSystem]:
    blocks = subject.blocks
    grouped: dict[tuple[str, ...], list[Mounted]] = {}
    for mount in subject.blocks.mounts:
        if mount.type not in _PSEUDO or mount.target == "/":
            names = tuple(one.name for one in blocks.devices_of(mount)) or (mount.source,)
            grouped.setdefault(names, []).append(mount)
    for names, mounts in grouped.items():
        first = blocks.by_name.get(names[0])
        yield FileSystem(
            uuid=first.uuid if first else None,
            type=mounts[0].type,
            label=first.label if first else None,
            devices=names if first else (),
            disks=tuple(sorted(blocks.of_mount(mounts[0]).disks or ())),
            mounts=tuple(
                Mount(
                    at=one.target,
                    subvolume=next(
                        (
                            option.removeprefix(_SUBVOLUME)
                            for option in one.options
                            if option.startswith(_SUBVOLUME)
                        ),
                        None,
                    ),
                    options=one.options,
                )
                for one in mounts
            ),
        )


def _interfaces(subject: Subject) -> Iterator[Interface]:
    used: dict[str, Connection] = {
        one.name: one for one in subject.snapshot[IDENTITY].or_empty.connections or ()
    }
    named: dict[str, Named] = {
        one.name: one for one in subject.snapshot[NETWORK].or_empty.interfaces
    }
    for name in dict.fromkeys((*named, *used)):
        if name == "lo":
            continue
        how, what = used.get(name), named.get(name)
        yield Interface(
            name=name,
            mac=(what.mac if what else None) or (how.mac if how else None),
            permanent_mac=how.permanent_mac if how else None,
            kind=what.kind if what else None,
            driver=what.driver if what else None,
            address=what.address if what else None,
            state=what.state if what else None,
            addresses=how.addresses if how else (),
            gateways=how.gateways if how else (),
            is_dhcp=how.is_dhcp if how else None,
            wifi_ssid=how.ssid if how else None,
            members=tuple(one.name for one in used.values() if one.above == name),
        )


def _borg(subject: Subject) -> Borg | None:
    declared, state = subject.managed_borg, subject.borg_state
    version = subject.snapshot[IDENTITY].or_empty.borg
    if declared is None and version is None:
        return None
    key = subject.controller.key
    return Borg(
        version=version or (state.repository.borg if state else None) or None,
        last_borg=(state.repository.last_borg if state else None) or None,
        repository=declared.repository if declared else None,
        repository_id=(state.repository.id if state else None) or None,
        key=str(key) if key else None,
    )


def _backups(subject: Subject) -> Iterator[Backup]:
    if (declared := subject.managed_borg) is not None:
        state = subject.borg_state
        verified = last_verified(state) if state else None
        yield Backup(
            engine="borg",
            place=declared.repository or "",
            newest_at=state.newest_at if state else None,
            verified_at=verified.at if verified and verified.is_ok else None,
        )
    if (watched := subject.watched_borg) is not None:
        yield Backup(
            engine="unmanaged",
            place=watched.unit or "",
            newest_at=newest_backup(subject, watched),
            verified_at=None,
        )
    if (sent := subject.sent_snapshots) is not None:
        target = subject.snapshots_state.target if subject.snapshots_state else None
        newest = min(target.newest_at.values(), default=None) if target else None
        yield Backup(engine="btrfs", place=sent.send_to or "", newest_at=newest, verified_at=newest)


def _public(lines: Iterable[str], path: str | None = None) -> Iterator[PublicKey]:
    for line in lines:
        kind, _, rest = line.partition(" ")
        try:
            digest = sha256(b64decode(rest.partition(" ")[0], validate=True)).digest()
        except ValueError:
            continue
        fingerprint = b64encode(digest).decode().rstrip("=")
        yield PublicKey(type=kind, fingerprint=f"SHA256:{fingerprint}", path=path)
