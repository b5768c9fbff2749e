"""Rigs as hosts that one can log in to: up, set, down.

with running(["threadripper-3x3090=a", "t180-4xv100", "p2p=granted"]) as hosts:
    hosts[0].run("nvidia-smi -L")
"""

from __future__ import annotations

import os
import re
import socket
import subprocess
import zlib
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.lab import cache, clients, frozen, layers, machine, rigs, runs, seed, settings
from tests.lab.errors import LabError
from tests.lab.processes import Process
from tests.lab.requirements import lacks, lacks_containers, lacks_room

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from tests.lab.rigs import Rig
    from tests.lab.runs import Record
    from tests.lab.settings import Settings

_ADDRESSES = 254 * 250
_NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")


@dataclass(frozen=True)
class Host:
    name: str

    @property
    def record(self) -> Record:
        record = runs.read(self.name)
        if record is None:
            raise LabError(_no_host(self.name))
        return record

    @property
    def address(self) -> str:
        return self.record.address

    @property
    def port(self) -> int:
        """Where to log in: the proxy's, as long as a delay or a cut is asked for."""
        return clients.port(self.record)

    @property
    def key(self) -> Path:
        return cache.key()

    @property
    def root(self) -> Path:
        """The host's own layer: every file that something in it has written."""
        return self.record.folder / "upper"

    @property
    def answers(self) -> bool:
        return machine.answers(self.record, seed.SSHD_PORT)

    def rig(self) -> Rig:
        return rigs.load(self.record.rig, self.name).with_settings(self.record.settings)

    def run(
        self, command: str, *, user: str = "root", given: str | None = None, timeout: float = 120
    ) -> subprocess.CompletedProcess[str]:
        """Over ssh; `given` is its standard input."""
        return subprocess.run(
            [*ssh_command(), f"{user}@{self.name}", command],
            check=False,
            capture_output=True,
            text=True,
            input=given or "",
            timeout=timeout,
        )

    def log_in(self, user: str, words: Sequence[str]) -> int:
        """A person's session, or a command with this terminal; the answer is ssh's status."""
        command = ["ssh", "-F", str(clients.config()), f"{user}@{self.record.name}", *words]
        return subprocess.run(command, check=False).returncode

    def set(self, *words: str) -> None:
        change(self.name, words)

    def down(self) -> None:
        down([self.name])


@dataclass(frozen=True)
class Wish:
    rig: str
    name: str
    settings: Settings


def ssh_command() -> list[str]:
    return ["ssh", "-F", str(clients.config()), "-o", "BatchMode=yes"]


def up(words: Sequence[str], *, keep: bool = False) -> list[Host]:
    """Boot what the words ask for, RIG[=NAME]… [KEY=VALUE]…; all of it or nothing.

    Unless they are kept, the hosts end with this process: the next run clears them away.
    """
    if reason := lacks():
        raise LabError(reason)
    wanted = wishes(words)
    if reason := lacks_room(len(wanted)):
        raise LabError(reason)
    repository = layers.repository()
    made = [_rig(wish) for wish in wanted]
    if any(rig.containers == "on" for rig in made) and (reason := lacks_containers()):
        raise LabError(f"containers=on: {reason}")
    for rig in made:
        layers.below(rig, repository)  # one after the other, before anything boots
    records = _reserve(wanted)
    try:
        with ThreadPoolExecutor((os.cpu_count() or 1) * 2) as pool:
            booted = list(pool.map(machine.boot, records, made, [repository] * len(made)))
            list(pool.map(_follow, booted, made))
        with runs.locked():
            owner = None if keep else Process.own()
            for record in booted:
                runs.change(record, ready=True, owner=owner)
            clients.write()
    except BaseException:
        end([record.name for record in records])
        raise
    return [Host(record.name) for record in booted]


@contextmanager
def running(words: Sequence[str]) -> Iterator[list[Host]]:
    hosts = up(words)
    try:
        yield hosts
    finally:
        end([host.name for host in hosts])


def running_hosts() -> list[Host]:
    return [Host(record.name) for record in runs.records() if record.ready]


def change(name: str, words: Sequence[str]) -> None:
    """Change a rig while it runs."""
    new = settings.parse(words)
    if "driver" in new:  # for so long that other hosts should not wait
        record = Host(name).record
        machine.change_driver(record, _changed(record, new))
    with runs.locked():
        record = Host(name).record
        rig = _changed(record, new)
        record = runs.change(record, settings={**record.settings, **new})
        _follow(record, rig)
        machine.tell_hardware(record, rig)
        if "pocket" in new:
            machine.tell_sources(record, rig)
        machine.put_proxy(record)
        clients.write()


def _follow(record: Record, rig: Rig) -> None:
    """What the machine has to do for a rig beside telling it."""
    if "unkillable" in (rig.smi, rig.p2p):
        frozen.freeze(record.folder, machine.leader(record))
    else:
        frozen.thaw(record.group)


def _changed(record: Record, new: Settings) -> Rig:
    return rigs.load(record.rig, record.name).with_settings({**record.settings, **new})


def down(names: Sequence[str] = ()) -> None:
    """End these hosts, or all, and whatever killed runs have left."""
    unknown = set(names) - set(runs.names())
    if unknown:
        raise LabError(_no_host(min(unknown)))
    with runs.locked():
        _remove(names or runs.names())
        runs.sweep()


def end(names: Sequence[str]) -> None:
    """These hosts, as far as they still exist."""
    with runs.locked():
        _remove(names)


def _remove(names: Sequence[str]) -> None:
    present = [name for name in names if name in runs.names()]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(runs.remove, present))
    clients.write()


def _no_host(name: str) -> str:
    there = ", ".join(runs.names()) or "none"
    return f"there is no host {name!r}; running: {there}"


def _rig(wish: Wish) -> Rig:
    return rigs.load(wish.rig, wish.name).with_settings(wish.settings)


def wishes(words: Sequence[str]) -> list[Wish]:
    laid_over = settings.parse([w for w in words if w.partition("=")[0] in settings.KEYS])
    asked = [w.partition("=") for w in words if w.partition("=")[0] not in settings.KEYS]
    if not asked:
        raise LabError(f"no rig named; there are {', '.join(rigs.names())}")
    unnamed = Counter(rig for rig, _, name in asked if not name)
    number: Counter[str] = Counter()
    wishes = []
    for rig, sign, own_name in asked:
        if rig not in rigs.names():
            keys = ", ".join(settings.KEYS) if sign else ""
            also = f"; and no KEY=VALUE, whose keys are {keys}" if keys else ""
            raise LabError(f"there is no rig {rig!r}; there are {', '.join(rigs.names())}{also}")
        name = own_name or rig
        if not own_name and unnamed[rig] > 1:
            number[rig] += 1
            name = f"{rig}-{number[rig]}"
        if not _NAME.fullmatch(name):
            raise LabError(f"{rig}={name}: a name is letters a-z, digits and dashes, up to 63")
        wishes.append(Wish(rig, name, laid_over))
        _rig(wishes[-1])  # so that a wrong setting is said before anything happens
    twice = [name for name, count in Counter(wish.name for wish in wishes).items() if count > 1]
    if twice:
        raise LabError(f"two hosts named {twice[0]!r}: name them with RIG=NAME")
    return wishes


def _reserve(wishes: list[Wish]) -> list[Record]:
    """Names and addresses, taken for good before anything starts."""
    with runs.locked():
        runs.sweep()
        for wish in wishes:
            if wish.name in runs.names():
                raise LabError(
                    f"there is already a host {wish.name!r}: name the new one, {wish.rig}=NAME,"
                    f" or end that one, down {wish.name}"
                )
        used = {record.address for record in runs.records()}
        records = []
        for wish in wishes:
            address = _free_address(used)
            used.add(address)
            record = runs.Record(
                wish.name, wish.rig, address, settings=wish.settings, owner=Process.own()
            )
            record.folder.mkdir(parents=True)
            record.write()
            records.append(record)
        return records


def _free_address(used: set[str]) -> str:
    """One that no other run directory's host listens on either.

    Each run directory begins at a place of its own, since a host takes its address a second later.
    """
    first = zlib.crc32(str(runs.groups()).encode())
    for number in range(_ADDRESSES):
        block, last = divmod((first + number) % _ADDRESSES, 250)
        address = f"127.10.{block + 1}.{last + 1}"
        if address not in used and _is_free(address):
            return address
    raise LabError("no loopback address is free")


def _is_free(address: str) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((address, seed.SSHD_PORT))
        except OSError:
            return False
    return True
