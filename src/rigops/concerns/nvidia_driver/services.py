"""What belongs to an installed driver: the hook for new kernels, and the persistence daemon.

The hook reports a new kernel that was installed without the pinned NVIDIA module.

NVIDIA's daemon is started at boot with persistence on, as each distribution needs it. Debian's unit
does so when it is installed. Ubuntu's is started by udev, switches persistence off and has no
[Install] section, so that it cannot be enabled: there it takes a drop-in. NVIDIA's own installer
brings the program, and no unit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rigops.hostside.packing import MODE, installed_at
from rigops.ownership.owned_files import owned_file, owned_program
from rigops.rendering import render

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rigops.concerns.nvidia_driver.resolver.machine import Machine

PROGRAM: Final = installed_at("kernel_hook")
# Before dkms in the order of run-parts: of hooks after one that fails, none is run.
HOOKS: Final = (
    "/etc/kernel/postinst.d/00-rigops-nvidia",
    "/etc/kernel/header_postinst.d/00-rigops-nvidia",
)

_UNIT: Final = "nvidia-persistenced.service"
_OWN_UNIT: Final = f"/etc/systemd/system/{_UNIT}"
_DROP_IN: Final = f"{_OWN_UNIT}.d/rigops.conf"
_ENABLED: Final = f"systemctl daemon-reload && systemctl --quiet reenable {_UNIT}"
# The unit may have gone with its package.
_DISABLED: Final = f"systemctl --quiet disable {_UNIT} 2>/dev/null || :; systemctl daemon-reload"
PERSISTENCE_ABSENCE: Final[Mapping[str, str]] = {_OWN_UNIT: _DISABLED, _DROP_IN: _DISABLED}


def kernel_hook(*, concern: str, wanted: bool) -> None:
    """Have every new kernel looked at. Else a ``undo_undeclared`` of the concern ends it.

    It reads the driver's record, and reports by the program of ``notify``.
    """
    if not wanted:
        return
    owned_program(name=PROGRAM, concern=concern, program="kernel_hook")
    content = render("kernel-hook.sh.j2", program=PROGRAM)
    for path in HOOKS:
        owned_file(name=path, concern=concern, path=path, content=content, mode=MODE)


def persistence_daemon(*, concern: str, machine: Machine, by_run_file: bool) -> None:
    """Have it started at every boot. It comes after what brings the program."""
    if by_run_file:
        path, template = _OWN_UNIT, "nvidia-persistenced.service.j2"
    elif machine.distribution == "ubuntu":
        path, template = _DROP_IN, "nvidia-persistenced.conf.j2"
    else:
        return
    owned_file(name=path, concern=concern, path=path, content=render(template), effect=_ENABLED)
