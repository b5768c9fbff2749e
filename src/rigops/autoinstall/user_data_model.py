"""The strict model of an Ubuntu autoinstall file.

The installer's own schema accepts nearly everything: unknown keys, and any storage section.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, cast

from rigops.autoinstall.shape import Kinds, ListOf, Map, MapOf, OneOf, Program, Text, Whole

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
