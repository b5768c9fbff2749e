"""Facts for a reinstall: disks by their own names, users, networks, packages, keys.

Only capture and what comes after it ask for this. Values come without `=` before them: what follows
one and is long and mixed looks like a secret to the script, as ID_SERIAL of many disks does.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import field
from itertools import pairwise
from typing import Final

from rigops.dataclass import dataclass
from rigops.probe.homes import AS_USER
from rigops.probe.section import EVERY_WORD, Section
from rigops.probe.text import blocks, lines, matches, stripped

DEVICES: Final = "lsblk"
LOOPS: Final = "backing files"
UDEV: Final = "/run/udev/data"
NODES: Final = "stat -L of mounted devices"
USERS: Final = "/etc/passwd of people"
GROUPS: Final = "/etc/group"
AUTHORIZED: Final = "authorized_keys of"
HOST_KEYS: Final = "/etc/ssh/*.pub"
MANUAL: Final = "apt-mark showmanual"
LINKS: Final = "ip -o link"
ADDRESSES: Final = "ip -o address"
ROUTES: Final = "ip route show default"
WIFI: Final = "iw dev"
RESOLVER: Final = "resolv.conf"
SLOTS: Final = "dmidecode -t slot"
BORG: Final = "borg --version"
SYSTEM: Final = "the system"

_COLUMNS: Final = (
    "KNAME", "PKNAME", "MAJ:MIN", "TYPE", "SIZE", "ROTA", "RM", "TRAN", "FSTYPE", "LABEL", "UUID",
    "PARTUUID", "SERIAL", "WWN", "MODEL",
)  # fmt: skip
_UDEV_KEYS: Final = (
    "ID_SERIAL", "ID_SERIAL_SHORT", "ID_WWN", "ID_WWN_WITH_EXTENSION", "ID_PATH", "ID_FS_UUID",
    "ID_FS_TYPE", "ID_FS_LABEL", "ID_PART_ENTRY_UUID",
)  # fmt: skip

_BACKING: Final = "BACKING"  # no column of lsblk
_PAIR = re.compile(r'([A-Z][A-Z:_]{1,12})="([^"]*)"')
_ESCAPED = re.compile(r"\\x([0-9a-f]{2})")
_UDEV_LINE = re.compile(r"(?P<number>[0-9]{1,6}:[0-9]{1,7}) (?P<key>[A-Z_]+) (?P<value>.*)")
_NODE = re.compile(r"(?P<major>[0-9a-f]{1,5}):(?P<minor>[0-9a-f]{1,6}) (?P<path>/.*)")
_PERSON = re.compile(
    r"(?P<name>[^:]{1,80}):[^:]{0,80}:(?P<uid>[0-9]{1,10}):(?P<gid>[0-9]{1,10}):[^:]{0,300}:"
    r"(?P<home>[^:]{0,300}):(?P<shell>.{0,300})"
)
_GROUP = re.compile(
    r"(?P<name>[^:]{1,80}):[^:]{0,80}:(?P<gid>[0-9]{1,10}):(?P<members>[^:]{0,4000})"
)
_KEY = re.compile(r"(?:ssh|ecdsa|sk)-[A-Za-z0-9@.-]+ [A-Za-z0-9+/]+=*(?: .*)?")
_LINK = re.compile(r"[0-9]{1,6}: (?P<name>[^:@\s]{1,40})[@:].*")
_MAC = re.compile(r"link/[a-z0-9]{1,20} (?P<mac>[0-9a-f:]{17})")
_ABOVE = re.compile(r" master (?P<name>\S{1,40})")
_PERMANENT = re.compile(r"permaddr (?P<mac>[0-9a-f:]{17})")
_ADDRESS = re.compile(r"[0-9a-f.:]{2,45}/[0-9]{1,3}")
_ROUTE = re.compile(r"default via (?P<gateway>[0-9a-f.:]{2,45}) dev (?P<name>\S{1,40})(?P<rest>.*)")
_SSID = re.compile(r"(?P<name>\S{1,40}) ssid (?P<ssid>.{1,80})")
_BORG = re.compile(r"borg ([0-9][0-9A-Za-z.]{0,20})")
_LEAST_WORDS: Final = 5
_SLOT = re.compile(r"(?P<address>[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7])")


@dataclass(frozen=True, kw_only=True)
class Device:
    """A block device of the kernel. `parents`: names; several of an array, none of a disk.

    `number`: MAJOR:MINOR. `backing`: the file of a loop device, where the host has it.
    """

    name: str
    number: str
    parents: tuple[str, ...]
    type: str  # disk, part, crypt, lvm, raid1, loop
    bytes: int | None
    is_rotational: bool | None
    is_removable: bool | None
    transport: str | None
    file_system: str | None
    label: str | None
    uuid: str | None
    part_uuid: str | None
    serial: str | None
    wwn: str | None
    model: str | None
    line: str
    backing: str | None = None
    udev: Mapping[str, str] = field(default_factory=dict)  # what of _UDEV_KEYS it has


@dataclass(frozen=True, kw_only=True)
class Person:
    name: str
    uid: int
    gid: int
    home: str
    shell: str
    groups: tuple[str, ...] = ()
    authorized_keys: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Connection:
    """A network interface as it is used. `is_dhcp` None: that was not said."""

    name: str
    mac: str | None = None
    permanent_mac: str | None = None
    addresses: tuple[str, ...] = ()
    gateways: tuple[str, ...] = ()
    is_dhcp: bool | None = None
    ssid: str | None = None
    above: str | None = None  # the bridge or bond that it is a part of


@dataclass(frozen=True, kw_only=True)
class Identity:
    """None: not reported.

    `nodes`: MAJOR:MINOR of each mounted device, by its path. `slots`: the board's word for a slot,
    by the address of what is in it. `system`: by hostname, machine-id, firmware, timezone, locale,
    keyboard.
    """

    devices: tuple[Device, ...] | None = None
    nodes: Mapping[str, str] = field(default_factory=dict)
    people: tuple[Person, ...] | None = None
    host_keys: tuple[str, ...] = ()
    own_keys: Mapping[str, str] = field(default_factory=dict)  # public ones, by path
    manual: tuple[str, ...] | None = None
    connections: tuple[Connection, ...] | None = None
    nameservers: tuple[str, ...] = ()
    search: tuple[str, ...] = ()
    slots: Mapping[str, str] = field(default_factory=dict)
    borg: str | None = None
    system: Mapping[str, str] = field(default_factory=dict)


def parse(text: str) -> Identity:
    found = blocks(text)
    nodes = matches(_NODE, lines(found.get(NODES, "")))[0]
    words = [line.split() for line in stripped(found.get(RESOLVER, ""))]
    borg = _BORG.match(found.get(BORG, "").strip())
    return Identity(
        devices=_devices(found) if DEVICES in found else None,
        nodes={one["path"]: f"{int(one['major'], 16)}:{int(one['minor'], 16)}" for one in nodes},
        people=_people(found) if USERS in found else None,
        host_keys=_public_keys(found.get(HOST_KEYS, "")),
        own_keys={
            head: key
            for head, body in found.items()
            if head.startswith("/etc/rigops/") and (key := "".join(_public_keys(body)[:1]))
        },
        manual=tuple(stripped(found[MANUAL])) if found.get(MANUAL, "").strip() else None,
        connections=_connections(found) if LINKS in found else None,
        nameservers=tuple(
            dict.fromkeys(one[1] for one in words if len(one) > 1 and one[0] == "nameserver")
        ),
        search=tuple(
            name for one in words if one[0] == "search" for name in one[1:] if name != "."
        ),
        slots=_slots(found.get(SLOTS, "")),
        borg=borg[1] if borg else None,
        system={
            name: value.strip()
            for name, _, value in (one.partition(" ") for one in stripped(found.get(SYSTEM, "")))
            if value.strip()
        },
    )


def _devices(found: Mapping[str, str]) -> tuple[Device, ...]:
    udev: dict[str, dict[str, str]] = {}
    for one in matches(_UDEV_LINE, lines(found.get(UDEV, "")))[0]:
        udev.setdefault(one["number"], {})[one["key"]] = one["value"]
    backing = dict(one.split(" ", 1) for one in stripped(found.get(LOOPS, "")) if " " in one)
    rows: dict[str, dict[str, str]] = {}
    parents: dict[str, list[str]] = {}
    raw: dict[str, str] = {}
    for line in lines(found[DEVICES]):
        pairs = {key: _plain(value) for key, value in _PAIR.findall(line)}
        name = pairs.get("KNAME", "")
        if not name:
            continue
        rows.setdefault(name, pairs)
        raw.setdefault(name, line)
        above = parents.setdefault(name, [])
        if (parent := pairs.get("PKNAME")) and parent not in above:
            above.append(parent)
    return tuple(
        _device(
            name,
            {**pairs, _BACKING: backing.get(name, "")},
            tuple(parents[name]),
            raw[name],
            udev.get(pairs.get("MAJ:MIN", ""), {}),
        )
        for name, pairs in rows.items()
    )


def _device(
    name: str,
    pairs: Mapping[str, str],
    parents: tuple[str, ...],
    line: str,
    udev: Mapping[str, str],
) -> Device:
    size = pairs.get("SIZE", "")
    return Device(
        name=name,
        number=pairs.get("MAJ:MIN", "").strip(),
        parents=parents,
        type=pairs.get("TYPE", ""),
        bytes=int(size) if re.fullmatch(r"[0-9]{1,20}", size) else None,
        is_rotational=_is(pairs, "ROTA"),
        is_removable=_is(pairs, "RM"),
        transport=_value(pairs, "TRAN"),
        file_system=_value(pairs, "FSTYPE") or udev.get("ID_FS_TYPE"),
        label=_value(pairs, "LABEL") or udev.get("ID_FS_LABEL"),
        uuid=_value(pairs, "UUID") or udev.get("ID_FS_UUID"),
        part_uuid=_value(pairs, "PARTUUID") or udev.get("ID_PART_ENTRY_UUID"),
        serial=_value(pairs, "SERIAL"),
        wwn=_value(pairs, "WWN"),
        model=_value(pairs, "MODEL"),
        line=line,
        backing=pairs[_BACKING] or None,
        udev=udev,
    )


def _plain(value: str) -> str:
    return _ESCAPED.sub(lambda one: chr(int(one[1], 16)), value)


def _value(pairs: Mapping[str, str], name: str) -> str | None:
    value = pairs.get(name, "").strip()
    return None if value in {"", "***"} else value


def _is(pairs: Mapping[str, str], name: str) -> bool | None:
    return {"0": False, "1": True}.get(pairs.get(name, ""))


def _people(found: Mapping[str, str]) -> tuple[Person, ...]:
    groups = matches(_GROUP, lines(found.get(GROUPS, "")))[0]
    return tuple(
        Person(
            name=one["name"],
            uid=int(one["uid"]),
            gid=int(one["gid"]),
            home=one["home"],
            shell=one["shell"].strip(),
            groups=tuple(
                group["name"] for group in groups if one["name"] in group["members"].split(",")
            ),
            authorized_keys=tuple(
                line
                for line in stripped(found.get(f"{AUTHORIZED} {one['name']}", ""))
                if not line.startswith("#")
            ),
        )
        for one in matches(_PERSON, lines(found[USERS]))[0]
    )


def _public_keys(body: str) -> tuple[str, ...]:
    return tuple(one[0] for one in matches(_KEY, stripped(body))[0])


def _connections(found: Mapping[str, str]) -> tuple[Connection, ...]:
    addresses = [one.split() for one in lines(found.get(ADDRESSES, ""))]
    routes = matches(_ROUTE, stripped(found.get(ROUTES, "")))[0]
    names = {one["name"]: one["ssid"] for one in matches(_SSID, stripped(found.get(WIFI, "")))[0]}
    found_here: list[Connection] = []
    for line in lines(found[LINKS]):
        shape = _LINK.fullmatch(line)
        if shape is None or shape["name"] == "lo":
            continue
        name = shape["name"]
        mac, permanent = _MAC.search(line), _PERMANENT.search(line)
        above = _ABOVE.search(line)
        own = [words for words in addresses if _is_global(words, name)]
        ways = [one for one in routes if one["name"] == name]
        is_dhcp = any("dynamic" in words for words in own) or any(
            "proto dhcp" in one["rest"] for one in ways
        )
        found_here.append(
            Connection(
                name=name,
                mac=mac["mac"] if mac else None,
                permanent_mac=permanent["mac"] if permanent else mac["mac"] if mac else None,
                addresses=tuple(words[3] for words in own),
                gateways=tuple(dict.fromkeys(one["gateway"] for one in ways)),
                is_dhcp=is_dhcp if own else None,
                ssid=names.get(name),
                above=above["name"] if above else None,
            )
        )
    return tuple(found_here)


def _is_global(words: list[str], name: str) -> bool:
    """Of the words of `ip -o address`: NUMBER: NAME inet ADDRESS … scope global."""
    if words[1:2] != [name] or words[2:3] not in (["inet"], ["inet6"]):
        return False
    has_scope = ("scope", "global") in pairwise(words)
    return has_scope and len(words) > _LEAST_WORDS and _ADDRESS.fullmatch(words[3]) is not None


def _slots(body: str) -> dict[str, str]:
    """Of a record of dmidecode its Designation, by its Bus Address."""
    found: dict[str, str] = {}
    named = ""
    for line in stripped(body):
        name, _, value = line.partition(":")
        if name == "Designation":
            named = value.strip()
        elif name == "Bus Address" and named and _SLOT.fullmatch(value.strip().lower()):
            found[value.strip().lower()] = named
    return found


_SNIPPET = rf"""{AS_USER}
if command -v lsblk >/dev/null; then
    block '{DEVICES}'
    lsblk -Pb -o {",".join(_COLUMNS)} 2>/dev/null ||
        lsblk -Pb -o {",".join(one for one in _COLUMNS if one != "PARTUUID")} 2>/dev/null
fi
block '{LOOPS}'
for folder in /sys/block/loop*/loop; do
    [ -r "$folder/backing_file" ] || continue
    read -r file <"$folder/backing_file"
    name=${{folder#/sys/block/}}
    [ ! -e "$file" ] || echo "${{name%/loop}} $file"
done
block '{UDEV}'
for file in {UDEV}/b*; do [ ! -r "$file" ] || echo "$file"; done | head -n 500 |
    while IFS= read -r file; do
        sed -nE "s#^E:({"|".join(_UDEV_KEYS)})=(.*)#${{file#*/data/b}} \1 \2#p" "$file"
    done
block '{NODES}'
while read -r source _; do
    case "$source" in
        *\\*) ;;
        /dev/*) [ ! -e "$source" ] || stat -L -c '%t:%T %n' "$source" ;;
    esac
done </proc/self/mounts | sort -u | head -n 500
block '{USERS}'
awk -F : '$3 == 0 || ($3 >= 1000 && $3 < 60000)' /etc/passwd | sed 's/^\([^:]*\):[^:]*:/\1:x:/' |
    head -n 200
block '{GROUPS}'
sed 's/^\([^:]*\):[^:]*:/\1:x:/' /etc/group | head -n 500
awk -F : '$3 == 0 || ($3 >= 1000 && $3 < 60000)' /etc/passwd | head -n 50 |
    while IFS=: read -r name _ uid gid _ home _; do
        case "$gid$name" in *[!A-Za-z0-9._-]*|-*) continue ;; esac
        case "$home" in /|/nonexistent*|*[[:space:]]*|*[*?[]*|[!/]*) continue ;; esac
        [ -d "$home" ] || continue
        block "{AUTHORIZED} $name"
        # shellcheck disable=SC2016  # for that shell to expand
        as_user "$uid" "$gid" "$name" sh -c '
            file=$1/.ssh/authorized_keys
            [ ! -f "$file" ] || [ -L "$file" ] || [ ! -r "$file" ] || head -n 100 "$file"
        ' of "$home"
        echo
    done
block '{HOST_KEYS}'
for file in /etc/ssh/ssh_host_*_key.pub; do [ ! -f "$file" ] || cat "$file"; done
show /etc/rigops/*.pub
if command -v apt-mark >/dev/null; then block '{MANUAL}'; apt-mark showmanual 2>/dev/null; fi
if command -v ip >/dev/null; then
    block '{LINKS}'
    ip -o link 2>/dev/null | head -n 300
    block '{ADDRESSES}'
    ip -o address 2>/dev/null | head -n 300
    block '{ROUTES}'
    ip -4 route show default 2>/dev/null | head -n 50
    ip -6 route show default 2>/dev/null | head -n 50
fi
if command -v iw >/dev/null; then
    block '{WIFI}'
    iw dev 2>/dev/null | awk '$1 == "Interface" {{ name = $2 }}
        $1 == "ssid" {{ sub(/^[[:space:]]*ssid /, ""); print name " ssid " $0 }}'
fi
block '{RESOLVER}'
for file in /run/systemd/resolve/resolv.conf /etc/resolv.conf; do
    [ ! -r "$file" ] || {{ grep -E '^(nameserver|search) ' "$file" | head -n 20; break; }}
done
if is_root && command -v dmidecode >/dev/null; then
    block '{SLOTS}'
    dmidecode -t slot 2>/dev/null | grep -E '^[[:space:]]*(Designation|Bus Address):' | head -n 100
fi
if command -v borg >/dev/null; then block '{BORG}'; borg --version 2>/dev/null | head -n 1; fi
block '{SYSTEM}'
copied() {{ # NAME FILE
    [ ! -r "$2" ] || {{ read -r value <"$2"; [ -z "$value" ] || echo "$1 $value"; }}
}} 2>/dev/null
set_in() {{ # NAME VARIABLE FILE…
    name=$1 variable=$2; shift 2
    for file; do
        [ -r "$file" ] || continue
        value=$(sed -nE "s/^$variable=[\"']?([^\"']*)[\"']?.*/\1/p" "$file" | tail -n 1)
        [ -z "$value" ] || {{ echo "$name $value"; return; }}
    done
}}
copied hostname /proc/sys/kernel/hostname
copied machine-id /etc/machine-id
if [ -d /sys/firmware/efi ]; then echo 'firmware uefi'; else echo 'firmware bios'; fi
zone=$(readlink /etc/localtime 2>/dev/null)
case "$zone" in
    */zoneinfo/*) echo "timezone ${{zone##*/zoneinfo/}}" ;;
    *) copied timezone /etc/timezone ;;
esac
set_in locale LANG /etc/locale.conf /etc/default/locale
set_in keyboard XKBLAYOUT /etc/default/keyboard
set_in keyboard-variant XKBVARIANT /etc/default/keyboard
return 0
"""

SECTION = Section(
    name="identity",
    snippet=_SNIPPET,
    parse=parse,
    wants_root=True,
    timeout_s=18,
    technical=EVERY_WORD,
)
