"""A host while it is worked on: its connection, its lock, and what was last seen there."""

from __future__ import annotations

import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from rigops.converge import occupants, seeing
from rigops.converge.connector import Seat
from rigops.converge.keeping import shelf
from rigops.converge.lock import take, work_argv
from rigops.converge.reboot import order_only, reboot
from rigops.converge.result import Stage
from rigops.converge.troubles import DeployError
from rigops.transport import HostKeyPolicy, Privilege, TransportError, connect, with_password

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rigops.converge.engine import Engine
    from rigops.converge.lock import Lock
    from rigops.converge.occupants import Occupants
    from rigops.converge.result import HostResult
    from rigops.converge.seeing import Sight
    from rigops.converge.wanted import Run, Wanted
    from rigops.transport import Connection

REBOOT_TIMEOUT_S: Final = 900
_LOCK_S: Final = 600.0
_LAST_RESORT_S: Final = 120.0
_ANSWER_S: Final = 20.0

# Root where the login is root, else sudo: decided on the host, without a question to it first.
_FREE: Final = Privilege(
    "free",
    (
        "sh",
        "-c",
        'if [ "$(id -u)" = 0 ]; then exec "$@"; else exec sudo -n -- "$@"; fi',
        "rigops",
    ),
)


class Visit:
    def __init__(self, wanted: Wanted, run: Run, engine: Engine, result: HostResult) -> None:
        self.wanted = wanted
        self.touched = False
        self.stage_now = ""
        self._run = run
        self._engine = engine
        self._result = result
        self._privilege = _FREE
        self._connection: Connection | None = None
        self._seat: Seat | None = None
        self._sight: Sight | None = None
        self._lock: Lock | None = None
        self._began = self._looked_at = time.monotonic()

    @property
    def seconds(self) -> float:
        return time.monotonic() - self._began

    @property
    def since_look_s(self) -> float:
        return time.monotonic() - self._looked_at

    @property
    def sight(self) -> Sight | None:
        return self._sight

    @property
    def seen(self) -> Sight:
        if self._sight is None:
            raise DeployError("the host was not looked at")
        return self._sight

    @property
    def connection(self) -> Connection:
        if self._connection is None:
            raise DeployError("the host was not reached")
        return self._connection

    @property
    def seat(self) -> Seat:
        if self._seat is None:
            raise DeployError("the host was not looked at")
        return self._seat

    @property
    def reboot_timeout_s(self) -> float:
        return self.wanted.spec.reboot_timeout or REBOOT_TIMEOUT_S

    def reach(self) -> None:
        self._reach(self._run.host_keys)

    def keep_in_touch(self) -> None:
        try:
            self.connection.run(["true"], deadline_s=_ANSWER_S)
        except TransportError:
            self.connection.close()
            with self.stage("reach"):
                self._reach(HostKeyPolicy())

    def look(self) -> None:
        seat = Seat(self.connection, self._privilege, work_argv, tell=self.tell)
        name = self.wanted.name
        concerns = [path.stem for path in self._run.deploys]
        sight = seeing.look(self.connection, self._privilege, concerns, self.wanted.spec)
        seat.memo.seed_files(sight.paths, sight.files)
        self._engine.attach(name, seat, sight.known)
        self._engine.bring(name, shelf(self.wanted))
        self._seat, self._sight = seat, sight
        self._looked_at = time.monotonic()

    def see_who_is_there(self) -> Occupants:
        who = occupants.look(self.connection, self._privilege)
        self._result.reboot_hits = who.lines()
        return who

    def order_reboot(self) -> None:
        """Of the machine that this runs on, which ends with it."""
        with self.stage("reboot"):
            order_only(self.connection, self._privilege)

    def reboot(self, who: Occupants, patience_s: float) -> None:
        with self.stage("reboot"):
            self._connection = reboot(
                self.connection,
                self.wanted.target,
                self._privilege,
                deadline_s=patience_s,
                waiting=lambda _: self.tell("reboot, waiting for it to come back"),
                last_resort_s=min(_LAST_RESORT_S, self.reboot_timeout_s / 3)
                if who.wedged
                else None,
            )

    def take_lock(self) -> None:
        if self._lock is not None and self._lock.held:
            return
        self._lock = take(
            self.connection,
            self._privilege,
            self._run.holder,
            tell=self.tell,
            deadline_s=_LOCK_S,
        )
        if self._lock.notice:
            self._result.story.append(self._lock.notice)

    def release(self) -> None:
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()

    def tell(self, text: str) -> None:
        self._run.tell(self.wanted.name, text)

    @contextmanager
    def stage(self, stage: str) -> Iterator[None]:
        self.tell(stage)
        self.stage_now = stage
        began = time.monotonic()
        try:
            yield
        finally:
            self._result.stages.append(Stage(stage, time.monotonic() - began))
        self.stage_now = ""

    def _reach(self, policy: HostKeyPolicy) -> None:
        self._connection = connect(self.wanted.target, host_keys=policy)
        if self._run.sudo_password is not None:
            self._privilege = with_password(self._connection, self._run.sudo_password)
