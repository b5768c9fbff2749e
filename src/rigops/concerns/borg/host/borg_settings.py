"""The declaration of this machine's backups: the file that `rigops apply` writes."""

from __future__ import annotations

import json
import os
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from rigops.backup.host.errors import HostError
from rigops.backup.retention import parse_rule

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rigops.backup.retention import Rule

BORG_SETTINGS = "/etc/rigops/borg.json"
BORG_KEY = "/etc/rigops/borg_key"
BORG_KNOWN_HOSTS = "/etc/rigops/borg_known_hosts"


class BorgSettings(NamedTuple):
    """`host`: the beginning of its archives' names. `keep`: empty keeps everything.

    `identity`: what makes this machine this machine is in each archive too; its ssh host keys only
    with `host_keys`. `checkpoints`: how many of each series below a path are in it.
    """

    host: str
    repository: str
    paths: tuple[str, ...]
    exclude: tuple[str, ...] = ()
    keep: str = ""
    schedule: str = ""
    check_every_days: int = 30
    identity: bool = True
    host_keys: bool = False
    checkpoints: Mapping[str, int] = MappingProxyType({})

    @property
    def rule(self) -> Rule | None:
        try:
            return parse_rule(self.keep) if self.keep else None
        except ValueError as error:
            raise HostError(f"{BORG_SETTINGS}: keep: {error}", "run rigops apply") from error

    @property
    def folder(self) -> str:
        """Of a repository on this machine; empty for one on a server."""
        return self.repository if self.repository.startswith("/") else ""


def read_borg_settings(path: str = BORG_SETTINGS) -> BorgSettings | None:
    """None where nothing is declared."""
    try:
        found = json.loads(Path(path).read_text(encoding="utf-8"))
        paths = [os.path.normpath(str(one)) for one in found["paths"]]
        return BorgSettings(
            host=str(found["host"]),
            repository=str(found["repository"]),
            paths=tuple(dict.fromkeys(sorted(paths, key=len))),
            exclude=tuple(map(str, found.get("exclude", ()))),
            keep=str(found.get("keep", "")),
            schedule=str(found.get("schedule", "")),
            check_every_days=int(found.get("check_every_days", 30)),
            identity=bool(found.get("identity", True)),
            host_keys=bool(found.get("host_keys", False)),
            checkpoints={
                os.path.normpath(str(path)): int(newest)
                for path, newest in found.get("checkpoints", {}).items()
            },
        )
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise HostError(f"{path} cannot be read: {error}", "run rigops apply") from error


def demand_borg_settings() -> BorgSettings:
    found = read_borg_settings()
    if found is None or not found.paths:
        raise HostError(
            "no backup is declared for this host",
            'declare "borg": {"repository": "/mnt/backup/borg", "paths": ["/home"]}',
        )
    return found
