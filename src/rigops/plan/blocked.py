"""What blocks a concern on one host: a blocker in the plan, and in apply an error."""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING

from pyinfra.api.command import QuoteString, StringCommand
from pyinfra.api.operation import operation
from pyinfra.context import host as current

from rigops.plan.context import announce_blocked

if TYPE_CHECKING:
    from pyinfra.api.host import Host


def blocked(host: Host, concern: str, reason: str) -> StringCommand:
    """The command to yield: it fails at this host alone, where raising would stop all of them."""
    announce_blocked(host, concern, reason)
    return StringCommand(
        "sh", "-c", QuoteString('echo "$1" >&2; exit 1'), "rigops", QuoteString(reason)
    )


@operation()
def blockers(*, concern: str, reasons: tuple[str, ...]) -> Generator[StringCommand, None, None]:
    """Report them in the plan, and fail at this host where it is carried out all the same."""
    # All before the first is yielded: a plan advances an operation no further.
    yield from [blocked(current, concern, reason) for reason in reasons]
