"""What a run of plan or apply is asked to do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from rigops.converge.concerns import Selection
    from rigops.converge.lock import Holder
    from rigops.record.lock import LockedHost
    from rigops.spec import RigSpec
    from rigops.transport import HostKeyPolicy, Target


@dataclass(frozen=True)
class Wanted:
    """A host of the inventory, what was declared for it, and what it was proven with."""

    name: str
    target: Target
    data: Mapping[str, object]
    spec: RigSpec
    locked: LockedHost | None = None
    lock: Path | None = None  # the file that says so
    back: bool = False  # to the driver that was proven before the present one


@dataclass(frozen=True, kw_only=True)
class Run:
    """What is the same for all hosts of a run."""

    selection: Selection
    deploys: Sequence[Path]
    host_keys: HostKeyPolicy
    sudo_password: str | None
    holder: Holder
    inventory_digest: str
    at: str
    tell: Callable[[str, str], None]
    allow_busy: bool = False  # interrupt GPU jobs
    upgrade: bool = False  # what is as declared, to a newer version that is too
    remove_foreign_driver: bool = False  # one that came from no package
