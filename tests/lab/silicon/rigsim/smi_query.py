"""--query-gpu: fields, units, and the wordings for what a card does not have."""

import time
from collections.abc import Callable, Sequence

from . import inforom
from .smi_view import DEPRECATED, NA, UNKNOWN_ERROR, Driver, View

_Getter = Callable[[View], object]
_ALIASES = {
    "gpu_name": "name", "gpu_uuid": "uuid", "gpu_bus_id": "pci.bus_id", "gpu_serial": "serial",
    "clocks.gr": "clocks.current.graphics", "clocks.graphics": "clocks.current.graphics",
    "clocks.sm": "clocks.current.sm", "clocks.mem": "clocks.current.memory",
    "clocks.memory": "clocks.current.memory", "clocks.video": "clocks.current.video",
    "clocks.applications.gr": "clocks.applications.graphics",
    "clocks.applications.mem": "clocks.applications.memory",
    "clocks.default_applications.gr": "clocks.default_applications.graphics",
    "clocks.default_applications.mem": "clocks.default_applications.memory",
    "clocks.max.gr": "clocks.max.graphics", "clocks.max.mem": "clocks.max.memory",
    "inforom.image": "inforom.img",
}  # fmt: skip


def _ecc_counter(view: View) -> object:
    return 0 if view.ecc == "Enabled" else NA


def _retired(view: View) -> object:
    return 0 if view.gpu.model.retired_pages else NA


def _remapped(view: View) -> object:
    return 0 if view.gpu.model.remapper else NA


def _remapped_for_errors(view: View) -> object:
    return int(bool(inforom.remapped(view.gpu))) if view.gpu.model.remapper else NA


def _remap_pending(view: View) -> object:
    if not view.gpu.model.remapper:
        return NA
    return int(inforom.remapped(view.gpu) == inforom.PENDING)


def _plain(value: str) -> str:
    return value.removesuffix(" MHz")


def _fields() -> dict[str, tuple[str, _Getter]]:
    fields: dict[str, tuple[str, _Getter]] = {
        "timestamp": ("", lambda _: _timestamp()),
        "driver_version": ("", lambda v: v.driver.version),
        "count": ("", lambda v: len(v.rig.gpus)),
        "name": ("", lambda v: v.gpu.model.product),
        "serial": ("", lambda v: v.serial),
        "uuid": ("", lambda v: v.gpu.uuid),
        "pci.bus_id": ("", lambda v: v.gpu.bus_id),
        "pci.domain": ("", lambda v: f"0x{v.gpu.address[:4].upper()}"),
        "pci.bus": ("", lambda v: f"0x{v.gpu.bus:02X}"),
        "pci.device": ("", lambda v: f"0x{v.gpu.address[8:10].upper()}"),
        "pci.device_id": ("", lambda v: f"0x{v.gpu.model.device.upper()}10DE"),
        "pci.sub_device_id": ("", lambda v: f"0x{v.gpu.model.subsystem.upper()}"),
        "pcie.link.gen.current": ("", lambda v: v.link_now),
        "pcie.link.gen.gpucurrent": ("", lambda v: v.link_now),
        "pcie.link.gen.max": ("", lambda v: v.link_max),
        "pcie.link.gen.gpumax": ("", lambda v: v.gpu.model.generation),
        "pcie.link.gen.hostmax": ("", lambda v: v.gpu.generation),
        "pcie.link.width.current": ("", lambda v: v.gpu.width),
        "pcie.link.width.max": ("", lambda _: 16),
        "index": ("", lambda v: v.gpu.number),
        "display_mode": ("", lambda v: "Disabled" if v.gpu.model.fan else "Enabled"),
        "display_active": ("", lambda _: "Disabled"),
        "persistence_mode": ("", lambda v: v.persistence),
        "addressing_mode": ("", lambda _: "None"),
        "accounting.mode": ("", lambda _: "Disabled"),
        "accounting.buffer_size": ("", lambda _: 4000),
        "driver_model.current": ("", lambda _: NA),
        "driver_model.pending": ("", lambda _: NA),
        "vbios_version": ("", lambda v: v.gpu.vbios),
        "inforom.img": ("", lambda v: "G001.0000.03.03" if v.gpu.model.fan else "G503.0201.00.03"),
        "inforom.oem": ("", lambda v: "2.0" if v.gpu.model.fan else "1.1"),
        "inforom.ecc": ("", lambda v: "5.0" if v.gpu.model.ecc else NA),
        "inforom.pwr": ("", lambda _: NA),
        "gom.current": ("", lambda _: NA),
        "gom.pending": ("", lambda _: NA),
        "fan.speed": ("%", lambda v: v.fan.removesuffix(" %")),
        "pstate": ("", lambda v: v.state),
        "clocks_event_reasons.supported": ("", lambda _: "0x00000000000001FF"),
        "clocks_event_reasons.active": ("", lambda v: f"0x{v.reasons_mask:016X}"),
        "memory.total": ("MiB", lambda v: v.gpu.model.memory_mib),
        "memory.reserved": ("MiB", lambda v: v.gpu.model.reserved_mib),
        "memory.used": ("MiB", lambda v: v.used_mib),
        "memory.free": ("MiB", lambda v: v.free_mib),
        "compute_mode": ("", lambda _: "Default"),
        "compute_cap": ("", lambda v: v.gpu.model.capability),
        "utilization.gpu": ("%", lambda v: v.percent),
        "utilization.memory": ("%", lambda _: 0),
        "encoder.stats.sessionCount": ("", lambda _: 0),
        "encoder.stats.averageFps": ("", lambda _: 0),
        "encoder.stats.averageLatency": ("", lambda _: 0),
        "ecc.mode.current": ("", lambda v: v.ecc),
        "ecc.mode.pending": ("", lambda v: v.ecc),
        "retired_pages.single_bit_ecc.count": ("", _retired),
        "retired_pages.double_bit.count": ("", _retired),
        "retired_pages.pending": ("", lambda v: "No" if v.gpu.model.retired_pages else NA),
        "remapped_rows.correctable": ("", _remapped),
        "remapped_rows.uncorrectable": ("", _remapped_for_errors),
        "remapped_rows.pending": ("", _remap_pending),
        "remapped_rows.failure": ("", _remapped),
        "temperature.gpu": ("", lambda v: v.celsius),
        "temperature.gpu.tlimit": ("", lambda v: v.margin),
        # Without brackets, unlike every other field.
        "temperature.memory": ("", lambda v: "\0" + v.memory_celsius),
        "power.management": ("", lambda _: "Enabled"),
        "power.draw": ("W", lambda v: f"{v.watts:.2f}"),
        "power.draw.average": ("W", lambda v: f"{v.watts:.2f}"),
        "power.draw.instant": ("W", lambda v: f"{v.watts:.2f}"),
        "power.limit": ("W", lambda v: f"{v.limit:.2f}"),
        "enforced.power.limit": ("W", lambda v: f"{v.limit:.2f}"),
        "power.default_limit": ("W", lambda v: f"{v.gpu.model.watts.default:.2f}"),
        "power.min_limit": ("W", lambda v: f"{v.gpu.model.watts.min:.2f}"),
        "power.max_limit": ("W", lambda v: f"{v.gpu.model.watts.max:.2f}"),
        "clocks.current.graphics": ("MHz", lambda v: v.graphics_clock),
        "clocks.current.sm": ("MHz", lambda v: v.graphics_clock),
        "clocks.current.memory": ("MHz", lambda v: v.memory_clock),
        "clocks.current.video": ("MHz", lambda v: v.video_clock),
        "clocks.applications.graphics": ("MHz", lambda v: _plain(v.applications[0])),
        "clocks.applications.memory": ("MHz", lambda v: _plain(v.applications[1])),
        "clocks.default_applications.graphics": (
            "MHz", lambda v: _plain(v.default_applications[0]),
        ),
        "clocks.default_applications.memory": (
            "MHz", lambda v: _plain(v.default_applications[1]),
        ),
        "clocks.max.graphics": ("MHz", lambda v: v.gpu.model.clocks.graphics),
        "clocks.max.sm": ("MHz", lambda v: v.gpu.model.clocks.graphics),
        "clocks.max.memory": ("MHz", lambda v: v.gpu.model.clocks.memory),
        "mig.mode.current": ("", lambda _: NA),
        "mig.mode.pending": ("", lambda _: NA),
        "fabric.state": ("", lambda _: NA),
        "fabric.status": ("", lambda _: NA),
    }  # fmt: skip
    for name in (
        "gpu_idle", "applications_clocks_setting", "sw_power_cap", "hw_slowdown",
        "hw_thermal_slowdown", "hw_power_brake_slowdown", "sw_thermal_slowdown", "sync_boost",
    ):  # fmt: skip
        fields[f"clocks_event_reasons.{name}"] = ("", _reason(name))
    for kind in ("corrected", "uncorrected"):
        for period in ("volatile", "aggregate"):
            for place in ("device_memory", "dram", "register_file", "l1_cache", "l2_cache",
                          "texture_memory", "cbu", "sram", "total"):  # fmt: skip
                fields[f"ecc.errors.{kind}.{period}.{place}"] = ("", _ecc_counter)
    return fields


def _reason(name: str) -> _Getter:
    return lambda view: "Active" if view.reasons[name] else "Not Active"


def _timestamp() -> str:
    now = time.time()
    return (
        time.strftime("%Y/%m/%d %H:%M:%S", time.localtime(now)) + f".{int(now * 1000) % 1000:03d}"
    )


FIELDS = _fields()


class UnknownFieldError(Exception):
    pass


def _canonical(name: str, driver: Driver) -> str:
    plain = _ALIASES.get(name, name).replace("clocks_throttle_reasons", "clocks_event_reasons")
    if not _is_known(plain, driver):
        raise UnknownFieldError(name)
    return plain


def _is_known(plain: str, driver: Driver) -> bool:
    if plain == "temperature.gpu.tlimit" and not driver.has_margins:
        return False
    if plain.startswith("power.draw.") and not driver.splits_draw:
        return False
    return plain in FIELDS


def _cell(view: View, name: str, *, units: bool) -> str:
    unit, getter = FIELDS[name]
    value = str(getter(view))
    if value.startswith("\0"):
        return value[1:]
    if value in (NA, DEPRECATED, UNKNOWN_ERROR):
        return f"[{value}]"
    return f"{value} {unit}" if unit and units else value


def header(fields: str, driver: Driver, options: Sequence[str]) -> tuple[list[str], list[str]]:
    """Canonical names, and the header line (none where it was not asked for)."""
    names = [_canonical(name.strip(), driver) for name in fields.split(",") if name.strip()]
    shown = [f"{name} [{FIELDS[name][0]}]" if FIELDS[name][0] else name for name in names]
    return names, [] if "noheader" in options else [", ".join(shown)]


def row(view: View, names: Sequence[str], options: Sequence[str]) -> str:
    units = "nounits" not in options
    return ", ".join(_cell(view, name, units=units) for name in names)


def help_text(driver: Driver) -> str:
    lines = [
        'List of valid properties to query for the switch "--query-gpu=":',
        "",
    ]
    for name in FIELDS:
        if not _is_known(name, driver):
            continue
        other = [alias for alias, target in _ALIASES.items() if target == name and alias != name]
        if name.startswith("clocks_event_reasons"):
            other.append(name.replace("event", "throttle"))
        lines += [" or ".join(f'"{word}"' for word in (name, *other)), ""]
    return "\n".join(lines) + "\n"
