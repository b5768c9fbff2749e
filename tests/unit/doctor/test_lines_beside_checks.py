"""Known lines beside what a check finds itself: a cause is told once."""

from __future__ import annotations

import json
from typing import Final

import pytest

from rigops.doctor.registry import examine
from rigops.probe.bundles.reading import read_content
from rigops.probe.snapshot import HostSnapshot
from tests.unit.doctor import module_rigs as rigs
from tests.unit.doctor.examining import catalog, judge

_CORRECTED: Final = (
    "nvidia 0000:41:00.0: PCIe Bus Error: severity=Corrected, type=Data Link Layer, (Receiver ID)"
)
_REMAPPER: Final = """
==============NVSMI LOG==============
Attached GPUs                             : 1
GPU 00000000:41:00.0
    Product Name                          : NVIDIA A100-SXM4-80GB
    Remapped Rows
        Correctable Error                 : 1
        Uncorrectable Error               : 0
        Pending                           : Yes
        Remapping Failure Occurred        : No
"""
_JOURNAL: Final = {"_TRANSPORT": "kernel", "__REALTIME_TIMESTAMP": "1700000000000000"}


@pytest.mark.parametrize(
    ("check", "text"),
    [
        pytest.param(
            "pci.aer.corr",
            f"[  100.1] {_CORRECTED.replace('Data ', f'Data{chr(10)}')}",
            id="wrapped",
        ),
        pytest.param("pci.aer.corr", json.dumps({**_JOURNAL, "MESSAGE": _CORRECTED}), id="journal"),
        pytest.param("remap", _REMAPPER.replace("\n", "\n1. "), id="numbered"),
    ],
)
def test_a_line_that_the_check_has_judged_on_its_card_is_not_told_again(
    check: str, text: str
) -> None:
    (bundle,) = read_content(text.encode(), place="post", host="post")
    found = [one for one in examine(HostSnapshot(bundle), None, catalog()) if one.id == check]
    told = [one.subject for one in found if one.status in {"warn", "info"}]
    assert told == ["gpu 0000:41:00.0"]


@pytest.mark.parametrize(
    ("check", "line", "status"),
    [
        ("gpu.lost", "nvidia 0000:0a:00.0: Unable to change power state from D3cold to D0", "ok"),
        ("gpu.lost", "NVRM: Assertion failed: GPU lost [NV_ERR_GPU_IS_LOST] (0x0000000F)", "ok"),
        ("drv.nouveau", "NVRM: The NVIDIA probe routine was not called for 1 device(s).", "ok"),
        (
            "gpu.init",
            "NVRM: GPU 0000:0a:00.0: rm_init_adapter failed, device minor number 0",
            "warn",
        ),
        ("ram.ecc", "EDAC MC0: 1 UE memory read error on CPU_SrcID#0 (channel:0 slot:0)", "fail"),
    ],
)
def test_where_a_host_is_seen_to_be_well_now_a_line_of_its_past_is_no_failure(
    check: str, line: str, status: str
) -> None:
    log = f"{rigs.LOG}[    5.000000] {line}\n"
    lspci = "".join(
        rigs.lspci("nvidia").replace("0000:01:", slot) for slot in ("0000:0a:", "0000:0b:")
    )
    found = judge({**rigs.WELL, "lspci": lspci, "kernel-log": log})
    assert {one.status for one in found if one.id == check} == {status}


def test_a_card_without_room_is_why_no_driver_is_loaded() -> None:
    text = (
        "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.\n"
        "NVRM: BAR1 is 0M @ 0x0 (PCI:0000:0a:00.0)\n"
    )
    (bundle,) = read_content(text.encode(), place="post", host="post")
    found = examine(HostSnapshot(bundle), None, catalog())
    (loaded,) = [one for one in found if one.id == "drv.loaded" and one.status == "fail"]
    assert "no room" in loaded.summary
