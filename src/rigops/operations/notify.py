"""Whom a host tells of its troubles: a program for all units of rigops there, and its target."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rigops.hostside.packing import installed_at
from rigops.operations.owned_files import owned_file, owned_program

if TYPE_CHECKING:
    from collections.abc import Mapping

PROGRAM: Final = installed_at("notify")
TARGET: Final = "/etc/rigops/notify"
# For the `taken_back` of the concern: nobody else has anything in that folder.
ABSENCE: Final[Mapping[str, str]] = {TARGET: "rmdir /etc/rigops 2>/dev/null || :"}

_ROOT_ONLY: Final = 0o600


def notify(*, concern: str, target: str | None) -> None:
    """Have this command or URL told of troubles. None: a ``taken_back`` of the concern ends it.

    A file has one owner, so only one concern may have this, whoever calls the program.
    """
    if target is None:
        return
    kind = "url" if target.startswith(("http://", "https://")) else "command"
    owned_program(name=PROGRAM, concern=concern, program="notify")
    owned_file(
        name=TARGET,
        concern=concern,
        path=TARGET,
        content=f"{kind}\n{target}\n",
        mode=_ROOT_ONLY,
    )
