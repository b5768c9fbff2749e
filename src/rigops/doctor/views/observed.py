"""What a baseline has of a host, as a snapshot shows it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Final

from rigops.doctor import views
from rigops.doctor.card import Card
from rigops.doctor.examined import Examined, once
from rigops.doctor.views import driver_state, error_counters, pcie
from rigops.probe.section import Section
from rigops.probe.sections.aer import SECTION as AER
from rigops.probe.sections.boot import SECTION as BOOT
from rigops.probe.sections.firmware import SECTION as FIRMWARE
from rigops.probe.sections.kernel_log import SECTION as KERNEL_LOG
from rigops.probe.sections.memory import SECTION as MEMORY
from rigops.probe.sections.network import SECTION as NETWORK
from rigops.probe.sections.nvidia_smi_nvlink import SECTION as NVLINK
from rigops.probe.sections.nvidia_version import SECTION as NVIDIA_VERSION
from rigops.probe.sections.proc_cmdline import SECTION as PROC_CMDLINE
from rigops.probe.sections.smart import SECTION as SMART
from rigops.probe.sections.storage import SECTION as STORAGE
from rigops.record.baseline import Baseline, BaselineCard, MemoryModule

NEEDS: Final[tuple[Section[Any], ...]] = (
    *views.COUNTS_CARDS,
    BOOT,
    FIRMWARE,
    NETWORK,
    NVIDIA_VERSION,
    MEMORY,
    AER,
    PROC_CMDLINE,
    KERNEL_LOG,
    NVLINK,
    STORAGE,
    SMART,
)


@once
def observed(examined: Examined) -> Baseline:
    snapshot = examined.snapshot
    boot = snapshot[BOOT].or_empty
    firmware, memory = snapshot[FIRMWARE].or_empty, snapshot[MEMORY].or_empty
    loaded = driver_state.loaded_version(snapshot)
    cards = tuple(observed_card(examined, one) for one in examined.cards)
    has_modules = bool(memory.modules) and not boot.is_virtual_machine
    channels = {one.channel for one in memory.modules if one.channel}
    return Baseline(
        host=snapshot.bundle.host,
        at=snapshot.collected_at or "",
        by="",
        who="",
        machine=tuple(_machine(examined)),
        board=firmware.name or None,
        boot_id=boot.boot_id,
        driver=loaded[0] if loaded else None,
        bios=firmware.bios or None,
        cards=cards if views.sees_the_bus(examined) else None,
        modules=tuple(
            MemoryModule(" ".join(filter(None, (one.bank, one.locator))), one.mib or 0)
            for one in memory.modules
        )
        if has_modules
        else None,
        channels=(len(channels) or None) if has_modules else None,
        memory_kib=memory.total_kib,
        counters={
            name: {place: one.count for place, one in counters.items()}
            for name, counters in error_counters.read_all(examined)
        },
    )


def _machine(examined: Examined) -> Iterator[str]:
    """Of a redacted bundle none of it is the machine's own."""
    for one in examined.snapshot[NETWORK].or_empty.interfaces:
        if one.address and one.mac:
            yield one.mac
    yield from (one.smi.uuid for one in examined.cards if one.smi and one.smi.uuid)


def observed_card(examined: Examined, card: Card) -> BaselineCard:
    found = BaselineCard(
        address=card.address, name=card.name, lanes=pcie.lanes_of(examined, card).now
    )
    smi = card.smi
    if smi is None:
        return found
    links = [one for one in examined.snapshot[NVLINK].or_empty.gpus if one.uuid == smi.uuid]
    return replace(
        found,
        uuid=smi.uuid,
        generation=smi.generation_max,
        bar1_mib=smi.bar1_total_mib,
        vbios=smi.vbios,
        nvlinks=len(links[0].active) if links and (links[0].links or links[0].remarks) else None,
        watts_limit=smi.watts_requested or smi.watts_limit,
        watts_default=smi.watts_default,
        mhz_application=smi.mhz_application_graphics,
        watts=smi.watts,
        celsius=smi.celsius,
        utilization_percent=smi.utilization_percent,
    )
