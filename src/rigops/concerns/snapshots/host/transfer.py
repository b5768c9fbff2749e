"""Sends one snapshot to a target, so that it is there whole or not at all."""

from __future__ import annotations

import subprocess
import time
from contextlib import ExitStack, contextmanager, suppress
from typing import TYPE_CHECKING, NamedTuple

from rigops.concerns.snapshots.host.btrfs import BtrfsError, HostError
from rigops.concerns.snapshots.host.names import path_of
from rigops.concerns.snapshots.host.pump import pump

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rigops.concerns.snapshots.host.chain import Transfer
    from rigops.concerns.snapshots.host.output import Output
    from rigops.concerns.snapshots.host.place import LocalPlace, SnapshotCopy
    from rigops.concerns.snapshots.host.remote import RemotePlace

    Place = LocalPlace | RemotePlace

_END_S = 20.0
_RATE_S = 3.0
_IN_USE = "in use by another run"


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


class StreamMeter:
    """`per_s`: of the last seconds."""

    def __init__(self, output: Output, what: str, total: int | None) -> None:
        self._output = output
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
        self._output.progress(self._what, self.done, self._total, self._per_s)


def clear_incomplete(target: Place, folder: str, output: Output) -> None:
    """What an interrupted receive left; of rigops' own names only, and under the target's lock."""
    for one in target.copies(folder):
        if one.is_partial:
            target.delete(folder, one.name)
            output.notice(f"{target.name}: removed {one.name}, which an interrupted run left")
        elif not one.is_complete:
            output.notice(
                f"{target.name}: {one.name} was made writable: it stays, and is no backup any more"
            )


def send_snapshot(
    transfer: Transfer, folder: str, source: Place, target: Place, output: Output
) -> Sent:
    """Against the best parent that the target turns out to have, else in full."""
    theirs = target.copies(folder)
    ours = next(one for one in source.copies(folder) if one.name == transfer.name)
    if any(one.name == ours.name and one.origin != ours.origin for one in theirs):
        raise HostError(
            f"{target.name} has another snapshot with the name {ours.name}",
            "remove the one that is not needed",
        )
    way = _Way(ours, folder, source, target)
    for parent in transfer.parents:
        sent = _send_against(way, parent, output)
        if sent:
            return sent
        output.notice(f"{target.name}: {parent} is damaged or gone there")
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
    is_whole = False
    try:
        _stream(way, parent, meter)
        theirs = [one for one in target.copies(way.folder) if one.name == name]
        is_whole = bool(theirs) and theirs[0].is_complete and theirs[0].origin == origin
        if not is_whole:
            raise HostError(
                f"{target.name}: {name} did not arrive whole, and was removed there", "run it again"
            )
    finally:
        if not is_whole:
            _remove_rest(target, way.folder, name)
    return Sent(name, parent, meter.done, time.monotonic() - began)


def _stream(way: _Way, parent: str, meter: StreamMeter) -> None:
    name = way.ours.name
    with ExitStack() as stack:
        receiver = stack.enter_context(ended(way.target.receive(way.folder)))
        sender = stack.enter_context(ended(way.source.send(way.folder, name, parent)))
        if sender.stdout and receiver.stdin:
            pump(sender.stdout.fileno(), receiver.stdin.fileno(), meter.count)
            sender.stdout.close()  # a sender that nobody reads ends
            receiver.stdin.close()
        sender.wait()
        receiver.wait()
        complaint, said = errors_of(sender), errors_of(receiver)
    # What ended first is the cause. Where the target lacks the parent, btrfs send is content.
    if sender.returncode > 0 and "Broken pipe" not in complaint:
        raise BtrfsError(f"sending {name}", complaint)
    if receiver.returncode != 0:
        raise BtrfsError(f"{way.target.name}: receiving {name}", said)
    if sender.returncode != 0:
        raise HostError(f"sending {name}: btrfs send was ended", "run it again")


@contextmanager
def ended(process: subprocess.Popen[bytes]) -> Iterator[subprocess.Popen[bytes]]:
    """It has ended when this is left, however."""
    try:
        yield process
    finally:
        for pipe in (process.stdin, process.stdout):
            if pipe:
                with suppress(OSError):
                    pipe.close()
        if process.poll() is None:
            process.terminate()
            try:
                process.wait(_END_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        if process.stderr and not process.stderr.closed:
            process.stderr.close()


def errors_of(process: subprocess.Popen[bytes]) -> str:
    """All that it wrote; it has ended."""
    if process.stderr is None:
        return ""
    return process.stderr.read().decode(errors="replace")


def _remove_rest(target: Place, folder: str, name: str) -> None:
    """As far as it can be done now; the next run does it otherwise."""
    end = time.monotonic() + _END_S
    while not _is_removed(target, folder, name) and time.monotonic() < end:
        time.sleep(0.5)


def _is_removed(target: Place, folder: str, name: str) -> bool:
    """Not, as long as a server's receive is about to end."""
    try:
        for one in target.copies(folder):
            if one.name == name and one.is_partial:
                target.delete(folder, name)
    except HostError as error:
        return _IN_USE not in error.message
    return True
