"""The rows of `nvidia-smi --query-gpu=… --format=csv`, with the line that names their columns."""

from __future__ import annotations

import re
from collections.abc import Sequence

from rigops.numbers import whole
from rigops.probe.smi.report import REASONS
from rigops.probe.smi.values import Leaf, SmiOutput

_COLUMN = re.compile(r"(?P<name>[a-z][A-Za-z0-9_.]{1,80})(?: \[(?P<unit>[^\]]{1,12})\])?")
_ADDRESS = "pci.bus_id"
_DRIVER = "driver_version"
_COUNT = "count"
_LINK = "pci/pci_gpu_link_info"
_PATHS = {
    "name": "product_name",
    "uuid": "uuid",
    "serial": "serial",
    "persistence_mode": "persistence_mode",
    "display_active": "display_active",
    "mig.mode.current": "mig_mode/current_mig",
    "mig.mode.pending": "mig_mode/pending_mig",
    "pcie.link.gen.current": f"{_LINK}/pcie_gen/current_link_gen",
    "pcie.link.gen.gpucurrent": f"{_LINK}/pcie_gen/current_link_gen",
    "pcie.link.gen.max": f"{_LINK}/pcie_gen/max_link_gen",
    "pcie.link.width.current": f"{_LINK}/link_widths/current_link_width",
    "fan.speed": "fan_speed",
    "pstate": "performance_state",
    "memory.total": "fb_memory_usage/total",
    "memory.used": "fb_memory_usage/used",
    "utilization.gpu": "utilization/gpu_util",
    "ecc.mode.current": "ecc_mode/current_ecc",
    "ecc.errors.uncorrected.volatile.total": "ecc_errors/volatile/double_bit/total",
    "ecc.errors.uncorrected.aggregate.total": "ecc_errors/aggregate/double_bit/total",
    "ecc.errors.corrected.aggregate.total": "ecc_errors/aggregate/single_bit/total",
    "temperature.gpu": "temperature/gpu_temp",
    "temperature.gpu.tlimit": "temperature/gpu_temp_tlimit",
    "temperature.memory": "temperature/memory_temp",
    "power.draw": "power_readings/power_draw",
    "power.limit": "power_readings/power_limit",
    "enforced.power.limit": "power_readings/enforced_power_limit",
    "power.default_limit": "power_readings/default_power_limit",
    "power.min_limit": "power_readings/min_power_limit",
    "power.max_limit": "power_readings/max_power_limit",
    "clocks.current.graphics": "clocks/graphics_clock",
    "clocks.current.sm": "clocks/sm_clock",
    "clocks.current.memory": "clocks/mem_clock",
    "clocks.max.sm": "max_clocks/sm_clock",
    **{
        f"clocks_{name}_reasons.{reason}": f"clocks_{name}_reasons/{reason}"
        for name in ("throttle", "event")
        for reason in REASONS
    },
}
_WITHOUT_UNIT = dict.fromkeys(
    ("temperature.gpu", "temperature.gpu.tlimit", "temperature.memory"), "C"
)
_BARE_NUMBER = re.compile(r"-?[0-9]{1,15}(?:\.[0-9]{1,9})?")


def is_query(lines: Sequence[str]) -> bool:
    return any(map(_columns, lines))


def read(lines: Sequence[str], *, ends_a_line: bool) -> SmiOutput:
    """Of several queries the last counts. Only where the number of cards was asked, is it whole."""
    output = SmiOutput()
    columns: list[tuple[str, str]] = []
    counts: set[int | None] = set()
    last = len(lines) - 1
    for place, line in enumerate(lines):
        named = _columns(line)
        cells = [cell.strip() for cell in line.split(",")]
        if named:
            output, columns, counts = SmiOutput(), named, set()
        elif columns and len(cells) == len(columns):
            found = {name: cell for (name, _), cell in zip(columns, cells, strict=True)}
            card = output.begin_card(line.strip(), found[_ADDRESS])
            card.is_closed = True
            # The last cell of a line without its end may go on.
            known = cells if ends_a_line or place < last else cells[:-1]
            for (name, unit), cell in zip(columns, known, strict=False):
                if name in _PATHS:
                    value = f"{cell} {unit}" if _BARE_NUMBER.fullmatch(cell) and unit else cell
                    card.leaves[_PATHS[name]] = Leaf(value, line.strip())
            if _DRIVER in found:
                output.head[_DRIVER] = Leaf(found[_DRIVER], line.strip())
            counts.add(whole(found.get(_COUNT, "")))
        elif line.strip():
            output.outside.append(line)
    output.is_complete = ends_a_line and counts == {len(output.cards)}
    return output


def _columns(line: str) -> list[tuple[str, str]]:
    """Each with its unit; nothing where the line names no columns, or not that of the address."""
    if _ADDRESS not in line:
        return []
    shapes = [_COLUMN.fullmatch(cell.strip()) for cell in line.split(",")]
    found = [
        (one["name"], one["unit"] or _WITHOUT_UNIT.get(one["name"], "")) for one in shapes if one
    ]
    is_whole = len(found) == len(shapes) > 1 and any(name == _ADDRESS for name, _ in found)
    return found if is_whole else []
