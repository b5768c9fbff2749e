"""The questions of a reprovision."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Protocol

from rigops.concerns.concern import HostRequest
from rigops.converge.fleet_run import FleetRun
from rigops.converge.flow import Approver
from rigops.converge.request import RunOptions
from rigops.hosts.parallel import Console
from rigops.reprovision.trust import Introduction


class ReprovisionConsole(Console, Protocol):
    @property
    def can_answer(self) -> bool: ...
    def interruptible(self) -> AbstractContextManager[None]:
        """Ctrl-C is raised where it was entered, also out of a question."""
        ...

    def trusts(self, found: Introduction) -> bool: ...
    def password(self, login: str, *, again: bool) -> str | None: ...
    def fleet_run(
        self, hosts: Sequence[HostRequest], options: RunOptions, /
    ) -> AbstractContextManager[tuple[FleetRun, Approver]]: ...
