"""The request of a run of plan or apply."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from rigops.converge.lock import Holder
from rigops.dataclass import dataclass
from rigops.hosts.access import HostAccess

if TYPE_CHECKING:
    from rigops.converge.concerns import Selection

PreflightWhen = Literal["auto", "always", "never"]
RebootWhen = Literal["ask", "auto", "never"]


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """As the command line has it, the same for all hosts. `Consent` has a person's permissions."""

    command: str = "apply"
    selection: Selection
    inventory_digest: str = ""
    access: HostAccess = HostAccess()
    deploys: Sequence[Path] = ()
    holder: Holder = field(default_factory=Holder.of_this_run)
    tell: Callable[[str, str], None] = lambda *_: None
    yes: bool = False  # the plan is confirmed
    reboot: RebootWhen = "ask"
    serial: int = 1  # hosts that are rebooted at the same time
    prune: bool = False  # concerns that nothing declares any more are undone
    allow_busy: bool = False  # interrupt GPU jobs
    accept_no_trial: bool = False  # make kernel arguments permanent that no boot can try first
    force_reboot_wedged: bool = False  # force a host down whose shutdown may block
    upgrade: bool = False  # what is as declared, to a newer version that is too
    remove_foreign_driver: bool = False  # one that came from no package
    keep_holds: bool = False  # of packages, when their concern is undone
    preflight: PreflightWhen = "auto"

    @property
    def at(self) -> str:
        return self.holder.started

    @property
    def withholds_removals(self) -> bool:
        """It plans no undo of undeclared concerns, since it cannot ask."""
        return self.yes and not self.prune
