"""Facts of nvidia-smi's output; each value of a card is looked up by all the names it has had."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from rigops.probe import address
from rigops.probe.smi import values
from rigops.probe.smi.values import Values

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rigops.probe.smi.values import CardOutput

FailureKind = Literal[
    "no-driver",  # couldn't communicate with the NVIDIA driver
    "mismatch",  # Driver/library version mismatch
    "no-devices",  # No devices were found
    "no-library",  # couldn't find libnvidia-ml.so
    "lost",  # Unable to determine the device handle for GPU …; GPU is lost
    "not-installed",  # the shell found no nvidia-smi; the section is then empty
    "other",
]

_LINK = "pci/pci_gpu_link_info"
_LINK_TEXT = "pci/gpu_link_info"
_THROTTLE = re.compile(r"clocks_(?:throttle|event)_reasons/(?:hw_slowdown/)?(?P<reason>\w+)")
_REASON_TAG = re.compile(r"clocks_(?:throttle|event)_reason_")
_REASONS = {
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


@dataclass(frozen=True, kw_only=True)
class SmiGpu:
    """None: not reported, or N/A. `troubles`: lines with ERR!, Unknown Error or GPU is lost."""

    address: str | None = None  # in the kernel's spelling
    name: str | None = None
    architecture: str | None = None
    uuid: str | None = None
    serial: str | None = None
    persistence: bool | None = None
    display_active: bool | None = None
    mig_current: bool | None = None
    mig_pending: bool | None = None
    generation: int | None = None
    generation_max: int | None = None
    width: int | None = None
    fan_percent: int | None = None
    performance_state: str | None = None  # P0 … P12
    throttle: frozenset[str] | None = None  # active reasons, by the names in _REASONS
    memory_total_mib: int | None = None
    bar1_total_mib: int | None = None
    utilization_percent: int | None = None
    ecc: bool | None = None
    ecc_volatile_uncorrected: int | None = None
    ecc_aggregate_uncorrected: int | None = None
    ecc_aggregate_corrected: int | None = None
    retired_single: int | None = None
    retired_double: int | None = None
    retired_pending: bool | None = None
    remapped_uncorrected: int | None = None
    remap_pending: bool | None = None
    remap_failed: bool | None = None
    celsius: float | None = None
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
    is_complete: bool = False  # the output has its proper end
    unparsed: tuple[str, ...] = ()


def read_card(output: CardOutput) -> tuple[SmiGpu, tuple[str, ...]]:
    """The card, and the lines that could not be parsed."""
    found = Values(output.leaves)
    get = found.get
    where = address.normal(output.address) or get(address.normal, "pci/pci_bus_id", "pci/bus_id")
    card = SmiGpu(
        line=output.line,
        raw={path: leaf.line for path, leaf in output.leaves.items()},
        address=where,
        troubles=tuple(
            leaf.line for leaf in output.leaves.values() if values.is_trouble(leaf.value)
        ),
        name=get(values.words, "product_name"),
        architecture=get(values.words, "product_architecture"),
        uuid=get(values.words, "uuid", "gpu_uuid"),
        serial=get(values.words, "serial", "serial_number"),
        persistence=get(values.switch, "persistence_mode"),
        display_active=get(values.switch, "display_active"),
        mig_current=get(values.switch, "mig_mode/current_mig", "mig_mode/current"),
        mig_pending=get(values.switch, "mig_mode/pending_mig", "mig_mode/pending"),
        generation=get(
            values.count,
            f"{_LINK}/pcie_gen/current_link_gen",
            f"{_LINK_TEXT}/pcie_generation/current",
        ),
        generation_max=get(
            values.count, f"{_LINK}/pcie_gen/max_link_gen", f"{_LINK_TEXT}/pcie_generation/max"
        ),
        width=get(
            values.lanes,
            f"{_LINK}/link_widths/current_link_width",
            f"{_LINK_TEXT}/link_width/current",
        ),
        fan_percent=get(values.percent, "fan_speed"),
        performance_state=get(values.words, "performance_state"),
        throttle=_throttle(output, found),
        memory_total_mib=get(values.mebibytes, "fb_memory_usage/total"),
        bar1_total_mib=get(values.mebibytes, "bar1_memory_usage/total"),
        utilization_percent=get(values.percent, "utilization/gpu_util", "utilization/gpu"),
        ecc=get(values.switch, "ecc_mode/current_ecc", "ecc_mode/current"),
        ecc_volatile_uncorrected=_errors(found, "volatile/double_bit", _PARTS_UNCORRECTED),
        ecc_aggregate_uncorrected=_errors(found, "aggregate/double_bit", _PARTS_UNCORRECTED),
        ecc_aggregate_corrected=_errors(found, "aggregate/single_bit", _PARTS_CORRECTED),
        retired_single=get(
            values.count,
            "retired_pages/multiple_single_bit_retirement/retired_count",
            "retired_pages/single_bit_ecc",
        ),
        retired_double=get(
            values.count,
            "retired_pages/double_bit_retirement/retired_count",
            "retired_pages/double_bit_ecc",
        ),
        retired_pending=found.any(
            "retired_pages/pending_retirement",
            "retired_pages/pending_blacklist",
            "retired_pages/pending",
            "retired_pages/pending_page_blacklist",
        ),
        remapped_uncorrected=get(
            values.count, "remapped_rows/remapped_row_unc", "remapped_rows/uncorrectable_error"
        ),
        remap_pending=get(
            values.switch, "remapped_rows/remapped_row_pending", "remapped_rows/pending"
        ),
        remap_failed=get(
            values.switch,
            "remapped_rows/remapped_row_failure",
            "remapped_rows/remapping_failure_occurred",
        ),
        celsius=_celsius(found, "gpu_temp", "gpu_current_temp"),
        celsius_slowdown=_celsius(found, "gpu_temp_slow_threshold", "gpu_slowdown_temp"),
        celsius_shutdown=_celsius(found, "gpu_temp_max_threshold", "gpu_shutdown_temp"),
        celsius_max=_celsius(found, "gpu_temp_max_gpu_threshold", "gpu_max_operating_temp"),
        memory_celsius=_celsius(found, "memory_temp", "memory_current_temp"),
        memory_celsius_max=_celsius(
            found, "gpu_temp_max_mem_threshold", "memory_max_operating_temp"
        ),
        watts=_watts(
            found,
            "power_draw",
            "instant_power_draw",
            "instantaneous_power_draw",
            "average_power_draw",
        ),
        watts_limit=_watts(found, "current_power_limit", "enforced_power_limit"),
        watts_requested=_watts(found, "requested_power_limit", "power_limit"),
        watts_default=_watts(found, "default_power_limit"),
        watts_min=_watts(found, "min_power_limit"),
        watts_max=_watts(found, "max_power_limit"),
        mhz_graphics=get(values.megahertz, "clocks/graphics_clock", "clocks/graphics"),
        mhz_sm=get(values.megahertz, "clocks/sm_clock", "clocks/sm"),
        mhz_memory=get(values.megahertz, "clocks/mem_clock", "clocks/memory"),
        mhz_application_graphics=get(
            values.megahertz, "applications_clocks/graphics_clock", "applications_clocks/graphics"
        ),
        mhz_application_memory=get(
            values.megahertz, "applications_clocks/mem_clock", "applications_clocks/memory"
        ),
        mhz_max_graphics=get(values.megahertz, "max_clocks/graphics_clock", "max_clocks/graphics"),
        mhz_max_sm=get(values.megahertz, "max_clocks/sm_clock", "max_clocks/sm"),
        mhz_max_memory=get(values.megahertz, "max_clocks/mem_clock", "max_clocks/memory"),
        processes=_processes(output, found),
    )
    return card, tuple(found.unparsed if where else (*found.unparsed, output.line))


def _errors(found: Values, block: str, parts: tuple[str, ...]) -> int | None:
    kind = block.partition("/")[0]
    return found.sum(f"ecc_errors/{block}/total", *(f"ecc_errors/{kind}/{part}" for part in parts))


def _celsius(found: Values, *names: str) -> float | None:
    return found.get(values.celsius, *(f"temperature/{name}" for name in names))


def _watts(found: Values, *names: str) -> float | None:
    blocks = ("gpu_power_readings", "gpu_power_readings/gpu_ceiling_power_limit", "power_readings")
    return found.get(values.watts, *(f"{block}/{name}" for name in names for block in blocks))


def _throttle(output: CardOutput, found: Values) -> frozenset[str] | None:
    """None where no reason is active and the list of reasons may have lost its end."""
    states: dict[str, bool] = {}
    is_incomplete = False
    for path in output.leaves:
        shape = _THROTTLE.fullmatch(path)
        reason = _REASONS.get(_REASON_TAG.sub("", shape["reason"])) if shape else None
        state = found.get(values.switch, path) if reason else None
        is_incomplete = shape is not None and not output.is_closed
        if reason and state is not None:
            states[reason] = state
    active = frozenset(reason for reason, is_active in states.items() if is_active)
    return active if active or (states and not is_incomplete) else None


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
