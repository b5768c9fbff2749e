"""Names of network interfaces that another card may change."""

from __future__ import annotations

import pytest

from tests.unit.doctor.examining import check_of, judge
from tests.unit.probe import answers

MAC = "02:00:00:00:00:01"


def network(name: str, *lines: str, address: str = "0000:05:00.0") -> str:
    return (
        f"== ls /sys/class/net\n{name} address={address} driver=r8169 mac={MAC} state=up "
        "kind=wired\n"
        "== grep -Hn names of interfaces\n" + "".join(f"{line}\n" for line in lines)
    )


@pytest.mark.parametrize(
    ("text", "status"),
    [
        (network("enp5s0", "/etc/network/interfaces:3:iface enp5s0 inet dhcp"), "warn"),
        (network("enp5s0", "/etc/netplan/50.yaml:4:        enp5s0:"), "warn"),
        (network("wlp3s0", "/etc/network/interfaces:3:iface wlp3s0 inet dhcp"), "warn"),
        (network("enP2p1s0f0np0", "/etc/netplan/50.yaml:4:  enP2p1s0f0np0:"), "warn"),
        (network("enp5s0", "/etc/network/interfaces:3:iface enp5s0f1 inet dhcp"), "ok"),
        (network("enp5s0", "/etc/systemd/network/20.network:2:Name=en*"), "ok"),
        (
            network(
                "enp5s0",
                "/etc/netplan/50.yaml:4:        enp5s0:",
                f"/etc/netplan/50.yaml:6:                macaddress: {MAC}",
            ),
            "ok",
        ),
        (network("eno1", "/etc/network/interfaces:3:iface eno1 inet dhcp"), "ok"),
        (network("lan0", "/etc/network/interfaces:3:iface lan0 inet dhcp"), "ok"),
        (network("eth0", address="-"), "skipped"),
        (network("enp5s0", "/etc/netplan/50.yaml cannot be read"), "unknown"),
        (None, "unknown"),
    ],
)
def test_a_name_in_the_configuration(text: str | None, status: str) -> None:
    (found,) = judge({"network": text, "pci": answers.PCI}, checks=[check_of("net.ifname")])

    assert found.status == status
