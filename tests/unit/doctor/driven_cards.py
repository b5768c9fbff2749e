"""Rigs of cards as nvidia-smi tells of them, and what the checks say to them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from rigops.doctor.registry import examine
from rigops.probe.sections import pci
from rigops.probe.smi.report import SmiGpu, SmiReport
from tests.unit.doctor.examining import catalog, check_of, snapshot_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rigops.doctor.finding import Finding
    from rigops.inventory.spec import RigSpec
    from rigops.probe.snapshot import HostSnapshot

CONCERNS = frozenset({"gpu_tuning"})
DEVICES = {"NVIDIA GeForce RTX 3090": 0x2204, "NVIDIA GeForce RTX 5090": 0x2B85}
V100 = "Tesla V100-SXM2-16GB"
FIRST, SECOND = "0000:0a:00.0", "0000:0b:00.0"

RTX3090 = SmiGpu(
    name="NVIDIA GeForce RTX 3090",
    architecture="Ampere",
    uuid="GPU-11111111-1111-1111-1111-111111111111",
    performance_state="P8",
    throttle=frozenset({"gpu_idle"}),
    fan_percent=0,
    utilization_percent=0,
    remap_pending=False,
    remap_failed=False,
    remapped_uncorrected=0,
    celsius=41.0,
    celsius_slowdown=95.0,
    watts=21.0,
    watts_limit=350.0,
    watts_requested=350.0,
    watts_default=350.0,
    watts_min=100.0,
    watts_max=366.0,
    mhz_graphics=210,
    mhz_sm=210,
    mhz_memory=405,
    mhz_max_graphics=2100,
    mhz_max_sm=2100,
    mhz_max_memory=9751,
    line='<gpu id="00000000:0A:00.0">',
)
RTX5090 = replace(
    RTX3090,
    name="NVIDIA GeForce RTX 5090",
    architecture="Blackwell",
    watts_limit=575.0,
    watts_requested=575.0,
    watts_default=575.0,
    watts_min=400.0,
    watts_max=600.0,
)
SXM2 = replace(
    RTX3090,
    name=V100,
    architecture="Volta",
    performance_state="P0",
    fan_percent=None,
    throttle=frozenset({"gpu_idle"}),
    ecc=True,
    ecc_volatile_uncorrected=0,
    ecc_aggregate_uncorrected=0,
    ecc_aggregate_corrected=3,
    retired_single=0,
    retired_double=1,
    retired_pending=False,
    remap_pending=None,
    remap_failed=None,
    remapped_uncorrected=None,
    celsius_slowdown=90.0,
    memory_celsius=38.0,
    memory_celsius_max=85.0,
    watts=40.0,
    watts_limit=300.0,
    watts_requested=300.0,
    watts_default=300.0,
    watts_min=150.0,
    watts_max=300.0,
    mhz_application_memory=877,
    mhz_application_graphics=1290,
    mhz_max_sm=1530,
)


def rig(*gpus: SmiGpu, **more: Any) -> HostSnapshot:
    """Each card on a bus of its own, from 0a on, seen by sysfs and by nvidia-smi."""
    placed = [replace(gpu, address=f"0000:{10 + at:02x}:00.0") for at, gpu in enumerate(gpus)]
    return snapshot_of(
        pci=pci.Pci(tuple(_function(gpu) for gpu in placed)),
        nvidia_smi_xml=SmiReport(attached=len(placed), gpus=tuple(placed), is_complete=True),
        **more,
    )


def _function(gpu: SmiGpu) -> pci.PciFunction:
    return pci.PciFunction(
        address=gpu.address or "",
        vendor=pci.NVIDIA,
        device=DEVICES.get(gpu.name or "", 0x1DB1),
        pci_class=0x030200,
        driver="nvidia",
        link=None,
        fastest_link=None,
        bar1_bytes=None,
        path=None,
        line="",
    )


def look(
    check: str,
    facts: HostSnapshot,
    spec: RigSpec | None = None,
    *,
    concerns: frozenset[str] = CONCERNS,
) -> list[Finding]:
    """Everything that one check finds."""
    return examine(facts, spec, catalog(), checks=[check_of(check)], concerns=concerns)


def statuses(found: Iterable[Finding]) -> list[str]:
    return [one.status for one in found]
