"""inventory.lock.json: the proven state of each host, beside the inventory and in its git.

A reinstalled host is compared with it, and it is the only trusted source of package digests. It
holds no speeds, which vary from run to run, so that it changes only with the state.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import field, replace
from pathlib import Path
from typing import Final

from rigops import atomic_file, json_fields, regular_file
from rigops.dataclass import dataclass
from rigops.errors import Problem, RigopsError, UsageError
from rigops.json_dataclass import NAME, Time, from_json, to_json
from rigops.record.proven import STOCK, Proven, ProvenGpu
from rigops.vault.pinned_set import PinnedSet, merged, set_json

SCHEMA: Final = "rigops.lock/1"

_MODE: Final = 0o644
_SUFFIX: Final = ".lock.json"
_MOST_BYTES: Final = 64 * 1024 * 1024  # of many hosts it has some hundred kilobytes
_FIX: Final = "restore it from git, or move it away; the next apply writes a new one"


@dataclass(frozen=True)
class LockedDriver:
    version: str
    flavor: str = field(metadata={NAME: "flavour"})


@dataclass(frozen=True)
class LockedPair:
    source: str = field(metadata={NAME: "from"})
    target: str = field(metadata={NAME: "to"})
    verdict: str


@dataclass(frozen=True, kw_only=True)
class LockedHost:
    """`sets`: the proven packages, the last proven first; none while no vault has them.

    `modules`: stock, or own: and the digest of the owner's tree, which is the file `tree` there.
    """

    at: Time
    driver: LockedDriver
    kernel: str
    kernel_args: tuple[str, ...]
    gpus: tuple[ProvenGpu, ...]
    pairs: tuple[LockedPair, ...] = field(metadata={NAME: "p2p"})
    sets: tuple[PinnedSet, ...] = field(default=(), metadata={NAME: "packages"})
    modules: str = STOCK
    tree: str = ""


@dataclass(frozen=True)
class Lockfile:
    hosts: Mapping[str, LockedHost] = field(default_factory=dict)

    def to_json(self) -> str:
        hosts = [
            {"host": name, **_fields(one), "packages": [set_json(its) for its in one.sets]}
            for name, one in sorted(self.hosts.items())
        ]
        return json.dumps({"schema": SCHEMA, "hosts": hosts}, indent=1) + "\n"


def _fields(one: LockedHost) -> dict[str, object]:
    """Without those of the owner's modules where there are none, as in documents of before."""
    found: dict[str, object] = to_json(one)
    if one.modules == STOCK:
        del found["modules"], found["tree"]
    return found


def path_of(inventory: Path) -> Path:
    return inventory.with_name(f"{inventory.stem}{_SUFFIX}")


def inventory_of(path: Path) -> Path:
    return path.with_name(f"{path.name.removesuffix(_SUFFIX)}.py")


def read(path: Path) -> Lockfile:
    """A damaged lockfile is an error, never an empty one."""
    try:
        text = regular_file.read(path, most=_MOST_BYTES).decode()
    except FileNotFoundError:
        return Lockfile()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(
            Problem(message=f"cannot read {path.name}: {error}", fix=_FIX, file=str(path))
        ) from error
    try:
        fields = json_fields.parse(text, place=path.name, fix=_FIX)
        fields.require_schema(SCHEMA)
        hosts = {one.text("host"): from_json(LockedHost, one) for one in fields.each("hosts")}
        return Lockfile(hosts)
    except RigopsError as error:
        raise UsageError(error.problems) from error


def update(path: Path, found: Mapping[str, LockedHost]) -> bool:
    """Rewrites these hosts only; returns whether anything changed."""
    try:
        with _alone(path):
            before = read(path)
            merged_hosts = {name: _merged(before, name, one) for name, one in found.items()}
            hosts = {**before.hosts, **merged_hosts}
            if hosts == before.hosts:
                return False
            atomic_file.replace(path, Lockfile(hosts).to_json(), _MODE)
    except OSError as error:
        raise RigopsError(
            Problem(
                message=f"cannot write {path.name}: {error}",
                fix="make its folder writable; the next apply writes it",
                file=str(path),
            )
        ) from error
    return True


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    """Excludes other runs from reading to writing.

    Locks the folder, since the file itself is replaced. NFS locks only what is open for
    writing, which a folder never is; there two runs that end together can still cost an entry.
    """
    folder = os.open(Path(os.path.realpath(path)).parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        with suppress(OSError):
            fcntl.flock(folder, fcntl.LOCK_EX)
        yield
    finally:
        os.close(folder)


def locked(proven: Proven, sets: tuple[PinnedSet, ...], tree: str = "") -> LockedHost:
    """`sets`: of the host's vault, the last proven first."""
    return LockedHost(
        at=proven.at,
        driver=LockedDriver(proven.driver.version, proven.driver.flavor),
        kernel=proven.kernel,
        kernel_args=proven.command_line,
        gpus=proven.gpus,
        pairs=tuple(LockedPair(one.source, one.target, one.verdict) for one in proven.pairs),
        sets=sets,
        modules=proven.modules,
        tree=tree,
    )


def _merged(before: Lockfile, name: str, new: LockedHost) -> LockedHost:
    """Keeps the time of the first proof of an unchanged state."""
    old = before.hosts.get(name)
    if old is None:
        return new
    # Older proven sets stay listed while there is room, in whichever vault they are.
    found = replace(new, sets=merged(new.sets, old.sets))
    return old if replace(found, at=old.at) == old else found
