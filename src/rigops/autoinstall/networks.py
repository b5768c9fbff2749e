"""The captured network as an installer is to have it: interfaces by MAC, DHCP or static."""

from __future__ import annotations

import re
from collections.abc import Iterable
from ipaddress import ip_address, ip_interface

from rigops.capture.document import Interface, Network
from rigops.dataclass import dataclass
from rigops.errors import usage_error

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,14}")
_MAC = re.compile(r"[0-9a-f]{2}(:[0-9a-f]{2}){5}")
_DOMAIN = re.compile(r"[A-Za-z0-9]([A-Za-z0-9.-]{0,251}[A-Za-z0-9])?")
# Characters of a WPA passphrase; or 64 hexadecimal digits.
_PASSPHRASE = re.compile(r"[ -~]{8,63}|[0-9A-Fa-f]{64}")
_SSID = re.compile(r"[ -~]{1,32}")
_BARE = re.compile(r"[^ ].*[^ \\]|[^ \\]")  # /etc/network/interfaces has no quotes


@dataclass(frozen=True, kw_only=True)
class Wired:
    """Without addresses: by DHCP. `gateways`: one a family at most."""

    name: str
    mac: str
    addresses: tuple[str, ...] = ()
    gateways: tuple[str, ...] = ()

    @property
    def is_dhcp(self) -> bool:
        return not self.addresses


@dataclass(frozen=True, kw_only=True)
class Wireless:
    """By DHCP. Installers find it by its name: they have no match for Wi-Fi."""

    name: str
    ssid: str
    secret: str


def choose_interfaces(
    network: Network, wifi_secret: str | None
) -> tuple[tuple[Wired, ...], tuple[Wireless, ...], list[str]]:
    """The networks to configure, and warnings of those left out."""
    warnings: list[str] = []
    wired, wireless = [], []
    lent = _of_bridges(network.interfaces, warnings)
    for one in network.interfaces:
        if one.kind == "wired":
            if found := _wired(one, lent.get(_mac(one))):
                wired.append(found)
        elif one.kind == "wifi" and one.wifi_ssid:
            if wifi_secret is None:
                warnings.append(f"{one.name}: Wi-Fi is left out; to have it: --with-wifi-secret")
            else:
                wireless.append(_wireless(one, one.wifi_ssid, wifi_secret))
    if wifi_secret is not None and not has_wifi(network):
        raise usage_error(
            message="the captured host is in no Wi-Fi", key="--with-wifi-secret",
            fix="leave the option out",
        )  # fmt: skip
    return tuple(wired), tuple(wireless), warnings


def has_wifi(network: Network) -> bool:
    return any(one.kind == "wifi" and one.wifi_ssid for one in network.interfaces)


def addresses(given: Iterable[str]) -> tuple[str, ...]:
    """Those that are addresses, but for a resolver on the host itself."""
    return tuple(one for one in given if _is_address(one) and not ip_address(one).is_loopback)


def domains(given: Iterable[str]) -> tuple[str, ...]:
    return tuple(one for one in given if _DOMAIN.fullmatch(one))


def _wired(one: Interface, bridge: Interface | None) -> Wired | None:
    mac = _mac(one)
    source = bridge or one
    static = _static(source)
    is_used = source.is_dhcp or static or one.state == "up"
    if not mac or not _NAME.fullmatch(one.name) or not is_used:
        return None
    if source.is_dhcp or not static:
        return Wired(name=one.name, mac=mac)
    return Wired(name=one.name, mac=mac, addresses=static, gateways=_gateways(source.gateways))


def _wireless(one: Interface, ssid: str, secret: str) -> Wireless:
    if not _PASSPHRASE.fullmatch(secret):
        raise usage_error(
            message=f"{one.name}: not a WPA passphrase",
            key="--with-wifi-secret",
            accepted="8 to 63 printable ASCII characters, or 64 hexadecimal digits",
        )
    is_bare = _BARE.fullmatch(ssid) and _BARE.fullmatch(secret)
    if not is_bare or not _SSID.fullmatch(ssid) or not _NAME.fullmatch(one.name):
        raise usage_error(
            message=f"{one.name}: rigops cannot write the name of its Wi-Fi, or the passphrase",
            key="--with-wifi-secret",
            accepted="printable ASCII characters, no space first or last, no backslash last",
            fix="leave the option out, and configure Wi-Fi by hand",
        )
    return Wireless(name=one.name, ssid=ssid, secret=secret)


def _of_bridges(interfaces: Iterable[Interface], warnings: list[str]) -> dict[str, Interface]:
    """Bridges and bonds whose address goes to the card with the same MAC, by that MAC."""
    given = list(interfaces)
    cards = {_mac(one): one.name for one in given if one.kind == "wired"}
    found: dict[str, Interface] = {}
    for one in given:
        mac = (one.mac or "").lower()
        if one.kind not in {"bridge", "bond"} or not (one.gateways or one.is_dhcp):
            continue
        if mac in cards:
            found[mac] = one
            again = f"make the {one.kind} again afterwards"
            warnings.append(f"{one.name}: its address goes to {cards[mac]}; {again}")
        else:
            warnings.append(f"{one.name}: a {one.kind} is not configured by the installer")
    return found


def _mac(one: Interface) -> str:
    mac = (one.permanent_mac or one.mac or "").lower()
    return mac if _MAC.fullmatch(mac) and mac != "00:00:00:00:00:00" else ""


def _static(one: Interface) -> tuple[str, ...]:
    """Configured addresses. Those of IPv6 without a gateway come from the router."""
    versions = {4} | {ip_address(gateway).version for gateway in _gateways(one.gateways)}
    kept = []
    for text in one.addresses:
        try:
            address = ip_interface(text)
        except ValueError:
            continue
        is_given = not address.ip.is_link_local and address.version in versions
        if is_given and "/" in text and "%" not in text:
            kept.append(text)
    return tuple(kept)


def _gateways(given: Iterable[str]) -> tuple[str, ...]:
    found = [one for one in given if _is_address(one) and not ip_address(one).is_link_local]
    by_family = {ip_address(one).version: one for one in found}
    return tuple(by_family.values())


def _is_address(text: str) -> bool:
    try:
        return "%" not in text and bool(ip_address(text))
    except ValueError:
        return False
