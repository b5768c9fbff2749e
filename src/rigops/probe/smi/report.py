"""What is known after nvidia-smi has been asked about its cards."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping

FailureKind = Literal[
    "no-driver",  # couldn't communicate with the NVIDIA driver
    "mismatch",  # Driver/library version mismatch
    "no-devices",  # No devices were found
    "no-library",  # couldn't find libnvidia-ml.so
    "lost",  # Unable to determine the device handle for GPU …; GPU is lost
    "not-installed",  # the shell found no nvidia-smi; the section is then empty
    "other",
]

THROTTLE_REASONS = (
    "gpu_idle", "applications_clocks", "sw_power_cap", "hw_slowdown", "hw_thermal_slowdown",
    "hw_power_brake", "sync_boost", "sw_thermal_slowdown", "display_clocks",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class SmiProcess:
    pid: int
    kind: str  # C, G, C+G
    name: str
    used_mib: int | None = None


@dataclass(frozen=True, kw_only=True)
class SmiGpu:
    """None: not reported, or N/A. `troubles`: lines with ERR!, Unknown Error or GPU is lost."""

    address: str | None = None  # in the kernel's spelling
    name: str | None = None
    architecture: str | None = None
    uuid: str | None = None
    serial: str | None = None
    vbios: str | None = None
    gsp_firmware: str | None = None
    persistence: bool | None = None
    display_active: bool | None = None
    compute_mode: str | None = None
    mig_current: bool | None = None
    mig_pending: bool | None = None
    generation: int | None = None
    generation_max: int | None = None
    width: int | None = None
    width_max: int | None = None
    replays: int | None = None
    fan_percent: int | None = None
    performance_state: str | None = None  # P0 … P12
    throttle: frozenset[str] | None = None  # active reasons, as in THROTTLE_REASONS
    memory_total_mib: int | None = None
    memory_used_mib: int | None = None
    bar1_total_mib: int | None = None
    utilization_percent: int | None = None
    ecc: bool | None = None
    ecc_pending: bool | None = None
    ecc_volatile_uncorrected: int | None = None
    ecc_aggregate_uncorrected: int | None = None
    ecc_aggregate_corrected: int | None = None
    retired_single: int | None = None
    retired_double: int | None = None
    retired_pending: bool | None = None
    remapped_corrected: int | None = None
    remapped_uncorrected: int | None = None
    remap_pending: bool | None = None
    remap_failed: bool | None = None
    celsius: float | None = None
    celsius_target: float | None = None
    celsius_slowdown: float | None = None
    celsius_shutdown: float | None = None
    celsius_max: float | None = None  # "GPU Max Operating Temp"
    memory_celsius: float | None = None
    memory_celsius_max: float | None = None
    watts: float | None = None
    watts_limit: float | None = None  # in force now
    watts_requested: float | None = None
    watts_default: float | None = None
    watts_min: float | None = None
    watts_max: float | None = None
    mhz_graphics: int | None = None
    mhz_sm: int | None = None
    mhz_memory: int | None = None
    mhz_application_graphics: int | None = None
    mhz_application_memory: int | None = None
    mhz_max_graphics: int | None = None
    mhz_max_sm: int | None = None
    mhz_max_memory: int | None = None
    processes: tuple[SmiProcess, ...] | None = None
    troubles: tuple[str, ...] = ()
    line: str = ""  # the raw line that names this card
    # The raw line of every value, by its path: `power_readings/power_limit`.
    said: Mapping[str, str] = field(default_factory=dict, repr=False, compare=False)


@dataclass(frozen=True, kw_only=True)
class SmiReport:
    """Every card that nvidia-smi still reports, or how it failed."""

    driver: str | None = None
    cuda: str | None = None
    attached: int | None = None
    gpus: tuple[SmiGpu, ...] = ()
    failure: FailureKind | None = None
    failure_lines: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()  # its WARNING lines, such as that of a corrupted infoROM
    lost: tuple[str, ...] = ()  # addresses that an error line names
    is_complete: bool = False  # the output has its proper end
    unparsed: tuple[str, ...] = ()
