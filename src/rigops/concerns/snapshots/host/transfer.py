"""Sends one snapshot to a target, so that it is there whole or not at all."""

from __future__ import annotations

import time
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from rigops.backup.host.btrfs import BtrfsError
from rigops.backup.host.errors import HostError
from rigops.backup.host.snapshot_names import path_of
from rigops.hostside.shared.bounded import SILENCE_S, ChildError

if TYPE_CHECKING:
    from collections.abc import Callable

    from rigops.backup.host.output import Output
    from rigops.concerns.snapshots.host.chain import Transfer
    from rigops.concerns.snapshots.host.place import LocalPlace, SnapshotCopy
    from rigops.concerns.snapshots.host.remote import RemotePlace

    Place = LocalPlace | RemotePlace

_END_S = 5.0
_RATE_S = 3.0


class Sent(NamedTuple):
    """`parent`: empty where it was sent in full."""

    name: str
    parent: str
    bytes: int
    seconds: float


class _Way(NamedTuple):
    ours: SnapshotCopy
    folder: str
    source: Place
    target: Place
    meanwhile: Callable[[], None] | None


class StreamMeter:
    """`per_s`: of the last seconds."""

    def __init__(self, output: Output, what: str, total: int | None) -> None:
        self.output = output
        self._what = what
        self._total = total
        self.done = 0
        self._since = time.monotonic()
        self._before = 0
        self._per_s = 0.0

    def count(self, moved: int) -> None:
        self.done += moved
        now = time.monotonic()
        if now - self._since >= _RATE_S or not self._per_s:
            self._per_s = (self.done - self._before) / max(now - self._since, 0.001)
        if now - self._since >= _RATE_S:
            self._since, self._before = now, self.done
        self.output.progress(self._what, self.done, self._total, self._per_s)


def clear_incomplete(target: Place, folder: str, output: Output) -> None:
    """Remains of a killed run, under the target's lock."""
    if target.clear():
        output.notice(f"{target.name}: removed what an interrupted run left")
    for one in target.copies(folder):
        if not one.is_complete:
            output.notice(
                f"{target.name}: {one.name} was made writable: it stays, and is no backup any more"
            )


def send_snapshot(
    transfer: Transfer,
    folder: str,
    source: Place,
    target: Place,
    output: Output,
    *,
    meanwhile: Callable[[], None] | None = None,
) -> Sent:
    """Against the best parent that the target turns out to have, else in full.

    `meanwhile`: what has to go on beside it; called for each part that is moved.
    """
    theirs = target.copies(folder)
    ours = next(one for one in source.copies(folder) if one.name == transfer.name)
    if any(one.name == ours.name and one.origin != ours.origin for one in theirs):
        raise HostError(
            f"{target.name} has another snapshot with the name {ours.name}",
            "remove the one that is not needed",
        )
    way = _Way(ours, folder, source, target, meanwhile)
    for parent in transfer.parents:
        sent = _send_against(way, parent, output)
        if sent:
            return sent
        output.notice(f"{target.name}: {parent} is damaged or gone there, or more than once")
    if any(one.is_complete for one in theirs):
        output.notice(f"{target.name}: no common parent; {ours.name} is sent in full")
    return _send_once(way, "", output)


def _send_against(way: _Way, parent: str, output: Output) -> Sent | None:
    """None: the target lacks the parent."""
    try:
        return _send_once(way, parent, output)
    except BtrfsError as error:
        if error.lacks_parent:
            return None
        raise


def _send_once(way: _Way, parent: str, output: Output) -> Sent:
    name, origin, target = way.ours.name, way.ours.origin, way.target
    total = None if parent else way.source.measure(way.folder, name)
    meter = StreamMeter(output, f"sending {path_of(way.folder)} {name}", total)
    began = time.monotonic()
    _stream(way, parent, meter)
    theirs = [one for one in target.copies(way.folder) if one.name == name]
    if not (theirs and theirs[0].is_complete and theirs[0].origin == origin):
        raise HostError(f"{target.name}: {name} did not arrive whole", "run it again")
    return Sent(name, parent, meter.done, time.monotonic() - began)


def _stream(way: _Way, parent: str, meter: StreamMeter) -> None:
    """The program that ended first is the cause of a failure."""
    name, problem = way.ours.name, None

    def count(moved: int) -> None:
        meter.count(moved)
        if way.meanwhile:
            way.meanwhile()

    with way.source.send(way.folder, name, parent) as sender:
        stream = sender.output.fileno()
        try:
            way.target.receive(way.folder, name, stream, count, way.ours.origin)
        except HostError as error:
            problem = error
        sender.output.close()  # a sender that nobody reads ends
        with suppress(ChildError):
            sender.wait(_END_S if problem else SILENCE_S)
        complaint, code = sender.errors, sender.process.returncode
    # Where the target lacks the parent, btrfs send is content.
    if code and code > 0 and "Broken pipe" not in complaint:
        raise BtrfsError(f"sending {name}", complaint)
    if problem:
        raise problem
    if code != 0:
        raise HostError(f"sending {name}: btrfs send was ended", "run it again")
