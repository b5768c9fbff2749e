"""Network interfaces whose names another card may change."""

from __future__ import annotations

import re
from typing import Final

from rigops.doctor.check import Check
from rigops.doctor.examined import Examined
from rigops.doctor.finding import Evidence, Finding, fix_by_hand
from rigops.probe.sections.network import NAME_OF_SLOT, Interface, Network
from rigops.probe.sections.network import SECTION as NETWORK

_SHOWN: Final = 3
_WORD: Final = re.compile(r"[\w-]{1,64}")


@Check("net.ifname", needs=(NETWORK,), fixes=("hands",))
def names(examined: Examined) -> Finding | list[Finding]:
    """No configuration depends on the slot of a network card.

    Looks for configuration (ifupdown, netplan, systemd-networkd, NetworkManager) that names an
    interface by its place on the bus, such as enp5s0. One more card shifts the numbers: the
    interface is then called enp6s0, and the host is gone from the network. It is a warning, unless
    a line of the configuration has the address (MAC) of that interface.
    """
    answer = examined.snapshot[NETWORK]
    network = answer.value
    if network is None:
        return Finding("unknown", "the network interfaces were not collected")
    placed = [one for one in network.interfaces if one.address and NAME_OF_SLOT.fullmatch(one.name)]
    found = [finding for one in placed if (finding := _judged(network, one))]
    if found:
        return found
    if not answer.is_complete or network.unparsed:
        return Finding("unknown", "the network's configuration could not all be read")
    if not any(one.address for one in network.interfaces):
        return Finding("skipped", "no network interface is on the PCI bus")
    evidence = tuple(Evidence(NETWORK.name, one.line) for one in placed[:_SHOWN])
    return Finding("ok", "no configuration names an interface by its slot", evidence)


def _judged(network: Network, interface: Interface) -> Finding | None:
    name, mac = interface.name, interface.mac
    lines = [one for one in network.matches if name in _WORD.findall(one.text)]
    if not lines or (mac and any(mac.lower() in one.text.lower() for one in network.matches)):
        return None
    address = mac or "ADDRESS"
    return Finding(
        "warn",
        f"the configuration names {name}, which another card may rename",
        (
            Evidence(NETWORK.name, interface.line),
            *(Evidence(NETWORK.name, one.line) for one in lines[:_SHOWN]),
        ),
        subject=name,
        why="The name is made of the bus and the slot. A card more, or in another slot, shifts the "
        "numbers of the buses: the host then comes up without network.",
        fix=fix_by_hand(
            "before cards are moved, give the interface a name by its address: write "
            f"`[Match]`, `MACAddress={address}`, `[Link]`, `Name=lan0` to "
            "/etc/systemd/network/10-lan0.link, put lan0 into the configuration, run "
            "`update-initramfs -u`, and reboot with a screen at hand"
        ),
    )
