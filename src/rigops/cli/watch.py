"""`rigops doctor --watch`: hosts watched until Ctrl-C."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Final, Protocol

import click

from rigops.cli.hosts import host_catalog
from rigops.cli.output import text_width
from rigops.doctor.host_report import exit_code, worst
from rigops.doctor.watch.seen import HostSeen
from rigops.doctor.watch.stream import Stream
from rigops.hosts.access import Chosen, HostAccess
from rigops.hosts.watching import Heard, Watching, WatchOptions
from rigops.record.journal import now
from rigops.report.terminal import print_lines, print_text, visible
from rigops.report.watch import (
    head_line,
    news_line,
    sample_document,
    sample_lines,
    summary_document,
    summary_lines,
)

_TOLD: Final = ("fail", "warn")


class View(Protocol):
    """`show`: a host that has a new sample or error. `draw`: after each, and as time passes."""

    def show(self, seen: HostSeen, at: str) -> None: ...
    def draw(self, elapsed_s: float, age: Callable[[str], float | None]) -> None: ...
    def silent(self) -> AbstractContextManager[None]: ...


class Watched:
    """The hosts as they were seen, fed with the lines that they print."""

    def __init__(self, chosen: Sequence[Chosen], seconds: int) -> None:
        self._seconds = seconds
        self._streams: dict[str, Stream] = {}
        self._heard_at: dict[str, float] = {}
        self.began = time.monotonic()
        self.hosts = {
            one.name: HostSeen(one.name, one.spec, host_catalog(one.spec)) for one in chosen
        }

    def take(self, heard: Heard, at: str) -> HostSeen | None:
        """The host, where there is something new to show."""
        seen = self.hosts[heard.host]
        if heard.is_new:
            self._streams[heard.host] = Stream(self._seconds)
            self._heard_at[heard.host] = time.monotonic()
        elif heard.error:
            seen.lose(heard.error, is_over=heard.is_over)
            return seen
        elif sample := self._streams[heard.host].take(heard.line):
            seen.take(sample, at)
            self._heard_at[heard.host] = time.monotonic()
            return seen
        return None

    def age(self, host: str) -> float | None:
        """Since it was heard of last."""
        at = self._heard_at.get(host)
        return None if at is None else time.monotonic() - at

    @property
    def elapsed_s(self) -> float:
        return time.monotonic() - self.began


def watch(
    chosen: Sequence[Chosen],
    access: HostAccess,
    seconds: int,
    *,
    root: bool,
    as_json: bool,
    strict: bool,
) -> int:
    """Until Ctrl-C or TERM; the exit code is of the worst that was seen."""
    watched = Watched(chosen, seconds)
    with _view(watched, seconds, as_json=as_json) as view:
        options = WatchOptions(access=access.asking(view.silent), seconds=seconds, root=root)
        watching = Watching(chosen, options)
        try:
            with _ended_by_term():
                for heard in watching.heard():
                    seen = watched.take(heard, now()) if heard else None
                    if seen:
                        view.show(seen, now())
                    if seen or not heard:
                        view.draw(watched.elapsed_s, watched.age)
        except KeyboardInterrupt:
            pass
        for heard in watching.end():
            watched.take(heard, now())
        elapsed_s = watched.elapsed_s
    hosts = list(watched.hosts.values())
    statuses = [one.status for one in hosts]
    if as_json:
        print_text(json.dumps(summary_document(hosts, now(), elapsed_s, worst(statuses))))
    else:
        print_lines("", *summary_lines(hosts, elapsed_s, text_width()))
    return exit_code(statuses, strict=strict)


class _Lines:
    """A line for each card and sample, or a document for each sample; what is wrong on stderr."""

    def __init__(self, hosts: Iterable[str], *, as_json: bool) -> None:
        self._as_json = as_json
        self._widest = max(len(visible(one)) for one in hosts)
        self._told: set[tuple[str, str, str, str]] = set()
        if not as_json:
            print_lines(head_line(self._widest))

    def show(self, seen: HostSeen, at: str) -> None:
        if self._as_json:
            print_text(json.dumps(sample_document(seen, at)))
        else:
            print_lines(*sample_lines(seen, at, self._widest))
        for one in seen.now:
            key = (seen.host, one.id, one.subject, one.status)
            if one.status in _TOLD and key not in self._told:
                self._told.add(key)
                print_lines(news_line(seen.host, at, one), err=True)

    def draw(self, elapsed_s: float, age: Callable[[str], float | None]) -> None:
        """Nothing: lines show what comes."""

    def silent(self) -> AbstractContextManager[None]:
        return nullcontext()


@contextmanager
def _view(watched: Watched, seconds: int, *, as_json: bool) -> Iterator[View]:
    if as_json or not _can_draw():
        yield _Lines(watched.hosts, as_json=as_json)
        return
    from rigops.report.watch_screen import Screen

    with Screen(list(watched.hosts.values()), seconds) as screen:
        yield screen


def _can_draw() -> bool:
    is_plain = click.get_current_context().color is False
    return sys.stdout.isatty() and not is_plain and os.environ.get("TERM", "dumb") != "dumb"


@contextmanager
def _ended_by_term() -> Iterator[None]:
    """As `timeout 60 rigops …` ends it."""

    def end(*_: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
