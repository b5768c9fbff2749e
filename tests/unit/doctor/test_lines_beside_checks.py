"""Known lines beside what a check finds itself: a cause is told once."""

from __future__ import annotations

import json
from typing import Final

import pytest

from rigops.doctor.registry import examine
from rigops.probe.bundles.reading import read_content
from rigops.probe.snapshot import HostSnapshot
from tests.unit.doctor.examining import catalog

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
