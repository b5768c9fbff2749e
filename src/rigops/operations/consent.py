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
_GIVEN: Final = "rigops_consent"


@dataclass(frozen=True, kw_only=True)
class Consent:
    """What a person allows beside the plan itself; nothing of it is implied by agreeing to that."""

    repair: bool = False  # of a package manager that was interrupted
    interrupt: bool = False  # jobs on the GPUs
    upgrade: bool = False  # of what is as declared, to a newer version that is too
    uninstall: bool = False  # of a driver that came from no package


def give(host: Host, consent: Consent) -> None:
    host.connector_data[_GIVEN] = consent


def given(host: Host) -> Consent:
    consent: Consent = host.connector_data.get(_GIVEN, Consent())
    return consent


def agree(host: Host, concerns: Collection[str] | None) -> None:
    """None: to every removal, so that a plan shows them all."""
    host.connector_data[_AGREED] = concerns


def may_undo(host: Host, concern: str, paths: Collection[str]) -> bool:
    """Say that these are to go. A group file that was lost must not undo what it declared."""
    told = story(host).undeclared
    told[concern] = tuple(sorted({*told.get(concern, ()), *paths}))
    agreed: Collection[str] | None = host.connector_data.get(_AGREED, ())
    return agreed is None or concern in agreed
