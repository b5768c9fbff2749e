"""An apply on many hosts: those at once that need no reboot, the others a few at a time.

The first host that is rebooted is the canary: when it does not come through, no other is rebooted.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

import gevent

from rigops.converge.engine import Engine
from rigops.converge.rig import Rig
from rigops.converge.troubles import SameMachineError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence

    from rigops.converge.agreement import Agreement
    from rigops.converge.result import HostResult
    from rigops.converge.wanted import Run, Wanted


class Apply:
    def __init__(self, hosts: Sequence[Wanted], run: Run) -> None:
        engine = Engine({one.name: one.data for one in hosts})
        self._rigs = [Rig(one, run, engine) for one in hosts]
        self._tell = run.tell

    @property
    def results(self) -> list[HostResult]:
        return [rig.result for rig in self._rigs]

    @property
    def rigs(self) -> Sequence[Rig]:
        return self._rigs

    def plan(self) -> None:
        """Reach every host and see what is to be done. Touches nothing."""
        _at_once(self._rigs, lambda rig: rig.plan())
        self._refuse_twins()

    def mend(self, names: Collection[str]) -> None:
        """At these hosts the package manager finishes what it began; the plan is made for that."""
        _at_once([rig for rig in self._working() if rig.wanted.name in names], Rig.mend)

    def agree(self, agreement: Agreement) -> None:
        for rig in self._working():
            with rig.trouble_is_its_own():
                rig.agree(agreement)

    def carry_out(self, agreement: Agreement) -> None:
        """Everything that follows consent."""
        _at_once(self._working(), lambda rig: rig.renew())
        going = [rig for rig in self._working() if rig.can_act]
        for rig in self._working():
            if not rig.can_act:
                rig.result.outcome = "refused"
        _at_once(going, lambda rig: rig.change())
        to_restart = [rig for rig in going if rig.wanted.name in agreement.reboots]
        to_restart = [rig for rig in to_restart if rig.result.outcome == "reboot_owed"]
        others = [rig for rig in going if rig not in to_restart]
        _at_once(others, lambda rig: _finish(rig, agreement))
        self._restart([rig for rig in to_restart if not rig.wanted.target.local], agreement)
        # This machine last: it takes the run with it.
        here = [rig for rig in to_restart if rig.wanted.target.local]
        _at_once(here, lambda rig: _restart(rig, agreement))

    def forget(self) -> dict[str, Sequence[bytes]]:
        """Leave nothing of rigops' own; the journals of the hosts by their names."""
        journals: dict[str, Sequence[bytes]] = {}

        def forget(rig: Rig) -> None:
            if rig.result.outcome in {"converged", "changed"}:
                journals[rig.wanted.name] = rig.forget()

        _at_once(self._working(), forget)
        return journals

    def close(self) -> None:
        for rig in self._rigs:
            rig.close()

    def _restart(self, rigs: Sequence[Rig], agreement: Agreement) -> None:
        waiting = list(rigs)
        canary = None
        while waiting and not (canary and canary.was_restarted):  # one held back tried nothing
            canary = waiting.pop(0)
            _at_once([canary], lambda rig: _restart(rig, agreement))
        if canary is not None and canary.was_restarted and not canary.came_through:
            text = f"not rebooted, since {canary.wanted.name} did not come through its own"
            for rig in waiting:
                rig.result.story.append(text)
            _at_once(waiting, lambda rig: _finish(rig, agreement))
            return
        for start in range(0, len(waiting), agreement.at_once):
            batch = waiting[start : start + agreement.at_once]
            _at_once(batch, lambda rig: _restart(rig, agreement))

    def _refuse_twins(self) -> None:
        """Two names for one machine: each would undo what the other declares."""
        same: defaultdict[str, list[Rig]] = defaultdict(list)
        for rig in self._working():
            if rig.boot_id:
                same[rig.boot_id].append(rig)
        for twins in same.values():
            names = " and ".join(rig.wanted.name for rig in twins)
            for rig in twins if len(twins) > 1 else ():
                rig.fail(SameMachineError(names))

    def _working(self) -> list[Rig]:
        return [rig for rig in self._rigs if rig.result.error is None]


def _restart(rig: Rig, agreement: Agreement) -> None:
    rig.restart(agreement)
    _finish(rig, agreement)


def _finish(rig: Rig, agreement: Agreement) -> None:
    rig.prove(agreement.preflight)
    rig.record()


def _at_once(rigs: Iterable[Rig], work: Callable[[Rig], None]) -> None:
    """In a greenlet each; an interrupt ends them all, each in a stage that has a name."""

    def one(rig: Rig) -> None:
        with rig.trouble_is_its_own():
            if rig.result.error is None:
                work(rig)

    working = {gevent.spawn(one, rig): rig for rig in rigs}
    try:
        gevent.joinall(list(working))
    except KeyboardInterrupt:
        for greenlet, rig in working.items():
            if not greenlet.dead:
                rig.interrupted()
        gevent.killall(list(working), block=False)
        raise
