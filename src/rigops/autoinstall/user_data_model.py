"""The strict model of an Ubuntu autoinstall file, out of shapes: texts, words, mappings, lists.

The installer's own schema accepts nearly everything: unknown keys, and any storage section. Each
shape says what is wrong at which place; an unknown key is named with the one that was meant.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, Protocol, cast

from rigops.dataclass import dataclass
from rigops.inventory.spec.names import did_you_mean


class Shape(Protocol):
    def faults(self, value: object, place: str) -> Iterator[str]: ...


@dataclass(frozen=True)
class Text:
    pattern: str = r"[ -~]{1,2000}"

    def faults(self, value: object, place: str) -> Iterator[str]:
        if not isinstance(value, str) or not re.fullmatch(self.pattern, value):
            yield f"{place}: {value!r} is not a text like {self.pattern}"


@dataclass(frozen=True)
class Program:
    """Of a shell, in several lines."""

    def faults(self, value: object, place: str) -> Iterator[str]:
        if not isinstance(value, str) or not value.strip() or not value.isprintable():
            if isinstance(value, str) and value.replace("\n", "").isprintable() and value.strip():
                return
            yield f"{place}: no commands"


@dataclass(frozen=True)
class OneOf:
    """True is not 1: types are compared too."""

    values: tuple[object, ...]

    def faults(self, value: object, place: str) -> Iterator[str]:
        if not any(type(value) is type(one) and value == one for one in self.values):
            accepted = " or ".join(map(repr, self.values))
            yield f"{place}: {value!r} is not {accepted}"


@dataclass(frozen=True)
class Whole:
    least: int
    most: int

    def faults(self, value: object, place: str) -> Iterator[str]:
        if type(value) is not int or not self.least <= value <= self.most:
            yield f"{place}: {value!r} is no whole number from {self.least} to {self.most}"


@dataclass(frozen=True)
class ListOf:
    item: Shape
    least: int = 1

    def faults(self, value: object, place: str) -> Iterator[str]:
        if not isinstance(value, list) or len(value) < self.least:
            yield f"{place}: no list of at least {self.least}"
            return
        for number, one in enumerate(value):
            yield from self.item.faults(one, f"{place}[{number}]")


@dataclass(frozen=True)
class Map:
    """Keys by name, required unless they are named in `optional`."""

    keys: Mapping[str, Shape]
    optional: Sequence[str] = ()

    def faults(self, value: object, place: str) -> Iterator[str]:
        if not isinstance(value, dict):
            yield f"{place}: no mapping"
            return
        for key in value.keys() - self.keys.keys():
            hint = did_you_mean(key, self.keys)
            yield f"{place}.{key}: unknown key" + (f"; {hint}" if hint else "")
        for key, shape in self.keys.items():
            if key in value:
                yield from shape.faults(value[key], f"{place}.{key}")
            elif key not in self.optional:
                yield f"{place}.{key}: missing"


@dataclass(frozen=True)
class MapOf:
    """Keys of a pattern, values of one shape."""

    key: str
    value: Shape

    def faults(self, value: object, place: str) -> Iterator[str]:
        if not isinstance(value, dict) or not value:
            yield f"{place}: no mapping with an entry"
            return
        for key, one in value.items():
            if not re.fullmatch(self.key, key):
                yield f"{place}: key {key!r} is not like {self.key}"
            yield from self.value.faults(one, f"{place}.{key}")


@dataclass(frozen=True)
class Kinds:
    """Mappings whose `by` says which of these shapes they have."""

    by: str
    shapes: Mapping[str, Map]

    def faults(self, value: object, place: str) -> Iterator[str]:
        kind = value.get(self.by) if isinstance(value, dict) else None
        if not isinstance(kind, str) or kind not in self.shapes:
            yield f"{place}.{self.by}: {kind!r} is not {' or '.join(map(repr, self.shapes))}"
            return
        yield from self.shapes[kind].faults(value, place)


_TRUE, _FALSE = OneOf((True,)), OneOf((False,))
_EITHER: Final = OneOf((True, False))
_NAME: Final = Text(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,31}")
_MAC: Final = Text(r"[0-9a-f]{2}(:[0-9a-f]{2}){5}")
_ADDRESS: Final = Text(r"[0-9a-fA-F:.]{2,45}")
_SIZE: Final = Text(r"[1-9][0-9]{0,4}[MG]")
_GLOB: Final = Text(r"[A-Za-z0-9._:+/#=@,*\[\]-]{6,240}")  # and of such no match of everything
_WIPE: Final = OneOf(("superblock",))

_ETHERNET = Map(
    {
        "match": Map({"macaddress": _MAC}),
        "set-name": _NAME,
        "dhcp4": _EITHER,
        "addresses": ListOf(Text(r"[0-9a-fA-F:.]{2,45}/[0-9]{1,3}")),
        "routes": ListOf(Map({"to": OneOf(("default",)), "via": _ADDRESS})),
        "nameservers": Map(
            {"addresses": ListOf(_ADDRESS), "search": ListOf(Text(r"[A-Za-z0-9.-]{1,253}"), 0)}
        ),
    },
    optional=("addresses", "routes", "nameservers"),
)
_WIFI = Map(
    {
        "dhcp4": _TRUE,
        "access-points": MapOf(r"[ -~]{1,32}", Map({"password": Text(r"[ -~]{8,64}")})),
    }
)
_ACTIONS: Final = {
    "disk": Map(
        {
            "type": OneOf(("disk",)),
            "id": _NAME,
            "match": ListOf(Map({"serial": _GLOB})),
            "ptable": OneOf(("gpt",)),
            "wipe": OneOf(("superblock-recursive",)),
            "preserve": _FALSE,
            "grub_device": _EITHER,
        }
    ),
    "partition": Map(
        {
            "type": OneOf(("partition",)),
            "id": _NAME,
            "device": _NAME,
            "size": _SIZE,
            "flag": OneOf(("boot", "bios_grub")),
            "wipe": _WIPE,
            "grub_device": _TRUE,
        },
        optional=("flag", "grub_device"),
    ),
    "rest": Map(
        {
            "type": OneOf(("partition",)),
            "id": _NAME,
            "device": _NAME,
            "size": OneOf((-1,)),
            "wipe": _WIPE,
        }
    ),
    "format": Map(
        {
            "type": OneOf(("format",)),
            "id": _NAME,
            "volume": _NAME,
            "fstype": OneOf(("btrfs", "ext4", "fat32")),
        }
    ),
    "mount": Map(
        {
            "type": OneOf(("mount",)),
            "id": _NAME,
            "device": _NAME,
            "path": OneOf(("/", "/boot", "/boot/efi")),
        }
    ),
}
_USER = Map(
    {
        "name": Text(r"[a-z_][a-z0-9_-]{0,31}"),
        "uid": Whole(1, 60000),
        "groups": ListOf(OneOf(("adm", "sudo", "video", "render"))),
        "shell": OneOf(("/bin/bash",)),
        "sudo": OneOf(("ALL=(ALL) NOPASSWD:ALL",)),
        "lock_passwd": _TRUE,
        "ssh_authorized_keys": ListOf(Text(r"(sk-)?(ssh|ecdsa)-[ -~]{20,2000}")),
    },
    optional=("uid", "groups", "shell", "sudo"),
)


class _Actions:
    """A partition that takes the rest of the disk is a kind of its own."""

    def faults(self, value: object, place: str) -> Iterator[str]:
        kinds = Kinds("type", _ACTIONS)
        is_rest = isinstance(value, dict) and value.get("size") == -1
        yield from (_ACTIONS["rest"] if is_rest else kinds).faults(value, place)


_FILE = Map(
    {
        "autoinstall": Map(
            {
                "version": OneOf((1,)),
                "locale": Text(r"[A-Za-z_.0-9-]{1,30}"),
                "timezone": Text(r"[A-Za-z0-9_+/-]{1,60}"),
                "keyboard": Map({"layout": Text(r"[a-z]{2,10}"), "variant": Text(r"[\w-]{0,40}")}),
                "source": Map({"search_drivers": _FALSE}),
                "drivers": Map({"install": _FALSE}),
                "oem": Map({"install": _FALSE}),
                "codecs": Map({"install": _FALSE}),
                "kernel": Map({"flavor": OneOf(("generic", "hwe"))}),
                "updates": OneOf(("security",)),
                "shutdown": OneOf(("reboot",)),
                "ssh": Map({"install-server": _TRUE, "allow-pw": _FALSE}),
                "network": Map(
                    {
                        "version": OneOf((2,)),
                        "ethernets": MapOf(_NAME.pattern, _ETHERNET),
                        "wifis": MapOf(_NAME.pattern, _WIFI),
                    },
                    optional=("ethernets", "wifis"),
                ),
                "storage": Map({"swap": Map({"size": OneOf((0,))}), "config": ListOf(_Actions())}),
                "user-data": Map(
                    {
                        "hostname": Text(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?"),
                        "preserve_hostname": _FALSE,
                        "ssh_pwauth": _FALSE,
                        "disable_root": _EITHER,
                        "users": ListOf(_USER),
                    }
                ),
                "late-commands": ListOf(Program()),
            }
        )
    }
)


def faults(document: Mapping[str, object]) -> list[str]:
    """All that is wrong with what an installer is to get."""
    found = list(_FILE.faults(document, "user-data"))
    return found or list(_storage_faults(storage(document)))


def storage(document: Mapping[str, object]) -> list[dict[str, object]]:
    """Its actions, in order."""
    autoinstall = cast("dict[str, dict[str, list[dict[str, object]]]]", document["autoinstall"])
    return autoinstall["storage"]["config"]


def _storage_faults(actions: list[dict[str, object]]) -> Iterator[str]:
    """Each action names one before it, and there is one disk with one root."""
    known: dict[object, str] = {}
    refers = {"partition": ("device", "disk"), "format": ("volume", "partition"),
              "mount": ("device", "format")}  # fmt: skip
    for number, action in enumerate(actions):
        kind, place = str(action["type"]), f"storage.config[{number}]"
        if action["id"] in known:
            yield f"{place}.id: {action['id']!r} for the second time"
        known[action["id"]] = kind
        if kind in refers:
            key, other = refers[kind]
            if known.get(action[key]) != other:
                yield f"{place}.{key}: {action[key]!r} is no {other} above it"
        later = [other["type"] for other in actions[number + 1 :]]
        if kind == "partition" and action["size"] == -1 and kind in later:
            yield f"{place}.size: takes the rest, and is not the last"
    kinds = list(known.values())
    if kinds.count("disk") != 1:
        yield f"storage.config: {kinds.count('disk')} disks, and only the captured one may be named"
    paths = [action["path"] for action in actions if action["type"] == "mount"]
    if paths.count("/") != 1 or len(set(paths)) != len(paths):
        yield f"storage.config: mounts of {paths}"
    if sum(action.get("grub_device") is True for action in actions) != 1:
        yield "storage.config: not one grub_device"
