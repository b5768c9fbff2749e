"""The tree behind -q and -q -x: every value with its element and its label."""

from typing import NamedTuple

from . import inforom, smi_view
from .smi_view import NA, View

_WIDE_FROM = 570


class Node(NamedTuple):
    """tag: element of the XML, none in text only. label: none in XML only."""

    tag: str
    label: str
    value: str = NA
    children: "tuple[Node, ...] | None" = None


def _leaf(tag: str, label: str, value: object = NA) -> Node:
    return Node(tag, label, str(value))


def _group(tag: str, label: str, *children: Node | None) -> Node:
    return Node(tag, label, "", tuple(child for child in children if child is not None))


def _pair(tag: str, label: str, names: tuple[str, str], values: tuple[str, str]) -> Node:
    children = zip(names, ("Current", "Pending"), values, strict=True)
    return _group(tag, label, *(_leaf(*child) for child in children))


def _identity(view: View) -> list[Node]:
    gpu, model = view.gpu, view.gpu.model
    recent = view.driver.branch >= _WIDE_FROM
    image = "G001.0000.03.03" if model.fan else "G503.0201.00.03"
    nothing = (NA, NA)
    version = view.driver.version
    newer = [
        _group(
            "platformInfo", "Platform Info",
            _leaf("chassis_serial_number", "Chassis Serial Number"),
            _leaf("slot_number", "Slot Number"),
            _leaf("tray_index", "Tray Index"),
            _leaf("host_id", "Host ID"),
            _leaf("peer_type", "Peer Type"),
            _leaf("module_id", "Module Id", 1),
            _leaf("gpu_fabric_guid", "GPU Fabric GUID"),
        )
    ] if recent else []  # fmt: skip
    flush = [
        _group(
            "inforom_bbx_flush", "Inforom BBX Object Flush",
            _leaf("latest_timestamp", "Latest Timestamp"),
            _leaf("latest_duration", "Latest Duration"),
        )
    ] if view.driver.splits_draw else []  # fmt: skip
    reset = smi_view.DEPRECATED if recent else "No"
    drain = smi_view.DEPRECATED if recent else NA
    return [
        _leaf("product_name", "Product Name", model.product),
        _leaf("product_brand", "Product Brand", model.brand),
        _leaf("product_architecture", "Product Architecture", model.architecture),
        _leaf("display_mode", "Display Mode", "Disabled" if model.fan else "Enabled"),
        _leaf("display_active", "Display Active", "Disabled"),
        _leaf("persistence_mode", "Persistence Mode", view.persistence),
        _leaf("addressing_mode", "Addressing Mode", "None"),
        _pair("mig_mode", "MIG Mode", ("current_mig", "pending_mig"), nothing),
        Node("mig_devices", "", "None", ()),
        _leaf("accounting_mode", "Accounting Mode", "Disabled"),
        _leaf("accounting_mode_buffer_size", "Accounting Mode Buffer Size", 4000),
        _pair("driver_model", "Driver Model", ("current_dm", "pending_dm"), nothing),
        _leaf("serial", "Serial Number", view.serial),
        _leaf("uuid", "GPU UUID", gpu.uuid),
        _leaf("minor_number", "Minor Number", gpu.number),
        _leaf("vbios_version", "VBIOS Version", gpu.vbios),
        _leaf("multigpu_board", "MultiGPU Board", "No"),
        _leaf("board_id", "Board ID", f"0x{gpu.bus << 8:x}"),
        _leaf("board_part_number", "Board Part Number"),
        _leaf("gpu_part_number", "GPU Part Number", model.part),
        _leaf("gpu_fru_part_number", "FRU Part Number"),
        *(newer or [_leaf("gpu_module_id", "Module ID", 1)]),
        _group(
            "inforom_version", "Inforom Version",
            _leaf("img_version", "Image Version", image),
            _leaf("oem_object", "OEM Object", "2.0" if model.fan else "1.1"),
            _leaf("ecc_object", "ECC Object", "5.0" if model.ecc else NA),
            _leaf("pwr_object", "Power Management Object"),
        ),
        *flush,
        _pair("gpu_operation_mode", "GPU Operation Mode", ("current_gom", "pending_gom"), nothing),
        *([_leaf("c2c_mode", "GPU C2C Mode")] if recent else
          [_leaf("gsp_firmware_version", "GSP Firmware Version")]),
        _group(
            "gpu_virtualization_mode", "GPU Virtualization Mode",
            _leaf("virtualization_mode", "Virtualization Mode", "None"),
            _leaf("host_vgpu_mode", "Host VGPU Mode"),
            _leaf("vgpu_heterogeneous_mode", "vGPU Heterogeneous Mode") if recent else None,
        ),
        _group(
            "gpu_reset_status", "GPU Reset Status",
            _leaf("reset_required", "Reset Required", reset),
            _leaf("drain_and_reset_recommended", "Drain and Reset Recommended", drain),
        ),
        *([_leaf("gpu_recovery_action", "GPU Recovery Action", "None"),
           _leaf("gsp_firmware_version", "GSP Firmware Version",
                 version if model.architecture in ("Ampere", "Ada Lovelace") else NA)]
          if recent else []),
        _group("ibmnpu", "IBMNPU", _leaf("relaxed_ordering_mode", "Relaxed Ordering Mode")),
    ]  # fmt: skip


def _pci(view: View) -> Node:
    gpu, model = view.gpu, view.gpu.model
    domain, bus, rest = gpu.address.upper().split(":")
    recent = view.driver.branch >= _WIDE_FROM
    classes = [
        _leaf("pci_base_class", "Base Classcode", "3"),
        _leaf("pci_sub_class", "Sub Classcode", model.pci_class[3]),
    ] if recent else []  # fmt: skip
    return _group(
        "pci", "PCI",
        Node("pci_bus", "Bus", bus),
        Node("pci_device", "Device", rest[:2]),
        Node("pci_domain", "Domain", domain),
        *classes,
        Node("pci_device_id", "Device Id", f"{model.device.upper()}10DE"),
        Node("pci_bus_id", "Bus Id", gpu.bus_id),
        Node("pci_sub_system_id", "Sub System Id", model.subsystem.upper()),
        _group(
            "pci_gpu_link_info", "GPU Link Info",
            _group(
                "pcie_gen", "PCIe Generation",
                _leaf("max_link_gen", "Max", view.link_max),
                _leaf("current_link_gen", "Current", view.link_now),
                _leaf("device_current_link_gen", "Device Current", view.link_now),
                _leaf("max_device_link_gen", "Device Max", model.generation),
                _leaf("max_host_link_gen", "Host Max", gpu.generation),
            ),
            _group(
                "link_widths", "Link Width",
                _leaf("max_link_width", "Max", "16x"),
                _leaf("current_link_width", "Current", f"{gpu.width}x"),
            ),
        ),
        _group(
            "pci_bridge_chip", "Bridge Chip",
            _leaf("bridge_chip_type", "Type"),
            _leaf("bridge_chip_fw", "Firmware"),
        ),
        _leaf("replay_counter", "Replays Since Reset", 0),
        _leaf("replay_rollover_counter", "Replay Number Rollovers", 0),
        _leaf("tx_util", "Tx Throughput", "0 KB/s"),
        _leaf("rx_util", "Rx Throughput", "0 KB/s"),
        _leaf("atomic_caps_inbound", "Atomic Caps Inbound"),
        _leaf("atomic_caps_outbound", "Atomic Caps Outbound"),
    )  # fmt: skip


_REASONS = {
    "gpu_idle": "Idle",
    "applications_clocks_setting": "Applications Clocks Setting",
    "sw_power_cap": "SW Power Cap",
    "hw_slowdown": "HW Slowdown",
    "hw_thermal_slowdown": "    HW Thermal Slowdown",
    "hw_power_brake_slowdown": "    HW Power Brake Slowdown",
    "sync_boost": "Sync Boost",
    "sw_thermal_slowdown": "SW Thermal Slowdown",
    "display_clocks_setting": "Display Clock Setting",
}


def _performance(view: View) -> list[Node]:
    return [
        _leaf("performance_state", "Performance State", view.state),
        _group(
            "clocks_event_reasons", "Clocks Event Reasons",
            *(
                _leaf(f"clocks_event_reason_{name}", _REASONS[name],
                      "Active" if on else "Not Active")
                for name, on in view.reasons.items()
            ),
        ),
    ]  # fmt: skip


def _amounts(tag: str, label: str, **values: int) -> Node:
    return _group(
        tag, label,
        *(_leaf(name, name.capitalize(), f"{value} MiB") for name, value in values.items()),
    )  # fmt: skip


def _memory(view: View) -> list[Node]:
    model, bar1 = view.gpu.model, view.gpu.bar1_mib
    return [
        _amounts(
            "fb_memory_usage", "FB Memory Usage", total=model.memory_mib,
            reserved=model.reserved_mib, used=view.used_mib, free=view.free_mib,
        ),
        _amounts("bar1_memory_usage", "BAR1 Memory Usage", total=bar1, used=1, free=bar1 - 1),
        _amounts(
            "cc_protected_memory_usage", "Conf Compute Protected Memory Usage",
            total=0, used=0, free=0,
        ),
    ]  # fmt: skip


def _utilization(view: View) -> list[Node]:
    names = {"gpu": view.percent, "memory": 0, "encoder": 0, "decoder": 0, "jpeg": 0, "ofa": 0}
    own = "GPU" if view.driver.branch >= _WIDE_FROM else "Gpu"
    labels = {"gpu": own, "memory": "Memory", "encoder": "Encoder", "decoder": "Decoder",
              "jpeg": "JPEG", "ofa": "OFA"}  # fmt: skip
    return [
        _group(
            "utilization", "Utilization",
            *(_leaf(f"{n}_util", labels[n], f"{value} %") for n, value in names.items()),
        )
    ]  # fmt: skip


def _sessions() -> list[Node]:
    return [
        _group(
            tag, label,
            _leaf("session_count", "Active Sessions", 0),
            _leaf("average_fps", "Average FPS", 0),
            _leaf("average_latency", "Average Latency", 0),
        )
        for tag, label in (("encoder_stats", "Encoder Stats"), ("fbc_stats", "FBC Stats"))
    ]  # fmt: skip


_OLD_ECC = {
    "device_memory": "Device Memory", "register_file": "Register File", "l1_cache": "L1 Cache",
    "l2_cache": "L2 Cache", "texture_memory": "Texture Memory", "texture_shm": "Texture Shared",
    "cbu": "CBU", "total": "Total",
}  # fmt: skip


def _ecc(view: View) -> list[Node]:
    on = view.ecc == "Enabled"
    count: object = 0 if on else NA
    if view.gpu.model.architecture in ("Volta", "Pascal") and view.gpu.model.ecc:
        periods = [
            _group(
                period, period.capitalize(),
                *(
                    _group(bits, label, *(
                        _leaf(tag, name, NA if tag == "texture_shm" else count)
                        for tag, name in _OLD_ECC.items()
                    ))
                    for bits, label in (("single_bit", "Single Bit"), ("double_bit", "Double Bit"))
                ),
            )
            for period in ("volatile", "aggregate")
        ]  # fmt: skip
    else:
        periods = [
            _group(
                period, period.capitalize(),
                _leaf("sram_correctable", "SRAM Correctable", count),
                _leaf("sram_uncorrectable", "SRAM Uncorrectable", count),
                _leaf("dram_correctable", "DRAM Correctable", count),
                _leaf("dram_uncorrectable", "DRAM Uncorrectable", count),
            )
            for period in ("volatile", "aggregate")
        ]  # fmt: skip
    return [
        _pair("ecc_mode", "ECC Mode", ("current_ecc", "pending_ecc"), (view.ecc, view.ecc)),
        _group("ecc_errors", "ECC Errors", *periods),
    ]


def _retired(view: View) -> list[Node]:
    has = view.gpu.model.retired_pages
    count, pending = ("0", "No") if has else (NA, NA)

    def kind(tag: str) -> Node:
        listed = Node("retired_pagelist", "", "", ()) if has else _leaf("retired_pagelist", "")
        return _group(tag, "", _leaf("retired_count", "", count), listed)

    return [
        _group(
            "retired_pages", "Retired Pages",
            kind("multiple_single_bit_retirement"),
            kind("double_bit_retirement"),
            _leaf("", "Single Bit ECC", count),
            _leaf("", "Double Bit ECC", count),
            _leaf("pending_blacklist", "Pending Page Blacklist", pending),
            _leaf("pending_retirement", "", pending),
        )
    ]  # fmt: skip


def _remapped(view: View) -> list[Node]:
    banks = view.gpu.model.remapper
    if not banks:
        return [_leaf("remapped_rows", "Remapped Rows")]
    used = int(bool(inforom.remapped(view.gpu)))
    pending = "Yes" if inforom.remapped(view.gpu) == inforom.PENDING else "No"
    names = {"max": banks - used, "high": used, "partial": 0, "low": 0, "none": 0}
    return [
        _group(
            "remapped_rows", "Remapped Rows",
            _leaf("remapped_row_corr", "Correctable Error", 0),
            _leaf("remapped_row_unc", "Uncorrectable Error", used),
            _leaf("remapped_row_pending", "Pending", pending),
            _leaf("remapped_row_failure", "Remapping Failure Occurred", "No"),
            _group(
                "row_remapper_histogram", "Bank Remap Availability Histogram",
                *(
                    _leaf(f"row_remapper_histogram_{name}", name.capitalize(), f"{n} bank(s)")
                    for name, n in names.items()
                ),
            ),
        )
    ]  # fmt: skip


def _celsius(value: int | None) -> str:
    return NA if value is None else f"{value} C"


def _degrees(text: str) -> str:
    return f"{text} C" if text.lstrip("-").isdigit() else text


def _temperature(view: View) -> list[Node]:
    facts = view.gpu.model.temperature
    memory = _degrees(view.memory_celsius)
    if facts.limit is not None:
        limits = [
            _leaf("gpu_temp_max_tlimit_threshold", "GPU Shutdown T.Limit Temp", "-7 C"),
            _leaf("gpu_temp_slow_tlimit_threshold", "GPU Slowdown T.Limit Temp", "-2 C"),
            _leaf("gpu_temp_max_gpu_tlimit_threshold", "GPU Max Operating T.Limit Temp", "0 C"),
        ]
        last = "gpu_temp_max_mem_tlimit_threshold"
    else:
        limits = [
            _leaf("gpu_temp_max_threshold", "GPU Shutdown Temp", _celsius(facts.shutdown)),
            _leaf("gpu_temp_slow_threshold", "GPU Slowdown Temp", _celsius(facts.slowdown)),
            _leaf("gpu_temp_max_gpu_threshold", "GPU Max Operating Temp", _celsius(facts.max)),
        ]
        last = "gpu_temp_max_mem_threshold"
    target = None if facts.target is None else 65
    return [
        _group(
            "temperature", "Temperature",
            _leaf("gpu_temp", "GPU Current Temp", _degrees(view.celsius)),
            _leaf("gpu_temp_tlimit", "GPU T.Limit Temp", _degrees(view.margin)),
            *limits,
            _leaf("gpu_target_temperature", "GPU Target Temperature", _celsius(facts.target)),
            _leaf("memory_temp", "Memory Current Temp", memory),
            _leaf(last, "Memory Max Operating Temp", _celsius(facts.memory_max)),
        ),
        _group(
            "supported_gpu_target_temp", "",
            _leaf("gpu_target_temp_min", "", _celsius(target)),
            _leaf("gpu_target_temp_max", "", _celsius(None if target is None else 91)),
        ),
    ]  # fmt: skip


def _limits(values: dict[str, str]) -> list[Node]:
    return [
        _leaf(f"{name}_power_limit", f"{name.capitalize()} Power Limit", value)
        for name, value in values.items()
    ]


def _draw(view: View, value: str) -> list[Node]:
    if not view.driver.splits_draw:
        return [_leaf("power_draw", "Power Draw", value)]
    return [
        _leaf("average_power_draw", "Average Power Draw", value),
        _leaf("instant_power_draw", "Instantaneous Power Draw", value),
    ]


def _power(view: View) -> list[Node]:
    watts = view.gpu.model.watts
    values = {
        "current": f"{view.limit:.2f} W",
        "requested": f"{view.limit:.2f} W",
        "default": f"{watts.default:.2f} W",
        "min": f"{watts.min:.2f} W",
        "max": f"{watts.max:.2f} W",
    }
    readings = [
        _group(
            "gpu_power_readings", "GPU Power Readings",
            _leaf("power_state", "", view.state),
            *_draw(view, f"{view.watts:.2f} W"),
            *_limits(values),
        )
    ]  # fmt: skip
    if view.driver.branch >= _WIDE_FROM:
        readings.append(
            _group("gpu_memory_power_readings", "GPU Memory Power Readings", *_draw(view, NA))
        )
    readings.append(
        _group(
            "module_power_readings", "Module Power Readings",
            _leaf("power_state", "", view.state),
            *_draw(view, NA),
            *_limits(dict.fromkeys(values, NA)),
        )
    )  # fmt: skip
    return readings


def _clock_pair(tag: str, label: str, values: tuple[str, str]) -> Node:
    return _group(
        tag, label,
        _leaf("graphics_clock", "Graphics", values[0]),
        _leaf("mem_clock", "Memory", values[1]),
    )  # fmt: skip


def _clock_set(tag: str, label: str, graphics: int, memory: int, video: int) -> Node:
    return _group(
        tag, label,
        _leaf("graphics_clock", "Graphics", f"{graphics} MHz"),
        _leaf("sm_clock", "SM", f"{graphics} MHz"),
        _leaf("mem_clock", "Memory", f"{memory} MHz"),
        _leaf("video_clock", "Video", f"{video} MHz"),
    )  # fmt: skip


def _clocks(view: View) -> list[Node]:
    highest = view.gpu.model.clocks
    boost = f"{highest.graphics} MHz" if view.gpu.model.applications else NA
    return [
        _clock_set("clocks", "Clocks", view.graphics_clock, view.memory_clock, view.video_clock),
        _clock_pair("applications_clocks", "Applications Clocks", view.applications),
        _clock_pair(
            "default_applications_clocks", "Default Applications Clocks",
            view.default_applications,
        ),
        _group("deferred_clocks", "Deferred Clocks", _leaf("mem_clock", "Memory")),
        _clock_set("max_clocks", "Max Clocks", highest.graphics, highest.memory, highest.video),
        _group("max_customer_boost_clocks", "Max Customer Boost Clocks",
               _leaf("graphics_clock", "Graphics", boost)),
        _group("clock_policy", "Clock Policy", _leaf("auto_boost", "Auto Boost"),
               _leaf("auto_boost_default", "Auto Boost Default")),
    ]  # fmt: skip


def _supported(view: View) -> list[Node]:
    model = view.gpu.model
    return [
        _group(
            "supported_clocks", "Supported Clocks",
            *(
                _group(
                    "supported_mem_clock", "",
                    _leaf("value", "Memory", f"{memory} MHz"),
                    *(
                        _leaf("supported_graphics_clock", "    Graphics", f"{clock} MHz")
                        for clock in model.graphics_clocks(memory)
                    ),
                )
                for memory in model.memory_clocks
            ),
        )
    ]  # fmt: skip


def _fabric(view: View) -> Node:
    if view.driver.branch < _WIDE_FROM:
        return _group("fabric", "Fabric", _leaf("state", "State"), _leaf("status", "Status"))
    return _group(
        "fabric", "Fabric",
        _leaf("state", "State"), _leaf("status", "Status"),
        _leaf("cliqueId", "CliqueId"), _leaf("clusterUuid", "ClusterUUID"),
        _group(
            "health", "Health",
            _leaf("bandwidth", "Bandwidth"),
            _leaf("route_recovery_in_progress", "Route Recovery in progress"),
            _leaf("route_unhealthy", "Route Unhealthy"),
            _leaf("access_timeout_recovery", "Access Timeout Recovery"),
        ),
    )  # fmt: skip


def document(view: View) -> list[tuple[str, list[Node]]]:
    """Nodes with the section that -d selects them by."""
    return [
        ("", _identity(view)),
        ("", [_pci(view), _leaf("fan_speed", "Fan Speed", view.fan)]),
        ("PERFORMANCE", _performance(view)),
        ("MEMORY", _memory(view)),
        ("COMPUTE", [_leaf("compute_mode", "Compute Mode", "Default")]),
        ("UTILIZATION", _utilization(view)),
        ("ENCODER_STATS", _sessions()),
        ("ECC", _ecc(view)),
        ("PAGE_RETIREMENT", _retired(view)),
        ("ROW_REMAPPER", _remapped(view)),
        ("TEMPERATURE", _temperature(view)),
        ("POWER", _power(view)),
        ("CLOCK", _clocks(view)),
        ("VOLTAGE", [_group("voltage", "Voltage", _leaf("graphics_volt", "Graphics"))]),
        ("", [_fabric(view)]),
        ("SUPPORTED_CLOCKS", _supported(view)),
        ("PIDS", [Node("processes", "Processes", "None", ())]),
        ("ACCOUNTING", [Node("accounted_processes", "", "", ())]),
    ]
