"""The content of an Ubuntu autoinstall file, as data, and its text as YAML."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from textwrap import indent
from typing import Final

from rigops.autoinstall.installation import Account, Installation
from rigops.autoinstall.networks import Wired

_INDENT: Final = "  "
_WIDTH: Final = 60
# A key like "no" or "1e3" is another value without quotes.
_PLAIN_KEY = re.compile(r"(?!(no|off|on|true|false|yes|y|n|null)$)[a-z]+[0-9]?([_-][a-z]+)*")


def document(installation: Installation, late_commands: Sequence[str]) -> dict[str, object]:
    return {
        "autoinstall": {
            "version": 1,
            "locale": installation.locale,
            "timezone": installation.timezone,
            "keyboard": {
                "layout": installation.keyboard,
                "variant": installation.keyboard_variant,
            },
            "source": {"search_drivers": False},
            "drivers": {"install": False},
            "oem": {"install": False},
            "codecs": {"install": False},
            "kernel": {"flavor": installation.kernel.flavor},
            "updates": "security",
            "shutdown": "reboot",
            "ssh": {"install-server": True, "allow-pw": False},
            "network": _network(installation),
            "storage": {"swap": {"size": 0}, "config": list(_storage(installation))},
            "user-data": {
                "hostname": installation.hostname,
                "preserve_hostname": False,
                "ssh_pwauth": False,
                "disable_root": installation.account.name != "root",
                "users": [_user(installation.account)],
            },
            "late-commands": list(late_commands),
        }
    }


def _network(installation: Installation) -> dict[str, object]:
    network: dict[str, object] = {"version": 2}
    if installation.wired:
        network["ethernets"] = {card.name: _card(card, installation) for card in installation.wired}
    if installation.wireless:
        network["wifis"] = {
            card.name: {"dhcp4": True, "access-points": {card.ssid: {"password": card.secret}}}
            for card in installation.wireless
        }
    return network


def _card(card: Wired, installation: Installation) -> dict[str, object]:
    entry: dict[str, object] = {
        "match": {"macaddress": card.mac},
        "set-name": card.name,
        "dhcp4": card.is_dhcp,
    }
    if card.addresses:
        entry["addresses"] = list(card.addresses)
        if card.gateways:
            entry["routes"] = [{"to": "default", "via": gateway} for gateway in card.gateways]
        if installation.nameservers:
            entry["nameservers"] = {
                "addresses": list(installation.nameservers),
                "search": list(installation.search),
            }
    return entry


def _storage(installation: Installation) -> Iterator[dict[str, object]]:
    is_uefi = installation.firmware == "uefi"
    yield {
        "type": "disk",
        "id": "disk",
        "match": [{"serial": entry.glob} for entry in installation.target.entries],
        "ptable": "gpt",
        "wipe": "superblock-recursive",
        "preserve": False,
        "grub_device": not is_uefi,
    }
    if is_uefi:
        yield _partition("efi", "1G", flag="boot", wipe="superblock", grub_device=True)
        yield _format("efi", "fat32")
    else:
        yield _partition("grub", "1M", flag="bios_grub", wipe="superblock")
    if installation.has_boot_partition:
        yield _partition("boot", "1G", wipe="superblock")
        yield _format("boot", "ext4")
    yield _partition("root", -1, wipe="superblock")
    yield _format("root", installation.root)
    yield _mount("root", "/")
    if installation.has_boot_partition:
        yield _mount("boot", "/boot")
    if is_uefi:
        yield _mount("efi", "/boot/efi")


def _partition(name: str, size: str | int, **more: object) -> dict[str, object]:
    return {"type": "partition", "id": f"partition-{name}", "device": "disk", "size": size, **more}


def _format(name: str, kind: str) -> dict[str, object]:
    volume = f"partition-{name}"
    return {"type": "format", "id": f"format-{name}", "volume": volume, "fstype": kind}


def _mount(name: str, path: str) -> dict[str, object]:
    return {"type": "mount", "id": f"mount-{name}", "device": f"format-{name}", "path": path}


def _user(account: Account) -> dict[str, object]:
    user: dict[str, object] = {"name": account.name}
    if account.uid is not None:
        user["uid"] = account.uid
    if account.name != "root":
        user["groups"] = list(account.groups)
        user["shell"] = "/bin/bash"
        user["sudo"] = "ALL=(ALL) NOPASSWD:ALL"
    user["lock_passwd"] = True
    user["ssh_authorized_keys"] = list(account.keys)
    return user


def as_yaml(block: Mapping[str, object] | Sequence[object]) -> str:
    """Blocks whose scalars are JSON, which YAML reads the same way; texts of lines as they are."""
    if isinstance(block, Mapping):
        entries = [(f"{_key(key)}:", value) for key, value in block.items()]
    else:
        entries = [("-", value) for value in block]
    return "".join(_entry(head, value) for head, value in entries)


def _key(key: str) -> str:
    return key if _PLAIN_KEY.fullmatch(key) else json.dumps(key)


def _entry(head: str, value: object) -> str:
    if isinstance(value, str) and value.endswith("\n"):
        return f"{head} |\n{indent(value, _INDENT)}"
    text = json.dumps(value)
    is_long = len(text) > _WIDTH or "{" in text or "\\n" in text
    if isinstance(value, (dict, list)) and is_long:
        block = indent(as_yaml(value), _INDENT)
        return f"{head} {block.lstrip()}" if head == "-" else f"{head}\n{block}"
    return f"{head} {text}\n"
