"""What doctor and the thermal guard read of a real card is what nvidia-smi reports by name."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest

from rigops.concerns.thermal_guard.guard.readings import (
    FIELDS,
    MARGIN,
    Answer,
    GuardSettings,
    Smi,
    parse_readings,
    query_fields,
)
from rigops.hostside.p2p.machine import pci_address
from rigops.probe.bundles.reading import read_all
from rigops.probe.sections import nvidia_smi_xml
from rigops.probe.snapshot import HostSnapshot
from tests.shards import SILICON
from tests.silicon.cards import number, query

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

pytestmark = pytest.mark.shard(SILICON)

LIMITS = tuple(f"power.{name}" for name in ("min_limit", "limit", "default_limit", "max_limit"))
CARD = ("pci.bus_id", "uuid", "name", "memory.total", "driver_version", *LIMITS)


def test_doctor_reads_cards_driver_and_limits(
    tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    folder = tmp_path / "bundle"
    words = [sys.executable, "-m", "rigops", "doctor", "@local", "--json"]
    words += ["--raw", "--save", str(folder)]
    began = time.monotonic()
    done = subprocess.run(words, cwd=tmp_path, check=False, capture_output=True, text=True)
    seconds = time.monotonic() - began
    (host,) = json.loads(done.stdout)["hosts"]
    (bundle,) = read_all(folder)
    smi = HostSnapshot(bundle)[nvidia_smi_xml.SECTION].or_empty
    expected = query(*CARD)

    assert "error" not in host
    assert smi.unparsed == ()
    assert smi.is_complete
    assert {host["facts"]["driver"], smi.driver} == {one["driver_version"] for one in expected}
    # A card that no driver of NVIDIA's has is on the bus as well.
    on_bus = {one["address"] for one in host["facts"]["gpus"]}
    assert on_bus >= {pci_address(one["pci.bus_id"]) for one in expected}
    seen = [
        (one.address, one.uuid, one.name, one.memory_total_mib,
         one.watts_min, one.watts_requested, one.watts_default, one.watts_max)
        for one in smi.gpus
    ]  # fmt: skip
    assert seen == [
        (pci_address(one["pci.bus_id"]), one["uuid"], one["name"], number(one["memory.total"]),
         *(number(one[name]) for name in LIMITS))
        for one in expected
    ]  # fmt: skip
    for one in smi.gpus:
        assert one.celsius is not None
        assert 0 < one.celsius < 110
        assert is_ascending(one.watts_min, one.watts_requested, one.watts_max)
        assert is_ascending(one.watts_min, one.watts_default, one.watts_max)
        watts = f"limit {one.watts_requested} W of {one.watts_min} to {one.watts_max}"
        record_property("doctor reads", f"{watts}, {one.celsius:g} degrees")
    record_property("doctor took", f"{seconds:.1f} s")


def is_ascending(*values: float | None) -> bool:
    known = [value for value in values if value is not None]
    return known == sorted(known)


def ask(fields: Iterable[str]) -> Answer:
    """As the guard asks."""
    smi = Smi(60.0)
    form = "--format=csv,noheader,nounits"
    smi.start(time.monotonic(), "readings", [f"--query-gpu={','.join(fields)}", form])
    while True:
        answer = smi.poll(time.monotonic())
        if answer:
            return answer
        time.sleep(0.05)


def test_the_thermal_guard_reads_every_card(
    record_property: Callable[[str, object], None],
) -> None:
    answer = ask(query_fields(GuardSettings(margin=5)))
    if MARGIN in answer.text:  # a driver that does not know it: the guard goes on without
        answer = ask(FIELDS)
    readings = parse_readings(answer.text)

    assert answer.code == 0, str(answer)
    expected = query("pci.bus_id", "uuid", "power.limit", "power.min_limit", "power.default_limit")
    assert [(one.address, one.uuid, one.limit, one.least, one.default) for one in readings] == [
        (pci_address(one["pci.bus_id"]), one["uuid"], number(one["power.limit"]),
         number(one["power.min_limit"]), number(one["power.default_limit"]))
        for one in expected
    ]  # fmt: skip
    for one in readings:
        assert one.celsius is not None
        record_property(
            "the guard reads",
            f"{one.celsius:g} degrees, of the memory {one.memory}, margin {one.margin}",
        )
