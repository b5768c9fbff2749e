"""NVIDIA's persistence daemon, started at boot with persistence on: as each distribution needs it.

Debian's unit does so when it is installed. Ubuntu's is started by udev, switches persistence off
and has no [Install] section, so that it cannot be enabled: there it takes a drop-in.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rigops.operations.owned_files import owned_file
from rigops.rendering import render

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rigops.driver.machine import Machine

_UNIT: Final = "nvidia-persistenced.service"
DROP_IN: Final = f"/etc/systemd/system/{_UNIT}.d/rigops.conf"
_ENABLED: Final = f"systemctl daemon-reload && systemctl --quiet reenable {_UNIT}"
# The unit may have gone with its package.
_DISABLED: Final = f"systemctl --quiet disable {_UNIT} 2>/dev/null || :; systemctl daemon-reload"
ABSENCE: Final[Mapping[str, str]] = {DROP_IN: _DISABLED}


def persistence_daemon(*, concern: str, machine: Machine) -> None:
    """Have it started at every boot. It comes after the packages that bring it."""
    if machine.distribution != "ubuntu":
        return
    owned_file(
        name=DROP_IN,
        concern=concern,
        path=DROP_IN,
        content=render("nvidia-persistenced.conf.j2"),
        effect=_ENABLED,
    )
