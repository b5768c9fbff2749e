"""The run directory: a folder per host, a record in each, and nothing at all once all are gone."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from tests.lab import cgroups, disks, frozen
from tests.lab.errors import LabError
from tests.lab.processes import Process

if TYPE_CHECKING:
    from collections.abc import Iterator


def folder() -> Path:
    """One for each worker of pytest-xdist, which then knows of no other's hosts."""
    worker = os.environ.get("PYTEST_XDIST_WORKER")
    name = f"rigops-lab-{worker}" if worker else "rigops-lab"
    return Path(os.environ.get("XDG_RUNTIME_DIR") or "/run") / name


@dataclass(frozen=True)
class Record:
    name: str
    rig: str
    address: str
    settings: dict[str, str] = field(default_factory=dict)
    host_key: str = ""
    ready: bool = False
    machine: Process | None = None  # its systemd-nspawn
    proxy: Process | None = None
    owner: Process | None = None  # the host ends with this process; None: with `down`

    @property
    def folder(self) -> Path:
        return folder() / "hosts" / self.name

    @property
    def group(self) -> Path:
        return groups() / self.name

    @property
    def leftover(self) -> bool:
        """Whether whoever wanted this host, or the host itself, was killed."""
        if self.owner and not self.owner.lives():
            return True
        return self.ready and not (self.machine and self.machine.lives())

    def write(self) -> None:
        new = self.folder / "record.new"
        new.write_text(json.dumps(asdict(self)))
        new.rename(self.folder / "record.json")


def groups() -> Path:
    root = cgroups.root()
    if root is None:
        raise LabError("no cgroup2 file system is mounted")
    top = Path("/").stat()  # a chroot on the same machine has another
    identity = f"{folder()} {top.st_dev} {top.st_ino}"
    return root / f"rigops-lab-{sha256(identity.encode()).hexdigest()[:8]}"


@contextmanager
def locked() -> Iterator[None]:
    """One at a time may change records; whoever leaves no host behind takes the folder away."""
    lock = _lock()
    try:
        yield
        if not names():
            with suppress(FileNotFoundError):
                groups().rmdir()
            shutil.rmtree(folder())
    finally:
        lock.close()


def _lock() -> TextIO:
    while True:
        folder().mkdir(parents=True, exist_ok=True)
        lock = (folder() / "lock").open("w")
        fcntl.flock(lock, fcntl.LOCK_EX)
        with suppress(FileNotFoundError):
            if _is_still(lock):
                return lock
        lock.close()


def _is_still(lock: TextIO) -> bool:
    """Not so when the holder before us has removed the folder."""
    return os.path.samestat(os.fstat(lock.fileno()), (folder() / "lock").stat())


def names() -> list[str]:
    with suppress(FileNotFoundError):
        return sorted(path.name for path in (folder() / "hosts").iterdir())
    return []


def read(name: str) -> Record | None:
    """None: there is no such host, or whoever made it was killed before saying what it is."""
    try:
        data = json.loads((folder() / "hosts" / name / "record.json").read_text())
    except (FileNotFoundError, ValueError):
        return None
    for key in ("machine", "proxy", "owner"):
        data[key] = Process(**data[key]) if data[key] else None
    return Record(**data)


def records() -> list[Record]:
    return [record for name in names() if (record := read(name)) is not None]


def change(record: Record, **changes: object) -> Record:
    new = replace(record, **changes)  # type: ignore[arg-type]  # callers name real fields
    new.write()
    return new


def remove(name: str) -> None:
    frozen.thaw(groups() / name)  # or else who writes there would never end
    record = read(name)
    if record and record.machine:
        record.machine.kill()  # which may be so young that it is not in its group yet
    cgroups.end(groups() / name)
    host = folder() / "hosts" / name
    disks.free(host)
    shutil.rmtree(host, ignore_errors=False)


def sweep() -> None:
    """Remove what killed runs and killed hosts have left."""
    for name in names():
        record = read(name)
        if record is None or record.leftover:
            remove(name)
    known = set(names())
    with suppress(FileNotFoundError):
        for group in groups().iterdir():
            if group.is_dir() and group.name not in known:
                cgroups.end(group)
