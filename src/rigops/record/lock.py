"""inventory.lock.json: what each host was proven with, next to the inventory and in its git.

A reinstalled host is compared against it, and the digests of packages are believed from nowhere
else. Speeds vary from run to run and stay out of it, so that it changes only when something does.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Final

from rigops import atomic_file, json_fields
from rigops.errors import Problem, RigopsError, UsageError
from rigops.record.proven import ProvenGpu
from rigops.vault.kept import KEPT, KeptSet, set_json, set_of

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from rigops.json_fields import Fields
    from rigops.record.proven import Proven

SCHEMA: Final = "rigops.lock/1"

_MODE: Final = 0o644
_CURE: Final = "take the last good one out of git, or move it away to have it written anew"


@dataclass(frozen=True)
class LockedPair:
    source: str
    target: str
    verdict: str


@dataclass(frozen=True, kw_only=True)
class LockedHost:
    """`sets`: the proven packages, the last proven first; none while they could not be kept."""

    at: str
    version: str  # of the driver
    flavour: str
    kernel: str
    kernel_args: tuple[str, ...]
    gpus: tuple[ProvenGpu, ...]
    pairs: tuple[LockedPair, ...]
    sets: tuple[KeptSet, ...] = ()


@dataclass(frozen=True)
class Lock:
    hosts: Mapping[str, LockedHost] = field(default_factory=dict)

    def to_json(self) -> str:
        hosts = [_host_json(name, one) for name, one in sorted(self.hosts.items())]
        return json.dumps({"schema": SCHEMA, "hosts": hosts}, indent=1) + "\n"


def path_of(inventory: Path) -> Path:
    return inventory.with_name(f"{inventory.stem}.lock.json")


def read(path: Path) -> Lock:
    """A lock that is damaged is an error: it must not be taken for one that knows nothing."""
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return Lock()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(
            Problem(message=f"{path.name} cannot be read: {error}", cure=_CURE, file=str(path))
        ) from error
    try:
        fields = json_fields.parse(text, place=path.name, cure=_CURE)
        fields.require_schema(SCHEMA)
        return Lock({one.text("host"): _host(one) for one in fields.each("hosts")})
    except RigopsError as error:
        raise UsageError(error.problems) from error


def update(path: Path, found: Mapping[str, LockedHost]) -> bool:
    """Rewrite these hosts and no others. Whether anything changed."""
    before = read(path)
    hosts = {**before.hosts, **{name: _merged(before, name, one) for name, one in found.items()}}
    if hosts == before.hosts:
        return False
    try:
        atomic_file.replace(path, Lock(hosts).to_json(), _MODE)
    except OSError as error:
        raise RigopsError(
            Problem(
                message=f"{path.name} could not be written: {error}",
                cure="See that its folder can be written; the next apply writes it.",
                file=str(path),
            )
        ) from error
    return True


def locked(proven: Proven, sets: tuple[KeptSet, ...]) -> LockedHost:
    """`sets`: what the host keeps, the last proven first."""
    return LockedHost(
        at=proven.at,
        version=proven.driver.version,
        flavour=proven.driver.flavor,
        kernel=proven.kernel,
        kernel_args=proven.command_line,
        gpus=proven.gpus,
        pairs=tuple(LockedPair(one.source, one.target, one.verdict) for one in proven.pairs),
        sets=sets,
    )


def _merged(before: Lock, name: str, new: LockedHost) -> LockedHost:
    """The time is that of the first proof of what did not change since."""
    old = before.hosts.get(name)
    if old is None:
        return new
    # What was proven before stays known for as long as there is room, whoever keeps it.
    older = (one for one in old.sets if not any(one.is_same(its) for its in new.sets))
    sets = (*new.sets, *older)[:KEPT]
    merged = replace(new, sets=sets)
    return old if replace(merged, at=old.at) == old else merged


def _host_json(name: str, one: LockedHost) -> dict[str, object]:
    return {
        "host": name,
        "at": one.at,
        "driver": {"version": one.version, "flavour": one.flavour},
        "kernel": one.kernel,
        "kernel_args": list(one.kernel_args),
        "gpus": [asdict(gpu) for gpu in one.gpus],
        "p2p": [
            {"from": pair.source, "to": pair.target, "verdict": pair.verdict} for pair in one.pairs
        ],
        "packages": [set_json(its) for its in one.sets],
    }


def _host(fields: Fields) -> LockedHost:
    driver = fields.nested("driver")
    return LockedHost(
        at=fields.time("at"),
        version=driver.text("version"),
        flavour=driver.text("flavour"),
        kernel=fields.text("kernel"),
        kernel_args=fields.texts("kernel_args"),
        gpus=tuple(
            ProvenGpu(
                uuid=gpu.text("uuid"),
                address=gpu.text("address"),
                name=gpu.text("name"),
                power_limit_watts=gpu.number_or_none("power_limit_watts"),
            )
            for gpu in fields.each("gpus")
        ),
        pairs=tuple(
            LockedPair(pair.text("from"), pair.text("to"), pair.text("verdict"))
            for pair in fields.each("p2p")
        ),
        sets=tuple(set_of(one) for one in fields.each("packages")),
    )
