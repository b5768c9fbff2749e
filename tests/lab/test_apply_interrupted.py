"""An apply that is broken off anywhere is finished by the next one, and no file is ever half."""

from __future__ import annotations

import json
import signal
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Event, Thread
from typing import TYPE_CHECKING, Any

import pytest

from tests.lab import clients, hosts
from tests.lab.applying import left_of_a_trial
from tests.lab.laptop import Laptop
from tests.lab.meter import Meter, measured
from tests.lab.sshd import until
from tests.shards import LAB_APPLY

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from tests.lab.conftest import Lab
    from tests.lab.hosts import Host
    from tests.lab.laptop import Running

RIG = "threadripper-3x3090"
PARTS = 20
# Between them files are written, replaced and taken back, units start and stop, and the kernel's
# arguments change, so that a boot which tries them is part of the session, and what ends it.
OLD = {
    "kernel_args": ["pci=realloc"],
    "kernel_trial": "off",  # so that it stands in the menu without a reboot
    "limits": {"shm": "2G", "removeipc": False},
    "nccl": {"NCCL_DEBUG": "WARN"},
    "reboot_timeout": 120,
}
NEW = {
    "kernel_args": ["iommu=pt"],
    "limits": {"shm": "1G", "memlock": "4M", "nofile": 8192},
    "nccl": {"NCCL_P2P_LEVEL": "SYS"},
    "reboot_timeout": 120,
}
RECORD = "var/lib/rigops/owned.json"
LOCK = "var/lib/rigops/lock.json"
MADE = ("boot/grub/grub.cfg", "etc/nccl.conf", RECORD)
ALL = ("--reboot", "auto", "--serial", str(PARTS))

Contents = dict[str, bytes | None]


@dataclass(frozen=True)
class Case:
    """Each point has a host of its own, and so many parts of a session are carried before it."""

    cut: Sequence[int] = ()
    killed: Sequence[int] = ()


pytestmark = pytest.mark.shard(LAB_APPLY)

CASES = [
    pytest.param(Case(cut=range(1, PARTS)), id="cut-at-all-points"),
    pytest.param(Case(killed=range(1, PARTS)), id="killed-at-all-points"),
]


@dataclass(frozen=True)
class Whole:
    """A session that nobody disturbs: its bytes, and what stands in each file before and after."""

    size: int
    old: Contents
    new: Contents

    def meter(self, point: int) -> Meter:
        return Meter(self.size * point // PARTS)

    def contents(self, host: Host) -> Contents:
        return {path: _content(host, path) for path in self.new}

    def torn(self, hosts: Sequence[Host]) -> list[str]:
        """Files that are neither as before nor as after; the record has states between."""
        return [
            f"{host.name}: {path}: {found!r}"
            for host in hosts
            for path, found in self.contents(host).items()
            if path != RECORD and found not in {self.old[path], self.new[path]}
        ]

    @contextmanager
    def watched(self, hosts: Sequence[Host]) -> Iterator[list[str]]:
        over = Event()
        torn: list[str] = []

        def watch() -> None:
            while not over.wait(0.1):
                torn.extend(self.torn(hosts))

        watcher = Thread(target=watch)
        watcher.start()
        try:
            yield torn
        finally:
            over.set()
            watcher.join()


class Fleet:
    """Some hosts, and whoever applies to them."""

    def __init__(self, folder: Path, hosts: Sequence[Host]) -> None:
        folder.mkdir(exist_ok=True)
        self.hosts = hosts
        self.laptop = Laptop(folder)

    def start(self, declared: Mapping[str, object], *options: str, measured: bool) -> Running:
        data = {**declared, "ssh_port": clients.PROXY_PORT} if measured else declared
        self.laptop.declare({host.name: data for host in self.hosts})
        apply = ("apply", "--yes", "--preflight", "never", "--json", "-i", "inventory.py")
        return self.laptop.start(*apply, *options)

    def apply(self, declared: Mapping[str, object], *options: str) -> dict[str, Any]:
        said = self.start(declared, *options, measured=False).wait()
        assert said.code == 0, said.out + said.err
        return _by_name(said.json())


@pytest.fixture(scope="module")
def whole(module_lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Whole:
    host = module_lab.one(RIG)
    fleet = Fleet(tmp_path_factory.mktemp("laptop"), [host])
    fleet.apply(OLD)
    before = _owned(host)
    old = {path: _content(host, path) for path in before}
    meter = Meter()
    with measured([host], [meter]):
        assert fleet.start(NEW, *ALL, measured=True).wait().code == 0
    paths = {*before, *_owned(host)}
    new = {path: _content(host, path) for path in paths}
    assert {path for path in paths if old.get(path) is None}
    assert {path for path in paths if new[path] is None}
    return Whole(meter.carried, {path: old.get(path) for path in paths}, new)


@dataclass(frozen=True)
class Story:
    """What was done to the hosts, in this order."""

    undisturbed: Host
    disturbed: Mapping[str, Host]  # by what was done to them
    stopped: Mapping[str, bool]  # whether the session was long enough for that
    interrupted: Mapping[str, Any]  # what was said then of those that were cut, and the other
    torn: Sequence[str]
    locked: Mapping[str, bool]  # whether a lock was left
    strays: Mapping[str, list[Path]]
    next: Mapping[str, Any]
    contents: Mapping[str, Contents]
    command_lines: Mapping[str, str]
    trials: Mapping[str, str]  # what is left of them
    last: Mapping[str, Any]


@pytest.fixture(scope="module", params=CASES)
def story(
    request: pytest.FixtureRequest, whole: Whole, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Story]:
    case: Case = request.param
    names = [f"cut-{point}" for point in case.cut] + [f"killed-{point}" for point in case.killed]
    # The first one is not cut: where the first that is rebooted gets lost, the rest is spared.
    words = [f"{RIG}={name}" for name in ("undisturbed", *names)]
    with hosts.running(words) as (undisturbed, *others):
        yield _story(tmp_path_factory.mktemp("laptop"), case, whole, undisturbed, others)


def _story(
    folder: Path, case: Case, whole: Whole, undisturbed: Host, disturbed: Sequence[Host]
) -> Story:
    everyone = Fleet(folder, [undisturbed, *disturbed])
    everyone.apply(OLD)
    to_cut, to_kill = disturbed[: len(case.cut)], disturbed[len(case.cut) :]
    stopped: dict[str, bool] = {}

    with whole.watched(everyone.hosts) as torn:
        first = Fleet(folder / "first", [undisturbed, *to_cut])
        meters = [whole.meter(point) for point in case.cut]
        with measured(first.hosts, [Meter(), *meters]):
            interrupted = first.start(NEW, *ALL, measured=True).wait()
        stopped.update((host.name, meter.cut) for host, meter in zip(to_cut, meters, strict=True))
        for host, point in zip(to_kill, case.killed, strict=True):
            stopped[host.name] = _kill(Fleet(folder / host.name, [host]), whole.meter(point))
        until(lambda: all(_is_up(host) for host in disturbed), "hosts that reboot")
        locked = {host.name: (host.root / LOCK).exists() for host in disturbed}
        after = everyone.apply(NEW, *ALL)

    return Story(
        undisturbed=undisturbed,
        disturbed={host.name: host for host in disturbed},
        stopped=stopped,
        interrupted=_by_name(interrupted.json()),
        torn=torn,
        locked=locked,
        strays={host.name: list(host.root.rglob("*.rigops-new")) for host in disturbed},
        next=after,
        contents={host.name: whole.contents(host) for host in everyone.hosts},
        command_lines={host.name: host.run("cat /proc/cmdline").stdout for host in disturbed},
        trials={host.name: left_of_a_trial(host) for host in disturbed},
        last=everyone.apply(NEW, *ALL),
    )


def _kill(fleet: Fleet, meter: Meter) -> bool:
    with measured(fleet.hosts, [meter]):
        running = fleet.start(NEW, *ALL, measured=True)
        meter.then = running.process.kill  # it has not even imported what connects
        said = running.wait()
    assert said.code == (-signal.SIGKILL if meter.cut else 0), said.err
    return meter.cut


def test_sessions_end_where_they_are_meant_to(story: Story) -> None:
    """No two are of quite the same length, so that the last points may lie behind the end."""
    spared = [name for name, stopped in story.stopped.items() if not stopped]

    assert all(int(name.rpartition("-")[2]) >= PARTS - 2 for name in spared)
    assert story.interrupted["undisturbed"]["outcome"] == "changed"
    outcomes = {host["outcome"] for host in story.interrupted.values()}
    assert outcomes <= {"changed", "failed", "unreachable"}


def test_a_file_is_at_all_times_as_before_or_as_after(story: Story) -> None:
    assert story.torn == []


def test_the_next_apply_has_every_file_as_an_undisturbed_one_has(
    story: Story, whole: Whole
) -> None:
    assert {host["outcome"] for host in story.next.values()} <= {"changed", "converged"}
    for found in story.contents.values():
        assert found == whole.new
    for arguments in story.command_lines.values():
        assert ("iommu=pt" in arguments, "pci=realloc" in arguments) == (True, False)


def test_no_temporary_file_is_left(story: Story) -> None:
    assert not any(story.strays.values())


def test_nothing_of_a_trial_boot_is_left(story: Story) -> None:
    assert {name: left for name, left in story.trials.items() if left} == {}


def test_whose_lock_was_left_is_told_by_the_next_apply_that_takes_it(story: Story) -> None:
    for name, locked in story.locked.items():
        after = story.next[name]
        told = any("took over the lock of" in line for line in after["story"])
        assert told == (locked and after["outcome"] == "changed"), name
    if len(story.locked) > 1:
        assert any(story.locked.values())
        assert not all(story.locked.values())


def test_journals_are_whole(story: Story) -> None:
    for host in story.disturbed.values():
        for line in (host.root / "var/lib/rigops/journal.jsonl").read_text().splitlines():
            json.loads(line)


def test_after_that_nothing_is_left_to_do(story: Story) -> None:
    assert {host["outcome"] for host in story.last.values()} == {"converged"}
    assert not any(host["changes"] for host in story.last.values())


def _is_up(host: Host) -> bool:
    """Not merely on its way down."""
    return host.run("systemctl is-system-running").stdout.strip() in {"running", "degraded"}


def _by_name(document: Mapping[str, Any]) -> dict[str, Any]:
    return {host["host"]: host for host in document["hosts"]}


def _owned(host: Host) -> set[str]:
    record = json.loads((host.root / RECORD).read_text())
    return {*MADE, *(file["path"].lstrip("/") for file in record["files"])}


def _content(host: Host, path: str) -> bytes | None:
    """As soon as something has written it, it is in the host's own layer."""
    file = host.root / path
    try:
        return file.read_bytes() if file.is_file() else None
    except FileNotFoundError:  # a run took it back just now
        return None
