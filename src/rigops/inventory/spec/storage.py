"""The keys of snapshots and backups."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping
from dataclasses import fields
from urllib.parse import urlsplit

from rigops.inventory.spec.faults import Collector, refuse
from rigops.inventory.spec.model import Borg, Retention, Snapshots
from rigops.inventory.spec.scalars import boolean, check_names, list_of, mapping, text

_KEPT = re.compile(r"([1-9][0-9]{0,3})([hdwmy])")
_AGES = {"h": "hourly", "d": "daily", "w": "weekly", "m": "monthly", "y": "yearly"}
_FILE_SYSTEM = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
_REMOTE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@-]*:.+")
_INTERVAL = re.compile(r"([1-9][0-9]{0,3})([dwm])")
_DAYS = {"d": 1, "w": 7, "m": 30}
_UNIT = re.compile(r"[A-Za-z0-9:_.@\\-]+\.(service|timer)")
_SECRET_NAME = re.compile(r"pass(word|phrase)?$|secret|^key$|token", re.IGNORECASE)
_WRITES_ITS_ARGUMENT = re.compile(r"\s*(/\S*/)?(echo|printf)\b")

KEEP_EXAMPLE = '"24h 7d 4w"'


def keep(value: object) -> Retention:
    if not isinstance(value, str) or not value.split():
        refuse("not a retention", value, fix=f"write {KEEP_EXAMPLE}")
    counts: dict[str, int] = {}
    for part in value.split():
        matched = _KEPT.fullmatch(part)
        if not matched:
            fix = f"write {KEEP_EXAMPLE}: h hours, d days, w weeks, m months, y years"
            refuse(f"{part!r} is not a number and an age", value, fix=fix)
        age = _AGES[matched[2]]
        if age in counts:
            refuse(f"{age} is given twice", value)
        counts[age] = int(matched[1])
    return Retention(**counts)


def absolute_path(value: object) -> str:
    path = text(value)
    if not path.startswith("/"):
        refuse("not an absolute path", value, fix=f'write "/{path.lstrip("~/.")}"')
    if ".." in path.split("/"):
        refuse("the path contains ..", value)
    return path


def snapshots(value: object) -> Snapshots:
    example = '{"subvolumes": ["/", "/home"], "keep": "24h 7d 4w"}'
    data = mapping(value, noun="snapshot settings", example=example)
    found = Collector()
    check_names(found, data, ("subvolumes", "keep", "send_to"))
    wanted = Snapshots(
        subvolumes=found.take(list_of(absolute_path, noun="paths"), data, "subvolumes", ()),
        keep=found.take(keep, data, "keep", None),
        send_to=found.take(_send_to, data, "send_to", None),
    )
    if data and not data.get("subvolumes"):
        found.refuse("subvolumes is missing", value, "subvolumes", fix=f"write {example}")
    return found.finish(wanted)


def _send_to(value: object) -> str:
    target = text(value)
    if _FILE_SYSTEM.fullmatch(target):
        return target.lower()
    if _REMOTE.fullmatch(target):
        return target
    refuse(
        "neither a UUID of a file system nor user@host:path",
        value,
        fix="run `blkid` to list UUIDs",
    )


def borg(value: object) -> Borg:
    example = '{"repository": "ssh://nas/backups/rig", "paths": ["/home"], "keep": "7d 4w 6m"}'
    data = mapping(value, noun="borg settings", example=example)
    found = Collector()
    names = [f.name for f in fields(Borg)]
    names[names.index("check_every_days")] = "check_every"
    secrets = [name for name in data if _SECRET_NAME.search(name)]
    for name in [one for one in secrets if one != "passphrase_command"]:
        fix = 'give "passphrase_command": a command that prints it, such as "pass show rig"'
        message = "do not put credentials in an inventory"
        found.refuse(message, data[name], name, fix=fix, secret=True)
    check_names(found, {name: data[name] for name in data if name not in secrets}, names)
    managed = found.take(boolean, data, "managed", default=True)
    wanted = Borg(
        managed=managed,
        unit=found.take(_unit, data, "unit", None),
        repository=found.take(_repository, data, "repository", None),
        paths=found.take(list_of(absolute_path, noun="paths"), data, "paths", ()),
        exclude=found.take(list_of(text, noun="patterns"), data, "exclude", ()),
        keep=found.take(keep, data, "keep", None),
        schedule=found.take(text, data, "schedule", None),
        check_every_days=found.take(_interval, data, "check_every", None),
        passphrase_command=found.take(_passphrase_command, data, "passphrase_command", None),
        newest=found.take(text, data, "newest", None),
        host_keys=found.take(boolean, data, "host_keys", default=False),
        checkpoints=found.take(_checkpoints, data, "checkpoints", ()),
    )
    _check_checkpoints(found, wanted)
    _check_complete(found, data, managed=managed, example=example)
    return found.finish(wanted)


def _check_complete(
    found: Collector, data: Mapping[str, object], *, managed: bool, example: str
) -> None:
    if managed:
        for name in ("repository", "paths"):
            if data and not data.get(name):
                found.refuse(f"{name} is missing", None, name, fix=f"write {example}", secret=True)
        for name in ("unit", "newest"):
            if data.get(name) is not None:
                fix = f'write "managed": False, or leave {name} out'
                found.refuse(
                    "only for a backup that rigops does not manage", data[name], name, fix=fix
                )
        return
    if not data.get("unit"):
        fix = 'write {"managed": False, "unit": "borgmatic.service"}'
        found.refuse("unit is missing", data.get("unit"), "unit", fix=fix)
    for name in data.keys() - {"managed", "unit", "newest"}:
        fix = "leave it out; rigops only watches this backup"
        found.refuse("only for a managed backup", None, name, fix=fix, secret=True)


def _checkpoints(value: object) -> tuple[tuple[str, int], ...]:
    example = '{"/srv/runs": 3}'
    found = Collector()
    wanted: dict[str, int] = {}
    for name, newest in mapping(value, noun="paths and numbers", example=example).items():
        path = posixpath.normpath(found.check(absolute_path, name, name, name))
        if path in wanted:
            found.refuse("the path is given twice", name, name)
        wanted[path] = found.check(_newest, newest, name, 1)
    return found.finish(tuple(wanted.items()))


def _newest(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        refuse("not a whole number from 1 on", value, fix="write how many stay, such as 3")
    return value


def _check_checkpoints(found: Collector, wanted: Borg) -> None:
    """Where the paths themselves are wrong, that is said already."""
    paths = [posixpath.normpath(path) for path in wanted.paths]
    for path, _ in wanted.checkpoints if paths else ():
        if not any(path == one or path.startswith(f"{one.rstrip('/')}/") for one in paths):
            fix = f'add it to "paths", or write a path that lies in one: {", ".join(paths)}'
            found.refuse("the path is not backed up", path, "checkpoints", fix=fix)


def _unit(value: object) -> str:
    if isinstance(value, str) and _UNIT.fullmatch(value):
        return value
    refuse("not a systemd unit", value, fix='write "borgmatic.service"')


def _repository(value: object) -> str:
    place = text(value)
    if "://" in place and urlsplit(place).password:
        refuse("do not put a password in an inventory", value, fix="use an SSH key", secret=True)
    if "://" in place or _REMOTE.fullmatch(place) or place.startswith("/"):
        return place
    refuse(
        "not a borg repository",
        value,
        fix='write "ssh://user@nas/path", "user@nas:path" or "/path"',
    )


def _interval(value: object) -> int:
    matched = _INTERVAL.fullmatch(value) if isinstance(value, str) else None
    if not matched:
        refuse("not an interval", value, fix='write "4w" or "30d"')
    return int(matched[1]) * _DAYS[matched[2]]


def _passphrase_command(value: object) -> str:
    if not isinstance(value, str) or not value.strip():
        refuse("not a command", value, fix='write "pass show rig"', secret=True)
    if _WRITES_ITS_ARGUMENT.match(value):
        refuse(
            "the command contains the passphrase in plain text",
            value,
            fix='use one that reads it from a safe place, such as "pass show rig"',
            secret=True,
        )
    return text(value)
