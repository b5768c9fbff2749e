"""Network interfaces by name and place, and the configuration that depends on their names.

A card in another slot renumbers the bus, and with it the names that systemd makes of it: a host
whose configuration names enp5s0 may then be gone from the network.
"""

from __future__ import annotations

import re

from rigops.dataclass import dataclass
from rigops.probe.section import Section
from rigops.probe.text import GrepHit, blocks, grep_hits, lines, matches, preamble

INTERFACES = "ls /sys/class/net"
MATCHES = "grep -Hn names of interfaces"
BRIEF = "ip -br link"

_INTERFACE = re.compile(
    r"(?P<name>\S{1,40}) address=(?P<address>\S+) driver=(?P<driver>\S+) mac=(?P<mac>\S+)"
    r" state=(?P<state>\S+) kind=(?P<kind>wifi|bridge|bond|virtual|wired)\s*"
)
# systemd's names of the bus and the slot; eno1 is the firmware's own number, enx… the address.
NAME_OF_SLOT = re.compile(
    r"(?:en|wl|ww)(?:P[0-9]{1,5})?p[0-9]{1,3}s[0-9]{1,3}[a-z0-9]{0,16}", re.IGNORECASE
)


@dataclass(frozen=True, kw_only=True)
class Interface:
    name: str
    address: str | None = None  # on the PCI bus, or None: USB, virtual
    driver: str | None = None
    mac: str | None = None
    state: str | None = None  # up, down, unknown
    kind: str | None = None  # wired, wifi, bridge, bond, virtual
    line: str = ""


@dataclass(frozen=True)
class Network:
    """`matches`: lines of the configuration that name, or choose, an interface."""

    interfaces: tuple[Interface, ...] = ()
    matches: tuple[GrepHit, ...] = ()
    unparsed: tuple[str, ...] = ()


def parse(text: str) -> Network:
    interfaces: tuple[Interface, ...] = ()
    matches: list[GrepHit] = []
    unparsed = list(preamble(text))
    for head, body in blocks(text).items():
        left: list[str] = []
        if head == INTERFACES:
            interfaces, left = _interfaces(body)
        elif head.startswith("grep -Hn"):
            named, left = grep_hits(body)
            matches += [place for place in named if not place.is_comment]
        else:
            left = [head]
        unparsed += left
    return Network(interfaces, tuple(matches), tuple(unparsed))


def _interfaces(body: str) -> tuple[tuple[Interface, ...], list[str]]:
    found, unparsed = matches(_INTERFACE, lines(body))
    fields = (
        {name: None if value == "-" else value for name, value in one.groupdict().items()}
        for one in found
    )
    return tuple(
        Interface(
            name=one["name"],
            address=output["address"],
            driver=output["driver"],
            mac=output["mac"],
            state=one["state"],
            kind=one["kind"],
            line=one.string,
        )
        for one, output in zip(found, fields, strict=True)
    ), unparsed


# Of files that may hold passwords only lines that name or choose an interface are taken.
_SNIPPET = rf"""
get() {{ value=-; [ -r "$1" ] && read -r value <"$1"; [ -n "$value" ] || value=-; }} 2>/dev/null
go() {{
    cd -P "$1" 2>/dev/null || return
    here=$PWD; [ "$here" != "$1" ] || here=$(pwd -P)  # mksh
}}
block '{INTERFACES}'
count=0
for net in /sys/class/net/*; do
    [ -e "$net/ifindex" ] || continue
    count=$((count + 1)); [ "$count" -le 300 ] || break
    place=- driver=-
    if [ -e "$net/device" ]; then
        go "$net/device" && place=${{here##*/}}
        case "$place" in *:*:*.*) ;; *) place=- ;; esac
        go "$net/device/driver" && driver=${{here##*/}}
    fi
    if [ -e "$net/wireless" ] || [ -e "$net/phy80211" ]; then kind=wifi
    elif [ -e "$net/bridge" ]; then kind=bridge
    elif [ -e "$net/bonding" ]; then kind=bond
    elif [ -e "$net/device" ]; then kind=wired
    else kind=virtual
    fi
    get "$net/address"; mac=$value
    get "$net/operstate"
    echo "${{net##*/}} address=$place driver=$driver mac=$mac state=$value kind=$kind"
done

of() {{
    shape=$1; shift
    for file; do
        [ -f "$file" ] || continue
        [ -r "$file" ] || {{ echo "$file cannot be read"; continue; }}
        grep -HnE "$shape" "$file" | head -n 60
    done
}}
block '{MATCHES}'
blank='[[:space:]]'
words='auto|allow-[a-z]+|iface|rename|source|source-directory'
words="$words|bridge[-_]ports|bond[-_]slaves|vlan[-_]raw[-_]device"
of "^$blank*($words)$blank" /etc/network/interfaces /etc/network/interfaces.d/*
words='renderer|match|macaddress|name|set-name|driver|interfaces|link'
of "^ *(- )?($words):|^$blank*[A-Za-z][A-Za-z0-9_.*-]*:$blank*\$" /etc/netplan/*.yaml
words='MACAddress|PermanentMACAddress|OriginalName|Path|Driver|Name|NamePolicy|Type'
of "^$blank*($words|Bridge|Bond|VLAN)$blank*=" /etc/systemd/network/*.link \
    /etc/systemd/network/*.network /etc/systemd/network/*.netdev /etc/systemd/network/*.d/*.conf
of '^(interface-name|mac-address|master|controller)=' \
    /etc/NetworkManager/system-connections/*.nmconnection
of 'NAME[:+]?=' /etc/udev/rules.d/*net*.rules
return 0
"""

_TECHNICAL = (
    f"{INTERFACES} {MATCHES} {BRIEF} address driver state kind wifi bridge bond "
    "virtual wired unknown"
)

SECTION = Section(
    name="network",
    snippet=_SNIPPET,
    parse=parse,
    wants_root=True,
    lane="machine",
    technical=_TECHNICAL,
)
