"""The declaration of a rig, as types. Units are in the names; None means not declared."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, fields
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar, Generic, Literal, TypeVar, cast

from rigops.dataclass import dataclass
from rigops.inventory.spec.scalars import Key

if TYPE_CHECKING:
    from packaging.specifiers import SpecifierSet


T = TypeVar("T")

Flavor = Literal["auto", "proprietary", "open"]
DriverSet = Literal["compute", "desktop"]
Trial = Literal["required", "off"]
AcsRedirect = Literal["keep", "off"]
Governor = Literal["performance", "powersave", "schedutil", "ondemand", "conservative", "userspace"]
ThermalAction = Literal["notify", "lower-power", "stop-jobs", "poweroff"]
P2PDemand = Literal["measure", "nvlink", "required", "skip"]
GpuContainers = Literal["protect", "refuse", "leave"]


@dataclass(frozen=True)
class DriverDeclaration:
    """A branch ("535"), a version ("535.261.03") or a range (">=535,<536")."""

    kind: Literal["branch", "version", "range"]
    text: str
    versions: SpecifierSet


@dataclass(frozen=True)
class DriverSource:
    kind: Literal["auto", "distribution", "vendor", "snapshot", "dir", "deb822"]
    snapshot: str = ""
    directory: str = ""
    fields: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class GpuSelector:
    kind: Literal["uuid", "address", "model", "default"]
    text: str


@dataclass(frozen=True)
class PerGpu(Generic[T]):
    """One value for all cards, or one for each selector; the closest selector wins."""

    choices: tuple[tuple[GpuSelector, T], ...]


@dataclass(frozen=True)
class ExpectedGpus:
    total: int | None = None
    models: tuple[tuple[str, int], ...] = ()
    uuids: tuple[str, ...] = ()

    @property
    def count(self) -> int:
        return self.total or sum(count for _, count in self.models) or len(self.uuids)


@dataclass(frozen=True)
class PowerLimit:
    """Watts, or a share of the card's default."""

    watts: float | None = None
    percent: float | None = None


@dataclass(frozen=True)
class Clocks:
    graphics_mhz: tuple[int, int] | None = None
    memory_mhz: tuple[int, int] | None = None
    application_mhz: tuple[int, int] | None = None  # memory, graphics: nvidia-smi's own order


@dataclass(frozen=True)
class ThermalLimit:
    """`margin_celsius`: degrees that are left to the limit that the card itself has (T.Limit)."""

    gpu_celsius: float | None = None
    memory_celsius: float | None = None
    margin_celsius: float | None = None


@dataclass(frozen=True)
class Psu:
    watts: int
    count: int = 1
    gpus: tuple[str, ...] = ()
    host: bool = False
    circuit: str | None = None


@dataclass(frozen=True)
class Circuit:
    name: str
    volts: float
    amperes: float

    @property
    def text(self) -> str:
        return f"{self.volts:g}V/{self.amperes:g}A"


@dataclass(frozen=True)
class Retention:
    """How many of each age to keep, such as 24 hourly, 7 daily and 4 weekly."""

    hourly: int = 0
    daily: int = 0
    weekly: int = 0
    monthly: int = 0
    yearly: int = 0


@dataclass(frozen=True)
class Snapshots:
    subvolumes: tuple[str, ...] = ()
    keep: Retention | None = None
    send_to: str | None = None


@dataclass(frozen=True)
class Borg:
    """`newest`: a command on the host that prints when an unmanaged backup was taken last.

    `host_keys`: whether the host's own ssh keys are in the archive. `checkpoints`: how many of each
    series below a path are in it.
    """

    managed: bool = True
    unit: str | None = None
    repository: str | None = None
    paths: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    keep: Retention | None = None
    schedule: str | None = None
    check_every_days: int | None = None
    passphrase_command: str | None = None
    newest: str | None = None
    host_keys: bool = False
    checkpoints: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True)
class Limits:
    shm: str | None = None
    memlock: str | None = None
    nofile: int | None = None
    removeipc: bool | None = None


@dataclass(frozen=True, kw_only=True)
class Notify:
    """Whom a host notifies of what goes wrong: a URL or a command, not both; all are secret.

    `ping`: the dead-man URL, which alarms when nothing comes any more.
    """

    url: str | None = None
    command: str | None = None
    ping: str | None = None


@dataclass(frozen=True)
class RigSpec:
    """The declaration of a host. `others`: keys that have no field here, by name."""

    FIELDS: ClassVar[frozenset[str]]

    driver: DriverDeclaration | None = None
    driver_allow_bad: bool | None = None
    driver_source: DriverSource | None = None
    driver_flavor: Flavor | None = None
    driver_set: DriverSet | None = None
    driver_modules: str | None = None
    module_options: tuple[tuple[str, tuple[tuple[str, str], ...]], ...] | None = None
    kernel_hold: bool | None = None
    container_toolkit: str | None = None
    kernel_args: tuple[str, ...] | None = None
    kernel_trial: Trial | None = None
    acs_redirect: AcsRedirect | None = None
    gpus: ExpectedGpus | None = None
    gpu_persistence: bool | None = None
    gpu_power_limit: PerGpu[PowerLimit] | None = None
    gpu_clocks: PerGpu[Clocks] | None = None
    cpu_max_freq: int | None = None  # kHz, as the kernel counts
    cpu_governor: Governor | None = None
    thermal_limit: ThermalLimit | None = None
    thermal_hold: int | None = None
    thermal_action: ThermalAction | None = None
    thermal_sensor_loss: ThermalAction | None = None
    psus: tuple[Psu, ...] | None = None
    circuits: tuple[Circuit, ...] | None = None
    electricity_price: float | None = None
    other_watts: int | None = None
    p2p: P2PDemand | None = None
    snapshots: Snapshots | None = None
    borg: Borg | None = None
    limits: Limits | None = None
    nccl: tuple[tuple[str, str], ...] | None = None
    notify: Notify | None = None
    metrics: str | None = None  # "auto", or a directory
    gpu_containers: GpuContainers | None = None
    reboot_timeout: int | None = None
    rigops_vault: str | None = None
    catalog: str | None = None

    others: Mapping[str, object] = field(default_factory=dict)

    def __getitem__(self, key: Key[T]) -> T | None:
        if key.name in self.FIELDS:
            return cast("T | None", getattr(self, key.name))
        return cast("T | None", self.others.get(key.name))

    @cached_property
    def declared(self) -> frozenset[str]:
        named = {name for name in self.FIELDS if getattr(self, name) is not None}
        return frozenset(named | self.others.keys())


RigSpec.FIELDS = frozenset(one.name for one in fields(RigSpec)) - {"others"}
