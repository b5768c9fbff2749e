"""What a person agreed to at a host, apart from the plan.

Under plain pyinfra nobody can agree to anything.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from rigops.operations.change import story

if TYPE_CHECKING:
    from collections.abc import Collection

    from pyinfra.api.host import Host

_AGREED: Final = "rigops_agreed_removals"
_MAY_REPAIR: Final = "rigops_may_repair"


@dataclass(frozen=True, kw_only=True)
class Consent:
    """`repair`: a package manager that was interrupted; `interrupt`: jobs on the GPUs."""

    repair: bool = False
    interrupt: bool = False


def agree(host: Host, concerns: Collection[str] | None) -> None:
    """None: to every removal, so that a plan shows them all."""
    host.connector_data[_AGREED] = concerns


def may_undo(host: Host, concern: str, paths: Collection[str]) -> bool:
    """Say that these are to go. A group file that was lost must not undo what it declared."""
    story(host).undeclared[concern] = tuple(sorted(paths))
    agreed: Collection[str] | None = host.connector_data.get(_AGREED, ())
    return agreed is None or concern in agreed


def let_repair(host: Host, *, allowed: bool) -> None:
    """Whether a package manager that was interrupted is first to finish what it began."""
    host.connector_data[_MAY_REPAIR] = allowed


def may_repair(host: Host) -> bool:
    return bool(host.connector_data.get(_MAY_REPAIR, False))
