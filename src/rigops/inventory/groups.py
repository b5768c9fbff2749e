"""Top-level names of an inventory: groups of hosts, or constants that pyinfra takes for groups."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Collection

from rigops.dataclass import dataclass
from rigops.errors import Problem
from rigops.inventory.spec.faults import shown

_HOST_NAME = re.compile(r"[A-Za-z0-9_]([A-Za-z0-9_.-]*[A-Za-z0-9_])?\.?")
_CONNECTOR = re.compile(r"@[a-z][a-z0-9_]*(/.+)?", re.DOTALL)
_DIGITS_AND_DOTS = re.compile(r"[0-9.]+")
_ADDRESS = re.compile(r"(?:([^@\s]+)@)?([A-Za-z0-9_.-]+)(?::([0-9]{1,9}))?")

EXAMPLE = 'rigs = ["threadripper", ("t180", {"ssh_hostname": "192.168.1.20"})]'


@dataclass(frozen=True)
class Group:
    members: tuple[tuple[str, dict[object, object]], ...]
    data: dict[object, object]


def group_of(name: str, value: object, keys: Collection[str]) -> Group | Problem | None:
    """None: a name of the user's own."""
    if name.startswith("_") or not isinstance(value, (list, tuple)):
        return None
    if isinstance(value, list):
        return _group(name, value, {}, keys)
    match value:
        case (list() | tuple() as hosts, dict() as data):
            if group := _group(name, hosts, data, keys):
                return group
    return Problem(
        message=f"pyinfra reads {name} as a group of hosts; a tuple has to be (hosts, data)",
        key=name,
        value=shown(value),
        accepted=f"a list of hosts, such as {EXAMPLE}",
        fix=f"rename a constant to _{name}",
    )


def _group(
    name: str,
    hosts: list[object] | tuple[object, ...],
    data: dict[object, object],
    keys: Collection[str],
) -> Group | Problem | None:
    if hosts and not any(isinstance(host, (str, tuple)) for host in hosts):
        return None  # numbers or dicts: not a group to pyinfra either
    plain = name.lower()
    like_a_key = any(one in keys for one in (plain, plain.removesuffix("s"), f"{plain}s"))
    if like_a_key and hosts and all(isinstance(host, str) for host in hosts):
        names = ", ".join(repr(host) for host in hosts)
        return _constant(name, hosts, f"pyinfra reads {name} as a group of hosts named {names}")
    members: list[tuple[str, dict[object, object]]] = []
    for host in hosts:
        match host:
            case str() if is_host(host):
                members.append((host, {}))
            case tuple((str() as given, dict() as own)) if given:
                members.append((given, own))
            case _:
                return _constant(name, hosts, _why_no_host(name, host))
    return Group(tuple(members), data)


def is_host(name: str) -> bool:
    if _CONNECTOR.fullmatch(name):
        return True
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return bool(_HOST_NAME.fullmatch(name)) and not _DIGITS_AND_DOTS.fullmatch(name)
    return True


def _why_no_host(name: str, host: object) -> str:
    if isinstance(host, str):
        hint = ""
        if address := _ADDRESS.fullmatch(host):
            user, hostname, port = address.groups()
            data = {"ssh_user": user} if user else {}
            written = (hostname, data | ({"ssh_port": int(port)} if port else {}))
            hint = f"; write {written!r}"
        return f"pyinfra reads {name} as a group of hosts; {host!r} is not a host name{hint}"
    if isinstance(host, (tuple, list)):
        return f'{shown(host)} is not a host; write one with data as ("name", {{data}})'
    return f"{shown(host)} is not a host"


def _constant(name: str, hosts: list[object] | tuple[object, ...], message: str) -> Problem:
    return Problem(
        message=message,
        key=name,
        value=shown(hosts),
        accepted=f"a list of hosts, such as {EXAMPLE}",
        fix=f"rename a constant to _{name}; correct the names of hosts, or rename the group",
    )
