"""The capture of a host: what a reinstall, and a comparison after it, need to know of it.

Names of fields are those of the JSON document. None: it was not collected, or there is none.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import field
from typing import Final, Literal

from rigops.dataclass import dataclass
from rigops.doctor.finding import HOST, Evidence
from rigops.errors import HostError
from rigops.json_dataclass import NAME, from_json, to_json
from rigops.json_fields import parse as parse_fields

SCHEMA: Final = "rigops.capture/1"

Status = Literal["safe", "not safe", "unknown"]
_GRAVEST: Final[tuple[Status, ...]] = ("not safe", "unknown", "safe")

RequirementStatus = Literal["fail", "unknown", "warn", "info", "ok", "skipped"]


@dataclass(frozen=True, kw_only=True)
class Requirement:
    """One thing that a wipe takes for granted. Only `fail` and `unknown` count against it."""

    id: str
    status: RequirementStatus
    summary: str
    subject: str = HOST
    evidence: tuple[Evidence, ...] = ()
    fix: str = ""


@dataclass(frozen=True, kw_only=True)
class System:
    """`kernel_packages`: those that follow a kernel, such as linux-image-amd64."""

    os_id: str | None = None
    os_version: str | None = None
    os_codename: str | None = None
    os_name: str | None = None
    hostname: str | None = None
    machine_id: str | None = None
    architecture: str | None = None
    firmware: str | None = None  # uefi, bios
    kernel: str | None = None
    kernel_packages: tuple[str, ...] = ()
    arguments: tuple[str, ...] = ()
    bootloader: str | None = None
    timezone: str | None = None
    locale: str | None = None
    keyboard: str | None = None
    keyboard_variant: str | None = None


@dataclass(frozen=True, kw_only=True)
class Declared:
    """Of the inventory, what a reinstalled system has to suit."""

    driver: str | None = None
    driver_flavor: str | None = None
    kernel_args: tuple[str, ...] = ()
    keys: tuple[str, ...] = ()  # names of all that are declared


@dataclass(frozen=True, kw_only=True)
class Package:
    name: str
    version: str
    architecture: str
    sha256: str
    size: int
    is_in_vault: bool


@dataclass(frozen=True, kw_only=True)
class Driver:
    version: str
    flavor: str
    proven_at: str | None = None
    packages: tuple[Package, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Gpu:
    """`bus_path`: addresses of the bridges above it, the root port first."""

    uuid: str | None
    name: str | None
    address: str
    slot: str | None = None
    bus_path: tuple[str, ...] = ()
    link_width: int | None = None
    max_link_width: int | None = None
    link_gts: float | None = None
    max_link_gts: float | None = None
    power_limit_watts: float | None = None
    persistence: bool | None = None


@dataclass(frozen=True, kw_only=True)
class P2pPair:
    """`source`, `target`: addresses."""

    source: str = field(metadata={NAME: "from"})
    target: str = field(metadata={NAME: "to"})
    verdict: str


@dataclass(frozen=True, kw_only=True)
class P2p:
    at: str
    level: str
    pairs: tuple[P2pPair, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Limits:
    """`unlimited`: memlock or nofile, where it has no bound, and is null."""

    shm_bytes: int | None = None
    memlock_bytes: int | None = None
    nofile: int | None = None
    unlimited: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Partition:
    """Also a file system on the whole disk, with the disk's own name."""

    name: str
    size_bytes: int | None = None
    type: str = ""
    file_system: str | None = None
    uuid: str | None = None
    label: str | None = None
    part_uuid: str | None = None
    mounted_at: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Disk:
    """`id_serial`: udev's ID_SERIAL, which installers match.

    `holds`: root, boot, swap, backups, data; nothing where no part of it is known to be used.
    """

    name: str
    model: str | None = None
    size_bytes: int | None = None
    transport: str | None = None
    is_rotational: bool | None = None
    is_removable: bool | None = None
    id_serial: str | None = None
    id_serial_short: str | None = None
    wwn: str | None = None
    id_path: str | None = None
    holds: tuple[str, ...] = ()
    partitions: tuple[Partition, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Mount:
    at: str
    subvolume: str | None = None
    options: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class FileSystem:
    """`disks`: names of those that it lies on."""

    uuid: str | None
    type: str
    label: str | None = None
    devices: tuple[str, ...] = ()
    disks: tuple[str, ...] = ()
    mounts: tuple[Mount, ...] = ()


@dataclass(frozen=True, kw_only=True)
class BackedUp:
    path: str
    engine: str
    place: str


@dataclass(frozen=True, kw_only=True)
class User:
    name: str
    uid: int
    gid: int
    home: str
    shell: str
    groups: tuple[str, ...] = ()
    is_login: bool = False  # whom rigops logs in as
    authorized_keys: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class PublicKey:
    type: str
    fingerprint: str
    path: str | None = None


@dataclass(frozen=True, kw_only=True)
class Interface:
    """`address`: on the PCI bus. `is_dhcp` None: it has no address, or none was reported.

    `members`: interfaces that are parts of this bridge or bond.
    """

    name: str
    mac: str | None = None
    permanent_mac: str | None = None
    kind: str | None = None
    driver: str | None = None
    address: str | None = None
    state: str | None = None
    addresses: tuple[str, ...] = ()
    gateways: tuple[str, ...] = ()
    is_dhcp: bool | None = None
    wifi_ssid: str | None = None
    members: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Network:
    interfaces: tuple[Interface, ...] = ()
    nameservers: tuple[str, ...] = ()
    search: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Borg:
    """`version` of the host's borg, `last_borg` of the one that wrote last. `key`: in the vault."""

    version: str | None = None
    last_borg: str | None = None
    repository: str | None = None
    repository_id: str | None = None
    key: str | None = None


@dataclass(frozen=True, kw_only=True)
class Backup:
    engine: str
    place: str
    newest_at: str | None = None
    verified_at: str | None = None


@dataclass(frozen=True, kw_only=True)
class Capture:
    host: str
    status: Status
    at: str = ""
    rigops: str = ""
    place: str = ""  # the folder that it is stored in
    requirements: tuple[Requirement, ...] = ()
    system: System = field(default_factory=System)
    declared: Declared = field(default_factory=Declared)
    driver: Driver | None = None
    gpus: tuple[Gpu, ...] = ()
    p2p: P2p | None = None
    limits: Limits = field(default_factory=Limits)
    disks: tuple[Disk, ...] = ()
    file_systems: tuple[FileSystem, ...] = ()
    backed_up: tuple[BackedUp, ...] = ()
    not_backed_up: tuple[str, ...] = ()
    users: tuple[User, ...] = ()
    keys: tuple[PublicKey, ...] = ()
    packages: tuple[str, ...] | None = None
    network: Network = field(default_factory=Network)
    borg: Borg | None = None
    backups: tuple[Backup, ...] = ()
    host_keys: tuple[PublicKey, ...] = ()

    def as_json(self) -> dict[str, object]:
        return {**to_json(self), "error": None}


@dataclass(frozen=True)
class NotCaptured:
    host: str
    error: HostError

    @property
    def status(self) -> Status:
        return "unknown"

    def as_json(self) -> dict[str, object]:
        return {"host": self.host, "status": self.status, "error": self.error.as_json()}


def overall(hosts: Iterable[Capture | NotCaptured]) -> Status:
    """The gravest."""
    found = {one.status for one in hosts}
    return next((one for one in _GRAVEST if one in found), "safe")


def exit_code(status: Status) -> int:
    return {"safe": 0, "not safe": 1, "unknown": 3}[status]


def judged(requirements: Iterable[Requirement]) -> Status:
    found = {one.status for one in requirements}
    return "not safe" if "fail" in found else "unknown" if "unknown" in found else "safe"


def document(hosts: Sequence[Capture | NotCaptured]) -> dict[str, object]:
    every = [one.as_json() for one in hosts]
    return {"schema": SCHEMA, "status": overall(hosts), "hosts": every}


def parse(text: str, *, place: str) -> Capture:
    """Of one host. Unknown fields are ignored; missing ones are empty."""
    fields = parse_fields(text, place=place, fix="capture the host again, if it still runs")
    fields.require_schema(SCHEMA)
    hosts = fields.each("hosts")
    if len(hosts) != 1:
        raise fields.wrong("hosts", [one.raw("host") for one in hosts], "one host")
    return from_json(Capture, hosts[0])
