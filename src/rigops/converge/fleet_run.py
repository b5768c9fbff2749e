"""An apply on many hosts: those at once that need no reboot, the others a few at a time.

The first host that is rebooted is the canary: when it does not come through, no other is rebooted.
"""

from __future__ import annotations

import signal
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

import gevent

from rigops.concerns.concern import HostRequest
from rigops.converge.engine import Engine
from rigops.converge.errors import SameMachineError
from rigops.converge.host_run import HostRun
from rigops.converge.request import RunOptions
from rigops.converge.result import HostResult

if TYPE_CHECKING:
    from typing_extensions import Self  # from Python 3.11 on in typing


class FleetRun:
    def __init__(
        self,
        hosts: Sequence[HostRequest],
        options: RunOptions,
        make: Callable[[HostRequest, RunOptions, Engine], HostRun] = HostRun,
    ) -> None:
        engine = Engine({one.name: one.data for one in hosts})
        for one in hosts:
            engine.provide(one.name, one.spec)
        self.options = options
        self.runs = [make(one, options, engine) for one in hosts]

    @property
    def results(self) -> list[HostResult]:
        return [run.result for run in self.runs]

    def plan(self) -> None:
        """Reach every host and see what is to be done. Touches nothing."""
        _at_once(self.runs, lambda run: run.plan())
        self._refuse_twins()

    def repair(self, names: Collection[str]) -> None:
        """At these hosts the package manager finishes what it began; the plan is made for that."""
        _at_once([run for run in self._working() if run.request.name in names], HostRun.repair)

    def confirm(self, *, removals: bool, no_trial: bool) -> None:
        for run in self._working():
            with run.keep_errors():
                run.confirm(removals=removals, no_trial=no_trial)

    def carry_out(self, reboots: Collection[str]) -> None:
        """Everything that follows consent. `reboots`: of these hosts."""
        _at_once(self._working(), lambda run: run.renew())
        going = [run for run in self._working() if run.can_act]
        for run in self._working():
            if not run.can_act:
                run.result.outcome = "refused"
        _at_once(going, lambda run: run.change())
        to_restart = [run for run in going if run.request.name in reboots]
        to_restart = [run for run in to_restart if run.result.outcome == "reboot_owed"]
        others = [run for run in going if run not in to_restart]
        _at_once(others, _finish)
        self._restart([run for run in to_restart if not run.request.target.local])
        # This machine last: it takes the run with it.
        here = [run for run in to_restart if run.request.target.local]
        _at_once(here, _restart)

    def forget(self, keep: Callable[[str, Sequence[bytes]], None]) -> None:
        """Leave nothing of rigops' own. `keep` gets each host's name and journal before that."""

        def forget(run: HostRun) -> None:
            if run.result.outcome in {"converged", "changed"}:
                run.forget(partial(keep, run.request.name))

        _at_once(self._working(), forget)

    def close(self) -> None:
        for run in self.runs:
            run.close()

    def _restart(self, runs: Sequence[HostRun]) -> None:
        waiting = list(runs)
        canary = None
        while waiting and not (canary and canary.was_rebooted):  # a refused one proved nothing
            canary = waiting.pop(0)
            _at_once([canary], _restart)
        if canary is not None and canary.was_rebooted and not canary.came_through:
            name = canary.request.name
            has_failed = canary.result.has_failed_proof
            failed = "failed its proof" if has_failed else "did not come through its own"
            for run in waiting:
                run.result.waits_for = name
                run.result.story.append(f"not rebooted, since {name} {failed}")
            _at_once(waiting, _finish)
            return
        for start in range(0, len(waiting), self.options.serial):
            _at_once(waiting[start : start + self.options.serial], _restart)

    def _refuse_twins(self) -> None:
        """Two names for one machine: each would undo what the other declares."""
        same: defaultdict[str, list[HostRun]] = defaultdict(list)
        for run in self._working():
            if run.boot_id:
                same[run.boot_id].append(run)
        for twins in same.values():
            names = " and ".join(run.request.name for run in twins)
            for run in twins if len(twins) > 1 else ():
                run.fail(SameMachineError(names))

    def _working(self) -> list[HostRun]:
        return [run for run in self.runs if run.result.error is None]


def _restart(run: HostRun) -> None:
    run.restart()
    _finish(run)


def _finish(run: HostRun) -> None:
    run.prove()
    run.record()


def _at_once(runs: Iterable[HostRun], work: Callable[[HostRun], None]) -> None:
    """In a greenlet each; an interrupt ends them all, each in a stage that has a name."""

    def one(run: HostRun) -> None:
        with run.keep_errors():
            if run.result.error is None:
                work(run)

    working = {gevent.spawn(one, run): run for run in runs}
    try:
        gevent.joinall(list(working))
    except KeyboardInterrupt:
        for greenlet, run in working.items():
            if not greenlet.dead:
                run.interrupted()
        gevent.killall(list(working), block=False)
        raise


class Interrupts:
    """While it is entered, Ctrl-C is raised in the greenlet that entered it.

    Python would raise it in whichever runs at that moment. A worker that keeps what comes of its
    work, a thread of paramiko's or the one that draws progress would take it for its own, and the
    user's wish would be lost.
    """

    def __enter__(self) -> Self:
        self._receiver = gevent.getcurrent()
        self._asking: object = None
        self._before = signal.signal(signal.SIGINT, self._interrupted)
        return self

    def __exit__(self, *_: object) -> None:
        signal.signal(signal.SIGINT, self._before)

    def _interrupted(self, *_: object) -> None:
        now = gevent.getcurrent()
        if now is not self._receiver:
            gevent.kill(self._receiver, KeyboardInterrupt)
            if now is not self._asking:
                return
        raise KeyboardInterrupt

    @contextmanager
    def end_the_question(self) -> Iterator[None]:
        """Waiting for an answer blocks gevent: Ctrl-C is raised there too."""
        self._asking = gevent.getcurrent()
        try:
            yield
        finally:
            self._asking = None
