"""What a person reads from real outputs of nvidia-smi, file by file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pytest

from rigops.probe.sections import (
    nvidia_smi_p2p,
    nvidia_smi_topo,
    nvidia_smi_xml,
)
from tests.corpus import CORPUS

if TYPE_CHECKING:
    from collections.abc import Mapping

XML: Final = "01-nvidia-smi-xml"
TEXT: Final = "01b-nvidia-smi-q-text"
TABLE: Final = "01c-nvidia-smi-other"
TOPO: Final = "02-topo-m"
PEERS: Final = "03-topo-p2p"

IDLE: Final = frozenset({"gpu_idle"})
NONE: Final[frozenset[str]] = frozenset()
UUID: Final = "GPU-e74c83d3-05b6-6600-f0e7-23d768c6ef6e"

# Of a report, and of its first card. What a row does not name: whole, one card, nothing unparsed.
REPORTS: Final[dict[str, dict[str, Any]]] = {
    f"{XML}/c3sr--example1.xml": {
        "driver": "352.99", "name": "GRID K520", "address": "0000:00:03.0", "persistence": True,
        "generation": 1, "generation_max": 3, "width": 16, "celsius": 31, "celsius_slowdown": 92,
        "watts": 17.97, "watts_limit": 125, "watts_max": 130, "memory_total_mib": 4095,
        "throttle": IDLE, "ecc": None, "processes": 0,
    },
    f"{XML}/c3sr--example2.xml": {
        "driver": "352.99", "cuda": None, "name": "GRID K520", "celsius": 30, "watts": 17.95,
        "watts_limit": 125, "throttle": IDLE, "bar1_total_mib": 128,
    },
    f"{XML}/netdata--a100-sxm4-mig.xml": {
        "driver": "510.47.03", "cuda": "11.6", "name": "NVIDIA A100-SXM4-40GB",
        "architecture": "Ampere", "mig_current": True, "mig_pending": True, "persistence": False,
        "memory_total_mib": 40960, "bar1_total_mib": 65536, "memory_celsius": 44,
        "watts": 66.92, "watts_limit": 400, "ecc": True, "ecc_aggregate_uncorrected": 0,
        "ecc_volatile_uncorrected": None, "utilization_percent": None, "throttle": NONE,
        "mhz_application_graphics": 1095, "remap_pending": None,
    },
    f"{XML}/netdata--rtx-2080-win.xml": {
        "driver": "516.59", "name": "NVIDIA GeForce RTX 2080", "address": "0000:0a:00.0",
        "persistence": None, "display_active": True, "width": 8, "fan_percent": 37,
        "watts": 14.5, "watts_limit": 275, "processes": 26,
    },
    f"{XML}/netdata--rtx-3060.xml": {
        "driver": "515.65.01", "name": "NVIDIA GeForce RTX 3060 Laptop GPU", "fan_percent": None,
        "watts": 8.7, "watts_limit": None, "watts_default": None, "watts_max": None, "width": 8,
        "celsius": 45, "processes": 1,
    },
    f"{XML}/netdata--rtx-4090-driver-535.xml": {
        "driver": "535.86.05", "cuda": "12.2", "name": "NVIDIA GeForce RTX 4090",
        "address": "0000:84:00.0", "persistence": True, "watts": 26.84, "watts_limit": 450,
        "watts_requested": 450, "watts_max": 600, "remap_pending": False, "remap_failed": False,
        "celsius": 40, "celsius_slowdown": None, "throttle": IDLE,
        "processes": 0,
    },
    f"{XML}/netdata--rtx-pro-6000-driver-580.xml": {
        "driver": None, "attached": None, "name": "NVIDIA RTX PRO 6000 Blackwell",
        "watts": 66.84, "watts_limit": None, "fan_percent": 40, "celsius": 37, "throttle": None,
        "processes": None,
    },
    f"{XML}/netdata--tesla-p100.xml": {
        "driver": "510.47.03", "name": "Tesla P100-PCIE-16GB", "ecc": True,
        "ecc_volatile_uncorrected": 0, "ecc_aggregate_corrected": 3, "retired_single": 0,
        "retired_double": 0, "retired_pending": False, "remap_pending": None, "watts": 26.16,
        "watts_limit": 250, "mhz_application_graphics": 1189,
    },
    f"{XML}/telegraf--gtx-1660-ti.xml": {
        "driver": "418.43", "name": "Graphics Device", "address": "0000:43:00.0", "watts": 8.93,
        "watts_limit": 130, "fan_percent": 0, "celsius": 40, "persistence": False,
    },
    f"{XML}/telegraf--quadro-p2000-v12.xml": {
        "driver": "525.125.06", "name": "Quadro P2000", "persistence": True, "width": 8,
        "watts": 4.61, "watts_limit": 75, "fan_percent": 46,
    },
    f"{XML}/telegraf--quadro-p400.xml": {
        "driver": "418.43", "name": "Quadro P400", "watts": None, "watts_limit": None,
        "celsius": 33, "memory_total_mib": 1998, "fan_percent": 34,
    },
    f"{XML}/telegraf--rtx-3060-v12.xml": {
        "driver": "570.124.04", "cuda": "12.8", "name": "NVIDIA GeForce RTX 3060",
        "watts": 11.63, "watts_limit": 170, "watts_max": 190, "persistence": True,
        "bar1_total_mib": 256, "throttle": IDLE,
    },
    f"{XML}/telegraf--rtx-3080-v13.xml": {
        "driver": "595.58.03", "name": "NVIDIA GeForce RTX 3080", "performance_state": "P2",
        "utilization_percent": 65, "watts": 142.33, "watts_limit": 320, "watts_max": 336,
        "generation": 4, "throttle": NONE, "mhz_application_graphics": None,
    },
    f"{XML}/telegraf--rtx-3090-v12.xml": {
        "driver": "525.147.05", "name": "NVIDIA GeForce RTX 3090", "address": "0000:00:10.0",
        "watts": 27.23, "watts_limit": 200, "watts_requested": 200, "watts_default": 350,
        "watts_min": 100, "watts_max": 375, "persistence": True, "bar1_total_mib": 32768,
    },
    f"{XML}/telegraf--rtx-4000-sff-ada-v13.xml": {
        "driver": "595.84", "name": "NVIDIA RTX 4000 SFF Ada Generation", "display_active": True,
        "watts": 8.44, "watts_limit": 70, "watts_min": 30,
        "ecc": False, "remap_pending": False, "processes": 4,
    },
    f"{XML}/telegraf--tesla-t4.xml": {
        "driver": "515.105.01", "name": "Tesla T4", "address": "0000:00:1e.0", "width": 8,
        "watts": 26.78, "watts_limit": 70, "ecc": True, "ecc_volatile_uncorrected": 0,
        "persistence": False, "processes": 2, "throttle": NONE, "fan_percent": None,
    },
    f"{TEXT}/azure-nvsmi8.nvidia-smi-q.txt": {
        "driver": "535.86.10", "attached": 8, "cards": 8, "is_complete": False,
        "address": "0001:00:00.0", "name": None, "retired_single": 0, "retired_double": 0,
        "retired_pending": False, "throttle": None, "processes": None,
    },
    f"{TEXT}/cap-h100mig-590.nvidia-smi-q.txt": {
        "driver": "590.48.01", "cuda": "13.1", "name": "NVIDIA H100 80GB HBM3", "uuid": UUID,
        "mig_current": True, "persistence": True, "memory_total_mib": 81559,
        "bar1_total_mib": 131072, "memory_celsius": 48, "celsius_slowdown": None,
        "watts": 72.63, "watts_limit": 700, "watts_min": 200, "remap_pending": None,
        "throttle": IDLE, "utilization_percent": None,
    },
    f"{TEXT}/cap-h200-590.nvidia-smi-q.txt": {
        "driver": "590.48.01", "name": "NVIDIA H200", "address": "0000:83:00.0",
        "mig_current": False, "mig_pending": False, "remap_pending": False, "watts": 77.88,
        "watts_limit": 700, "memory_celsius": 32, "ecc_volatile_uncorrected": 0,
    },
    f"{TEXT}/cap-l40s-595.nvidia-smi-q.txt": {
        "driver": "595.80", "name": "NVIDIA L40S", "persistence": False, "watts": 119.88,
        "watts_limit": 350, "utilization_percent": 100, "celsius": 64, "throttle": NONE,
        "remap_pending": False, "processes": 0,
    },
    f"{TEXT}/cap-rtx2080s-595.nvidia-smi-q.txt": {
        "driver": "595.71.05", "name": "NVIDIA GeForce RTX 2080 SUPER", "watts": 37.62,
        "address": "0000:0c:00.0", "watts_limit": 250, "watts_max": 350, "fan_percent": 38,
        "display_active": True, "processes": 2,
    },
    f"{TEXT}/cap-rtx2080s-win591.nvidia-smi-q.txt": {
        "driver": "591.86", "persistence": None, "watts": 38.92, "watts_limit": 250,
        "processes": 10, "celsius": 40,
    },
    f"{TEXT}/cap-rtx2080s-win610.nvidia-smi-q.txt": {
        "driver": "610.62", "cuda": "13.3", "watts": 37.21, "watts_limit": 250,
        "watts_requested": 250, "watts_default": 250, "watts_min": 105, "celsius": 39,
        "processes": 19,
    },
    f"{TEXT}/stas-a100-rowremap.nvidia-smi-q.txt": {
        "driver": "510.73.08", "attached": 8, "cards": 1, "is_complete": False,
        "unparsed": ("[...]", "[...]"), "address": "0000:10:1c.0", "name": "NVIDIA A100-SXM4-80GB",
        "remap_pending": True, "remap_failed": False,
        "remapped_uncorrected": 0, "ecc_volatile_uncorrected": 0, "ecc_aggregate_corrected": 177,
        "retired_pending": None,
    },
    f"{TABLE}/h100mig-590-load.table.txt": {
        "driver": "590.48.01", "cuda": "13.1", "name": "NVIDIA H100 80GB HBM3", "celsius": 52,
        "address": "0000:00:09.0", "ecc": True, "fan_percent": None, "performance_state": "P0",
        "watts": 432, "watts_limit": 700, "memory_total_mib": 81559, "processes": 3,
    },
    f"{TABLE}/h200-590.table.txt": {"name": "NVIDIA H200", "address": "0000:83:00.0"},
    f"{TABLE}/h200mig-590.table.txt": {"name": "NVIDIA H200"},
    f"{TABLE}/jarkko-2x4090.table.txt": {
        "driver": "580.126.09", "cards": 2, "name": "NVIDIA GeForce RTX 4090", "ecc": False,
        "address": "0000:01:00.0", "persistence": False, "display_active": False, "celsius": 30,
        "fan_percent": 0, "watts": 29, "watts_limit": 400, "utilization_percent": 0,
    },
    f"{TABLE}/l40s-595.table.txt": {"driver": "595.80", "ecc_volatile_uncorrected": 0},
    f"{TABLE}/luigifcruz-4x6000ada.table.txt": {"cards": 4},
    f"{TABLE}/rtx2080s-595.table.txt": {"name": "NVIDIA GeForce RTX 2080 ..."},
    f"{TABLE}/rtx2080s-610.table.txt": {"driver": "610.57.04", "cuda": "13.3"},
    f"{TABLE}/rtx2080s-win591.table.txt": {"driver": "591.86", "persistence": None},
}  # fmt: skip

ONE_CARD: Final[dict[str, Any]] = {"gpus": 1, "kinds": {}}
NV18: Final = {"NV18": 56}

# `kinds`: how many ordered pairs are linked in which way.
TOPOLOGIES: Final[dict[str, dict[str, Any]]] = {
    f"{TOPO}/cap-h100-590.topo-m.txt": ONE_CARD,
    f"{TOPO}/cap-h200-590.topo-m.txt": ONE_CARD,
    f"{TOPO}/cap-h200mig-590.topo-m.txt": ONE_CARD,
    f"{TOPO}/cap-rtx2080s-595.topo-m.txt": ONE_CARD,
    f"{TOPO}/cap-rtx4080s-595.topo-m.txt": ONE_CARD,
    f"{TOPO}/cap-rtx2080s-win610.topo-m.txt": ONE_CARD,
    f"{TOPO}/cap-rtx2080s-win591.topo-m.txt": {
        "gpus": 0, "kinds": {},
        "unparsed": (
            "ERROR: Option -m is missing its value. Please run 'nvidia-smi -h' for help.",
        ),
    },
    f"{TOPO}/luigifcruz-esc8000a-4x6000ada-4nic.topo-m.txt": {
        "gpus": 4, "kinds": {"NODE": 4, "SYS": 8},
    },
    f"{TOPO}/luigifcruz-puget-2x6000ada-2nic.topo-m.txt": {
        "gpus": 2, "kinds": {"PHB": 2},
    },
    f"{TOPO}/stas-2xA6000-nv2.topo-m.txt": {"gpus": 2, "kinds": {"NV2": 2}},
    f"{TOPO}/stas-8gpu-numa.topo-m.txt": {
        "gpus": 8, "kinds": NV18,
    },
    f"{TOPO}/stas-8xH100-nv18.topo-m.txt": {
        "gpus": 8, "kinds": NV18,
    },
}  # fmt: skip

MATRICES: Final[dict[str, dict[str, Any]]] = {
    f"{PEERS}/nccl-docs-example.p2p.txt": {"gpus": 8, "granted": 56},
    f"{PEERS}/stas-8xh100-ok.p2p-r.txt": {"gpus": 8, "granted": 56},
}

ROWS: Final[dict[str, dict[str, Any]]] = {**REPORTS, **TOPOLOGIES, **MATRICES}


def _of_report(text: str) -> Mapping[str, object]:
    found = nvidia_smi_xml.parse(text)
    card = found.gpus[0]
    processes = None if card.processes is None else len(card.processes)
    cards = {"cards": len(found.gpus), "processes": processes}
    return {**vars(found), **vars(card), **cards}


def _of_topology(text: str) -> Mapping[str, object]:
    found = nvidia_smi_topo.parse(text)
    links = list(found.links.values())
    kinds = {kind: links.count(kind) for kind in links}
    return {"gpus": len(found.gpus), "kinds": kinds, "unparsed": found.unparsed}


def _of_matrix(text: str) -> Mapping[str, object]:
    found = nvidia_smi_p2p.parse(text)
    return {"gpus": len(found.gpus), "granted": len(found.granted), "unparsed": found.unparsed}


READERS: Final = {
    XML: _of_report,
    TEXT: _of_report,
    TABLE: _of_report,
    TOPO: _of_topology,
    PEERS: _of_matrix,
}
USUAL: Final[dict[str, Any]] = {
    "is_complete": True, "cards": 1, "unparsed": (), "failure": None, "troubles": {},
    "warnings": (),
}  # fmt: skip


@pytest.mark.corpus
@pytest.mark.parametrize("path", ROWS)
def test_a_person_and_the_parser_read_the_same(path: str) -> None:
    found = READERS[path.partition("/")[0]]((CORPUS / path).read_bytes().decode())

    usual = USUAL if path in REPORTS else {"unparsed": ()}
    expected = {**usual, **ROWS[path]}
    assert {name: found[name] for name in expected} == expected


@pytest.mark.corpus
@pytest.mark.parametrize("folder", [XML, TEXT, TOPO, PEERS])
def test_every_file_has_its_row(folder: str) -> None:
    files = {f"{folder}/{path.name}" for path in (CORPUS / folder).iterdir()}

    assert files == {path for path in ROWS if path.startswith(f"{folder}/")}
