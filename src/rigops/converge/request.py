"""What a run of plan or apply is asked to do, and what was confirmed once the plan was shown."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from rigops.dataclass import dataclass

if TYPE_CHECKING:
    from rigops.converge.concerns import Selection
    from rigops.converge.lock import Holder
    from rigops.transport import HostKeyPolicy

PreflightWhen = Literal["auto", "always", "never"]


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """What is the same for all hosts of a run."""

    selection: Selection
    deploys: Sequence[Path]
    host_keys: HostKeyPolicy
    sudo_password: str | None
    holder: Holder
    inventory_digest: str
    at: str
    tell: Callable[[str, str], None]
    command: str = "apply"
    allow_busy: bool = False  # interrupt GPU jobs
    upgrade: bool = False  # what is as declared, to a newer version that is too
    remove_foreign_driver: bool = False  # one that came from no package
    keep_holds: bool = False  # of packages, when their concern is undone
    withholds_removals: bool = False  # plans for no concern to be undone that nothing declares
    preflight: PreflightWhen = "auto"


@dataclass(frozen=True, kw_only=True)
class Confirmed:
    """What a person confirmed. `removals`: concerns that nothing declares any more are undone."""

    removals: bool = False
    reboots: frozenset[str] = frozenset()  # hosts
    busy: bool = False  # interrupt GPU jobs
    wedged: bool = False  # force a host down whose shutdown may block
    no_trial: bool = False  # make kernel arguments permanent that no boot can try first
    at_once: int = 1  # hosts that are rebooted at the same time
