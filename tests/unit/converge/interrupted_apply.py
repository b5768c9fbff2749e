"""An apply on two hosts that gets SIGINT at one point.

SIGINT is raised in the greenlet that has come to the point, which is where Python would raise its
own exception.
"""

from __future__ import annotations

import signal
import sys
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import click
import gevent

from rigops.cli import apply_common, terminal
from rigops.concerns.concern import HostRequest
from rigops.converge.flow import apply
from rigops.converge.host_run import HostRun
from rigops.converge.request import RunOptions, Selection
from rigops.converge.result import HostResult
from rigops.inventory.spec import RigSpec
from rigops.report.terminal import print_lines, redraw
from rigops.transport import Target

if TYPE_CHECKING:
    from collections.abc import Callable
    from threading import Event

    from rigops.cli.terminal import Progress
    from rigops.converge.session import HostSession

POINTS = (
    "drawing",
    "connecting",
    "waiting for a host",
    "between stages",
    "while a worker asks",
    "drawing beside a question",
    "swallowed by a host",
    "in the hub",
    "in a thread",
)
LONG_S = 60


class Interruption:
    """Raised once, by whoever comes to the point; then nothing goes on by itself."""

    def __init__(self, point: str) -> None:
        self._point = point
        self.is_over = False

    def at(self, point: str) -> None:
        if point == self._point and not self.is_over:
            self.is_over = True
            signal.raise_signal(signal.SIGINT)


@dataclass
class Fake(HostRun):
    name: str
    interruption: Interruption
    told: RunOptions
    result: HostResult = field(init=False)

    def __post_init__(self) -> None:
        self.request = HostRequest(self.name, Target(name=self.name), {}, RigSpec())
        self.result = HostResult(self.name)
        self._enter("connect")

    def _enter(self, stage: str) -> None:
        now = SimpleNamespace(touched=True, stage_now=stage, rebooted=False, tell=lambda _: None)
        self._session = cast("HostSession", now)
        self.told.tell(self.name, stage)

    @property
    def boot_id(self) -> str:
        return self.name

    def _at(self, point: str) -> None:
        if self.name == "one":
            self.interruption.at(point)

    def plan(self) -> None:
        self._at("connecting")
        gevent.sleep(0)

    def renew(self) -> None: ...

    def confirm(self, *, removals: bool, no_trial: bool) -> None:
        self._at("between stages")

    def change(self) -> None:
        self._enter("execute")
        self._at("waiting for a host")
        with suppress(BaseException):  # as work that keeps whatever comes of it
            self._at("swallowed by a host")
        gevent.sleep(LONG_S)

    def close(self) -> None: ...


def main(point: str) -> None:
    """To be called once gevent has replaced the standard library."""
    with click.Context(click.Command("apply")):
        _apply(point)


def _apply(point: str) -> None:
    interruption = Interruption(point)
    sys.stderr.isatty = lambda: True  # type: ignore[method-assign]  # the terminal of this test

    def drawn(line: str, width: int) -> None:
        redraw(line, width)
        if line:
            interruption.at("drawing")

    terminal.redraw = drawn  # type: ignore[attr-defined]  # what draws

    def made(request: HostRequest, options: RunOptions, _: object) -> HostRun:
        return Fake(request.name, interruption, options)

    hosts = [HostRequest(name, Target(name=name), {}, RigSpec()) for name in ("one", "two")]
    options = RunOptions(selection=Selection(), yes=True, reboot="never")
    with apply_common.fleet_run(hosts, options, made) as (run, screen):
        _arrange(point, interruption, screen.progress)
        ending = apply(run, screen)
        for result in run.results:
            print_lines(f"{result.host}: {result.outcome}; {'; '.join(result.story)}")
    sys.exit(130 if ending.is_interrupted else 1)


def _arrange(point: str, interruption: Interruption, shown: Progress) -> None:
    """What comes to its point by itself."""
    if point == "in the hub":
        loop = gevent.get_hub().loop
        gevent.spawn_later(0.01, loop.run_callback, interruption.at, point)
    elif point == "in a thread":
        gevent.spawn_later(0.01, interruption.at, point)
    elif point == "while a worker asks":
        gevent.spawn_later(0.01, _ask, shown, partial(interruption.at, point))
    elif point == "drawing beside a question":
        over = shown._over

        def waited(seconds: float) -> bool:
            if not interruption.is_over:
                gevent.spawn(_ask, shown, partial(gevent.sleep, LONG_S))
            is_over = over.wait(seconds)
            interruption.at(point)
            return is_over

        shown._over = cast("Event", SimpleNamespace(wait=waited, set=over.set))


def _ask(shown: Progress, answer: Callable[[], object]) -> None:
    with suppress(KeyboardInterrupt), shown.silent():
        answer()
