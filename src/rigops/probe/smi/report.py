"""Facts of nvidia-smi's output; each value of a card is looked up by all the names it has had."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import field, fields
from typing import Literal, TypeVar

from rigops.dataclass import dataclass
from rigops.probe import address
from rigops.probe.smi import values
from rigops.probe.smi.values import CardOutput, Values

Value = TypeVar("Value")

FailureKind = Literal[
    "no-driver",  # couldn't communicate with the NVIDIA driver
    "mismatch",  # Driver/library version mismatch
    "no-devices",  # No devices were found
    "no-library",  # couldn't find libnvidia-ml.so
    "not-started",  # Unable to determine the device handle for GPU …: Not Found
    "lost",  # Unable to determine the device handle for GPU …; GPU is lost
    "not-installed",  # the shell found no nvidia-smi; the section is then empty
    "other",
]

_LINK = "pci/pci_gpu_link_info"
_LINK_TEXT = "pci/gpu_link_info"
_THROTTLE = re.compile(r"clocks_(?:throttle|event)_reasons/(?:hw_slowdown/)?(?P<reason>\w+)")
_REASON_TAG = re.compile(r"clocks_(?:throttle|event)_reason_")
REASONS = {
    "gpu_idle": "gpu_idle",
    "idle": "gpu_idle",
    "applications_clocks_setting": "applications_clocks",
    "sw_power_cap": "sw_power_cap",
    "hw_slowdown": "hw_slowdown",
    "hw_thermal_slowdown": "hw_thermal_slowdown",
    "hw_power_brake_slowdown": "hw_power_brake",
    "sync_boost": "sync_boost",
    "sw_thermal_slowdown": "sw_thermal_slowdown",
    "display_clocks_setting": "display_clocks",
    "display_clock_setting": "display_clocks",
}
_PARTS_UNCORRECTED = (
    "sram_uncorrectable", "sram_uncorrectable_parity", "sram_uncorrectable_secded",
    "sram_uncorrectable_sec_ded", "dram_uncorrectable",
)  # fmt: skip
_USED = ("used_memory", "used_gpu_memory")
_PARTS_CORRECTED = ("sram_correctable", "dram_correctable")


@dataclass(frozen=True, kw_only=True)
class SmiProcess:
    pid: int
    kind: str  # C, G, C+G
    name: str


# Of each field of a card that is a value of its own: how to read it.
_READ = "read"


def _value(reads: Callable[[str], Value | None], *paths: str) -> Value | None:
    return field(default=None, metadata={_READ: lambda found: found.get(reads, *paths)})


def _any(*paths: str) -> bool | None:
    return field(default=None, metadata={_READ: lambda found: found.any(*paths)})


def _errors(block: str, *parts: str) -> int | None:
    kind = block.partition("/")[0]
    paths = (f"ecc_errors/{block}/total", *(f"ecc_errors/{kind}/{part}" for part in parts))
    return field(default=None, metadata={_READ: lambda found: found.sum(*paths)})


def _celsius(*names: str) -> float | None:
    return _value(values.celsius, *(f"temperature/{name}" for name in names))


def _watts(*names: str) -> float | None:
    blocks = ("gpu_power_readings", "gpu_power_readings/gpu_ceiling_power_limit", "power_readings")
    return _value(values.watts, *(f"{block}/{name}" for name in names for block in blocks))


@dataclass(frozen=True, kw_only=True)
class SmiGpu:
    """None: not reported, or N/A. `troubles`: by path, lines with ERR!, Unknown Error, GPU is lost.

    `watts_limit` is in force now, `watts_requested` is what was asked for.
    """

    address: str | None = None  # in the kernel's spelling
    name: str | None = _value(values.words, "product_name")
    architecture: str | None = _value(values.words, "product_architecture")
    uuid: str | None = _value(values.words, "uuid", "gpu_uuid")
    serial: str | None = _value(values.words, "serial", "serial_number")
    vbios: str | None = _value(values.words, "vbios_version")
    persistence: bool | None = _value(values.switch, "persistence_mode")
    display_active: bool | None = _value(values.switch, "display_active")
    mig_current: bool | None = _value(values.switch, "mig_mode/current_mig", "mig_mode/current")
    mig_pending: bool | None = _value(values.switch, "mig_mode/pending_mig", "mig_mode/pending")
    generation: int | None = _value(
        values.count,
        f"{_LINK}/pcie_gen/current_link_gen",
        f"{_LINK_TEXT}/pcie_generation/current",
    )
    generation_max: int | None = _value(
        values.count, f"{_LINK}/pcie_gen/max_link_gen", f"{_LINK_TEXT}/pcie_generation/max"
    )
    width: int | None = _value(
        values.lanes,
        f"{_LINK}/link_widths/current_link_width",
        f"{_LINK_TEXT}/link_width/current",
    )
    width_max: int | None = _value(
        values.lanes,
        f"{_LINK}/link_widths/max_link_width",
        f"{_LINK_TEXT}/link_width/max",
    )
    fan_percent: int | None = _value(values.percent, "fan_speed")
    performance_state: str | None = _value(values.words, "performance_state")  # P0 … P12
    throttle: frozenset[str] | None = None  # active reasons, by the names in REASONS
    memory_total_mib: int | None = _value(values.mebibytes, "fb_memory_usage/total")
    memory_used_mib: int | None = _value(values.mebibytes, "fb_memory_usage/used")
    bar1_total_mib: int | None = _value(values.mebibytes, "bar1_memory_usage/total")
    utilization_percent: int | None = _value(
        values.percent, "utilization/gpu_util", "utilization/gpu"
    )
    ecc: bool | None = _value(values.switch, "ecc_mode/current_ecc", "ecc_mode/current")
    ecc_volatile_uncorrected: int | None = _errors("volatile/double_bit", *_PARTS_UNCORRECTED)
    ecc_aggregate_uncorrected: int | None = _errors("aggregate/double_bit", *_PARTS_UNCORRECTED)
    ecc_aggregate_corrected: int | None = _errors("aggregate/single_bit", *_PARTS_CORRECTED)
    retired_single: int | None = _value(
        values.count,
        "retired_pages/multiple_single_bit_retirement/retired_count",
        "retired_pages/single_bit_ecc",
    )
    retired_double: int | None = _value(
        values.count,
        "retired_pages/double_bit_retirement/retired_count",
        "retired_pages/double_bit_ecc",
    )
    retired_pending: bool | None = _any(
        "retired_pages/pending_retirement",
        "retired_pages/pending_blacklist",
        "retired_pages/pending",
        "retired_pages/pending_page_blacklist",
    )
    remapped_uncorrected: int | None = _value(
        values.count, "remapped_rows/remapped_row_unc", "remapped_rows/uncorrectable_error"
    )
    remap_pending: bool | None = _value(
        values.switch, "remapped_rows/remapped_row_pending", "remapped_rows/pending"
    )
    remap_failed: bool | None = _value(
        values.switch,
        "remapped_rows/remapped_row_failure",
        "remapped_rows/remapping_failure_occurred",
    )
    celsius: float | None = _celsius("gpu_temp", "gpu_current_temp")
    celsius_slowdown: float | None = _celsius("gpu_temp_slow_threshold", "gpu_slowdown_temp")
    # Newer drivers: degrees that are left, and with how many left, mostly below 0, it slows down.
    celsius_left: float | None = _celsius(
        "gpu_temp_tlimit", "gpu_t_limit_temp", "gpu_current_t_limit_temp"
    )
    celsius_left_slowdown: float | None = _celsius(
        "gpu_temp_slow_tlimit_threshold", "gpu_slowdown_t_limit_temp"
    )
    memory_celsius: float | None = _celsius("memory_temp", "memory_current_temp")
    memory_celsius_max: float | None = _celsius(
        "gpu_temp_max_mem_threshold", "memory_max_operating_temp"
    )
    watts: float | None = _watts(
        "power_draw", "instant_power_draw", "instantaneous_power_draw", "average_power_draw"
    )
    watts_limit: float | None = _watts("current_power_limit", "enforced_power_limit")
    watts_requested: float | None = _watts("requested_power_limit", "power_limit")
    watts_default: float | None = _watts("default_power_limit")
    watts_min: float | None = _watts("min_power_limit")
    watts_max: float | None = _watts("max_power_limit")
    mhz_graphics: int | None = _value(values.megahertz, "clocks/graphics_clock", "clocks/graphics")
    mhz_sm: int | None = _value(values.megahertz, "clocks/sm_clock", "clocks/sm")
    mhz_memory: int | None = _value(values.megahertz, "clocks/mem_clock", "clocks/memory")
    mhz_application_graphics: int | None = _value(
        values.megahertz, "applications_clocks/graphics_clock", "applications_clocks/graphics"
    )
    mhz_application_memory: int | None = _value(
        values.megahertz, "applications_clocks/mem_clock", "applications_clocks/memory"
    )
    mhz_max_graphics: int | None = _value(
        values.megahertz, "max_clocks/graphics_clock", "max_clocks/graphics"
    )
    mhz_max_sm: int | None = _value(values.megahertz, "max_clocks/sm_clock", "max_clocks/sm")
    mhz_max_memory: int | None = _value(
        values.megahertz, "max_clocks/mem_clock", "max_clocks/memory"
    )
    # That it lists: graphics clocks by memory clock, highest first. Only the XML is read for that.
    listed_mhz: Mapping[int, tuple[int, ...]] = field(default_factory=dict, repr=False)
    processes: tuple[SmiProcess, ...] | None = None
    troubles: Mapping[str, str] = field(default_factory=dict)
    line: str = ""  # the raw line that names this card
    # The raw line of every value, by its path: `power_readings/power_limit`.
    raw: Mapping[str, str] = field(default_factory=dict, repr=False, compare=False)


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
    lost_numbers: tuple[int, ...] = ()  # of error lines that name no address: GPU3
    is_complete: bool = False  # the output has its proper end
    unparsed: tuple[str, ...] = ()


def read_card(output: CardOutput) -> tuple[SmiGpu, tuple[str, ...]]:
    """The card, and the lines that could not be parsed."""
    found = Values(output.leaves)
    where = address.normal(output.address) or found.get(
        address.normal, "pci/pci_bus_id", "pci/bus_id"
    )
    card = SmiGpu(
        line=output.line,
        raw={path: leaf.line for path, leaf in output.leaves.items()},
        address=where,
        troubles={
            path: leaf.line for path, leaf in output.leaves.items() if values.is_trouble(leaf.value)
        },
        throttle=_throttle(output, found),
        processes=_processes(output, found),
        listed_mhz=_listed(output),
        **{one.name: one.metadata[_READ](found) for one in fields(SmiGpu) if _READ in one.metadata},
    )
    # A list (-L) has no addresses, and the quote of it in collect_env no UUIDs.
    is_named = where or card.uuid or output.is_piece or output.leaves.keys() == {"product_name"}
    return card, tuple(found.unparsed if is_named else (*found.unparsed, output.line))


def _throttle(output: CardOutput, found: Values) -> frozenset[str] | None:
    """None where no reason is active and the list of reasons may have lost its end."""
    states: dict[str, bool] = {}
    is_incomplete = False
    for path in output.leaves:
        shape = _THROTTLE.fullmatch(path)
        reason = REASONS.get(_REASON_TAG.sub("", shape["reason"])) if shape else None
        state = found.get(values.switch, path) if reason else None
        is_incomplete = shape is not None and not output.is_closed
        if reason and state is not None:
            states[reason] = state
    active = frozenset(reason for reason, is_active in states.items() if is_active)
    return active if active or (states and not is_incomplete) else None


def _listed(output: CardOutput) -> dict[int, tuple[int, ...]]:
    listed: dict[int, list[int]] = {}
    for tag, value in output.clocks:
        if (mhz := values.megahertz(value)) is None:
            continue
        if tag == "value":
            listed[mhz] = []
        elif listed:
            listed[next(reversed(listed))].append(mhz)
    return {memory: tuple(graphics) for memory, graphics in listed.items()}


def _processes(output: CardOutput, found: Values) -> tuple[SmiProcess, ...] | None:
    if output.processes:
        return (
            tuple(filter(None, (_process(Values(one), found) for one in output.processes))) or None
        )
    none = output.leaves.get("processes")
    return () if none and none.value.lower() in {"", "none"} else None


def _process(one: Values, card: Values) -> SmiProcess | None:
    """None where it has no number, or where its last line is incomplete."""
    pid = one.get(values.count, "pid", "process_id")
    card.unparsed += one.unparsed
    if pid is None or not one.says(*_USED):
        return None
    return SmiProcess(
        pid=pid,
        kind=one.get(values.words, "type") or "",
        name=one.get(values.words, "process_name", "name") or "",
    )
