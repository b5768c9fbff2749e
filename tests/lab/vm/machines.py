"""Machines that one can switch on, cut off from power, and throw away.

    machine = machines.up("a", layout="esp", rtc="2031-01-01T00:00:00")
    machine.ssh("uname -r")
    machine.cut()
    machine.start()
    machine.down()

A machine's disk is an overlay of its own on a disk that was built once; it outlives a cut.
"""

from __future__ import annotations

import fcntl
import json
import re
import shutil
import subprocess
import time
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING

from tests.lab import cache
from tests.lab.errors import LabError
from tests.lab.processes import Process
from tests.lab.vm import access, guest, image, layouts, qemu, uefi
from tests.lab.vm.access import Access
from tests.lab.vm.requirements import lacks

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
_PATIENCE = 300.0  # an emulated processor beside other work
_BOOT_ID = "cat /proc/sys/kernel/random/boot_id"


@dataclass(frozen=True)
class System:
    """A raw disk to start from, which only ever is read, and what sshd answers with there."""

    disk: Path
    host_key: str


@dataclass(frozen=True)
class Record:
    name: str
    layout: str
    port: int
    host_key: str
    memory: int
    ahead: float = 0  # seconds that its clock is ahead of ours
    second: int = 0  # MiB of another disk, which no installation touches
    cards: tuple[str, ...] = guest.TWO
    process: Process | None = None
    owner: Process | None = None  # the machine goes with this process; None: with `down`

    @property
    def folder(self) -> Path:
        return _folder() / self.name

    @property
    def access(self) -> Access:
        return Access(self.port, self.host_key, self.folder, self.name)

    @property
    def hardware(self) -> qemu.Hardware:
        now = datetime.now(timezone.utc) + timedelta(seconds=self.ahead)
        return qemu.Hardware(
            disk=self.folder / "disk.qcow2",
            second=self.folder / "second.qcow2" if self.second else None,
            kind="qcow2",
            console=self.folder / "console.log",
            silicon=self.folder / "silicon.tar.gz",
            port=self.port,
            memory=self.memory,
            cards=len(self.cards),
            variables=self.folder / "variables.fd" if self.layout == layouts.UEFI else None,
            clock=f"{now:%Y-%m-%dT%H:%M:%S}",
        )

    def write(self) -> None:
        new = self.folder / "record.new"
        new.write_text(json.dumps(asdict(self)))
        new.rename(self.folder / "record.json")


@dataclass(frozen=True)
class Machine:
    name: str

    @property
    def record(self) -> Record:
        record = _read(self.name)
        if record is None:
            raise LabError(f"there is no machine {self.name!r}; there are {_all_names()}")
        return record

    @property
    def access(self) -> Access:
        return self.record.access

    @property
    def data(self) -> dict[str, object]:
        """What an inventory says of it, so that the lab's own ssh files find it."""
        return {"ssh_config_file": str(self.access.config)}

    @property
    def is_on(self) -> bool:
        process = self.record.process
        return process is not None and process.lives()

    def run(
        self, command: str, *, user: str = "root", given: str = "", timeout: float = 120
    ) -> subprocess.CompletedProcess[str]:
        return self.access.run(command, user=user, given=given, timeout=timeout)

    def ssh(self, command: str, *, user: str = "root", timeout: float = 120) -> str:
        """What it prints; a command that fails is an error."""
        return self.access.ssh(command, user=user, timeout=timeout)

    def log_in(self, user: str, words: list[str]) -> int:
        return subprocess.run([*self.access.command(user), *words], check=False).returncode

    def console(self) -> str:
        """All that firmware, GRUB, kernel and services have said since it was made."""
        return (self.record.folder / "console.log").read_text(errors="replace")

    def boot_id(self) -> str:
        return self.ssh(_BOOT_ID)

    def start(self) -> None:
        """Switch it on, with the disk as it is."""
        with _locked():
            record = self.record
            if self.is_on:
                raise LabError(f"{self.name} is on already")
            guest.pack(record.hardware.silicon, record.cards)
            replace(record, process=qemu.start(record.hardware)).write()

    def wait_for_ssh(self, deadline: float = _PATIENCE) -> None:
        """Until its sshd answers; one that is about to go down for a reboot still does."""
        process = self.record.process
        if process is None:
            raise LabError(f"{self.name} is off")
        try:
            self.access.wait(process, deadline)
        except LabError as error:
            raise LabError(f"{error}; its console said:\n{self.console()[-3000:]}") from error

    def wait_for_boot(self, since: str, deadline: float = _PATIENCE) -> str:
        """Until it answers from another boot than `since`; the answer is that boot's id."""
        until = time.monotonic() + deadline
        while time.monotonic() < until:
            self.wait_for_ssh(until - time.monotonic())
            seen = self.run(_BOOT_ID).stdout.strip()
            if seen not in {"", since}:
                return seen
            time.sleep(1)
        raise LabError(f"{self.name} has not booted anew after {deadline:.0f} s")

    def reboot(self, deadline: float = _PATIENCE) -> None:
        before = self.boot_id()
        self.run("systemctl reboot")
        self.wait_for_boot(before, deadline)

    def cut(self) -> None:
        """Pull the plug: what it had not written to its disk is lost."""
        process = self.record.process
        if process:
            process.kill()

    def enroll(self, certificate: bytes) -> None:
        """While it is off: a key of the owner's, beside those that its firmware came with."""
        variables = self.record.hardware.variables
        if self.is_on or variables is None:
            raise LabError(f"{self.name} is on, or has no UEFI")
        uefi.enroll(variables, certificate)

    def install(self, system: System) -> None:
        """While it is off: another system, which nobody's known_hosts knows."""
        with _locked():
            record = self.record
            if self.is_on:
                raise LabError(f"{self.name} is on")
            record.hardware.disk.unlink()
            _overlay(system.disk, record.hardware.disk)
            replace(record, host_key=system.host_key).write()

    def down(self) -> None:
        """Cut it off and throw its disk away."""
        with _locked():
            _remove(self.name)


def up(
    name: str,
    *,
    layout: str = "ext4",
    rtc: str = "",
    memory: int = 1024,
    second: int = 0,
    cards: tuple[str, ...] = guest.TWO,
    system: System | None = None,
    keep: bool = False,
) -> Machine:
    """A new machine that answers, or the one of that name again after it was cut.

    Unless it is kept, it goes with this process: the next `up` clears it away.
    """
    if reason := lacks():
        raise LabError(reason)
    if not _NAME.fullmatch(name):
        raise LabError(f"{name}: a name is letters a-z, digits and dashes, up to 63")
    machine = Machine(name)
    if _read(name) is None:
        owner = None if keep else Process.own()
        given = system or System(image.base(layout), image.host_key(layout))
        asked = Record(
            name, layout, 0, given.host_key, memory, _ahead(rtc), second, cards, owner=owner
        )
        _make(asked, given.disk)
    machine.start()
    try:
        machine.wait_for_ssh()
    except LabError:
        if not keep:
            machine.down()
        raise
    return machine


def _ahead(rtc: str) -> float:
    if not rtc:
        return 0
    try:
        wanted = datetime.fromisoformat(rtc).replace(tzinfo=timezone.utc)
    except ValueError as error:
        raise LabError(f"rtc={rtc}: it has to be like 2031-01-01T00:00:00") from error
    return (wanted - datetime.now(timezone.utc)).total_seconds()


def _make(asked: Record, disk: Path) -> None:
    with _locked():
        sweep()
        if asked.name in names():
            raise LabError(f"there is already a machine {asked.name!r}")
        record = replace(asked, port=access.free_port())
        record.folder.mkdir(parents=True)
        _overlay(disk, record.hardware.disk)
        if record.hardware.variables:
            shutil.copy(uefi.VARIABLES, record.hardware.variables)
        if record.hardware.second:
            _image(str(record.hardware.second), f"{record.second}M")
        record.access.write()
        record.write()


def _overlay(base: Path, disk: Path) -> None:
    _image("-F", "raw", "-b", str(base), str(disk))


def _image(*words: str) -> None:
    subprocess.run(["qemu-img", "create", "-q", "-f", "qcow2", *words], check=True)


def names() -> list[str]:
    return sorted(path.name for path in _folder().iterdir() if path.is_dir())


def machines() -> list[Machine]:
    return [Machine(name) for name in names() if _read(name)]


def sweep() -> None:
    """Remove what killed runs have left."""
    for name in names():
        record = _read(name)
        if record is None or (record.owner and not record.owner.lives()):
            _remove(name)


def _remove(name: str) -> None:
    record = _read(name)
    if record and record.process:
        record.process.kill()
    shutil.rmtree(_folder() / name, ignore_errors=True)


def _read(name: str) -> Record | None:
    try:
        data = json.loads((_folder() / name / "record.json").read_text())
    except (FileNotFoundError, ValueError):
        return None
    for key in ("process", "owner"):
        data[key] = Process(**data[key]) if data[key] else None
    return Record(**{**data, "cards": tuple(data["cards"])})


def _all_names() -> str:
    return ", ".join(names()) or "none"


def _folder() -> Path:
    """Beside what was built and not in /run: a disk may grow larger than memory is."""
    path = cache.folder() / "machines"
    path.mkdir(exist_ok=True)
    return path


@contextmanager
def _locked() -> Iterator[None]:
    with (_folder() / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
