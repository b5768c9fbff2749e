"""What a trial boot is made of on a host, whichever its bootloader."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from rigops.bootloader.trial_marks import UNIT
from rigops.hostside.packing import MODE, installed_at, pack
from rigops.rendering import render

if TYPE_CHECKING:
    from collections.abc import Mapping

PROGRAM: Final = installed_at("trial")
UNIT_FILE: Final = f"/etc/systemd/system/{UNIT}"
LOG: Final = "/var/lib/rigops/trial.log"
CONFIRMED: Final = "/run/rigops/trial-confirmed"
HEADER: Final = "# Made by rigops for one trial boot, and taken away after it."

_RETRY_S: Final = 10


@dataclass(frozen=True)
class TrialFile:
    content: bytes
    mode: int = 0o644


@dataclass(frozen=True)
class Trial:
    """`arm` and `disarm` are sh. Files are rigops' own, and there before `arm` runs.

    `extra_wait_s`: what the bootloader's menus take, in the trial boot and in the one after it.
    """

    files: Mapping[str, TrialFile]
    arm: str
    disarm: str
    notices: tuple[str, ...] = ()
    extra_wait_s: int = 0


@dataclass(frozen=True)
class NoTrial:
    """`reason`: why this machine cannot try arguments once, to go on with after "since"."""

    reason: str


def watching(deadline_s: int) -> dict[str, TrialFile]:
    """What takes a trial boot back that nobody confirms."""
    unit = render(
        f"{UNIT}.j2",
        header=HEADER,
        program=PROGRAM,
        deadline_s=deadline_s,
        retry_s=_RETRY_S,
        tries=max(1, deadline_s // _RETRY_S),
    )
    return {
        PROGRAM: TrialFile(pack("trial").text.encode(), MODE),
        UNIT_FILE: TrialFile(unit.encode()),
    }
