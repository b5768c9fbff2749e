"""The ports between the cards as the probe has them, and what a person should know. Pure."""

from __future__ import annotations

from contextlib import suppress
from itertools import combinations
from typing import TYPE_CHECKING, Final

from rigops import json_fields
from rigops.catalog import Catalog
from rigops.concerns.acs.state import RECORD, SCHEMA, AcsPorts, Port, judge_ports, word_of
from rigops.concerns.preconditions.firmware import in_the_bios
from rigops.concerns.state import REFUSED, State
from rigops.errors import RigopsError
from rigops.probe.pcie_routes import redirects, route_to
from rigops.probe.sections.boot import SECTION as BOOT
from rigops.probe.sections.boot import Boot
from rigops.probe.sections.lspci import SECTION as LSPCI
from rigops.probe.sections.pci import SECTION as PCI
from rigops.probe.sections.rigops_state import SECTION as RIGOPS_STATE
from rigops.probe.sections.secure_boot import SECTION as SECURE_BOOT

if TYPE_CHECKING:
    from rigops.probe.sections.firmware import Firmware
    from rigops.probe.snapshot import HostSnapshot

NEEDS: Final = (LSPCI, PCI, BOOT, SECURE_BOOT, RIGOPS_STATE)


def states(redirect: str | None, snapshot: HostSnapshot) -> list[State]:
    return judge_ports(redirect, _ports(snapshot), machine_of(snapshot[BOOT].or_empty))


def blocker(snapshot: HostSnapshot) -> str:
    """Why apply could clear nothing, were it declared; or nothing."""
    return next((one.why for one in states("off", snapshot) if one.status == REFUSED), "")


def machine_of(boot: Boot) -> str:
    """Which kind of virtual machine it is; empty where it is none."""
    return (boot.virtualization or "") if boot.is_virtual_machine else ""


def _ports(snapshot: HostSnapshot) -> AcsPorts:
    """As the program on the host finds them. Of cards whose place is not known, all bridges."""
    listed = snapshot[LSPCI].or_empty.by_address
    found = snapshot[PCI].or_empty.nvidia_gpus or snapshot[LSPCI].or_empty.nvidia_gpus
    cards = [one.address for one in found]
    routes = [route for card in cards if (route := route_to(snapshot, card))]
    between = {port for one, other in combinations(routes, 2) for port in one.between(other)}
    if len(routes) < len(cards):
        between = {address for address, one in listed.items() if one.is_bridge}
    was = _cleared(snapshot)
    ports = []
    for address in sorted(between | was.keys()):
        one = listed.get(address)
        is_known = redirects(one) is not None
        ports.append(
            Port(
                address=address,
                word=word_of(one.acs.enabled) if is_known and one and one.acs else None,
                earlier=was.get(address),
                is_between=address in between,
                is_readable=is_known,
            )
        )
    return AcsPorts(
        gpus=len(cards),
        ports=tuple(ports),
        is_locked_down=snapshot[SECURE_BOOT].or_empty.lockdown in {"integrity", "confidentiality"},
    )


def _cleared(snapshot: HostSnapshot) -> dict[str, int]:
    """The words before rigops cleared them in this boot. Nothing of a record that is damaged."""
    with suppress(RigopsError, ValueError):
        text = snapshot[RIGOPS_STATE].or_empty.records.get(RECORD, "")
        record = json_fields.parse(text, place=RECORD)
        record.require_schema(SCHEMA)
        if record.text("boot_id") == snapshot[BOOT].or_empty.boot_id:
            return {one.text("address"): int(one.text("word"), 16) for one in record.each("ports")}
    return {}


def firmware_step(catalog: Catalog, firmware: Firmware | None) -> str:
    return (
        "rigops clears these bits at every boot; some boards have a setting for it besides: "
        f"{in_the_bios(catalog, firmware, 'acs', turn='off')}"
    )
