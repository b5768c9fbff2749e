"""Which of the processes that have a card open are jobs, and which are a desktop."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rigops.concerns.preconditions.words import shortened

if TYPE_CHECKING:
    from rigops.probe.sections.processes import Holder, Processes

# As the kernel has them: 15 characters.
DAEMONS: Final = frozenset({
    "nvidia-persiste", "nvidia-powerd", "nvidia-gridd", "nv-fabricmanage", "nv-hostengine",
    "nvsm_core", "dcgm-exporter",
})  # fmt: skip
DESKTOP: Final = frozenset({
    "Xorg", "Xwayland", "X", "gnome-shell", "gnome-remote-de", "mutter-x11-fram", "gdm-x-session",
    "kwin_x11", "kwin_wayland", "plasmashell", "ksmserver", "sddm", "sddm-greeter", "lightdm",
    "cinnamon", "xfwm4", "sway", "Hyprland", "weston", "cosmic-comp", "budgie-wm", "muffin",
})  # fmt: skip


def jobs(processes: Processes) -> tuple[str, ...] | None:
    """None where the processes could not be read."""
    if processes.holders is None:
        return None
    return tuple(_job(one) for one in processes.holders if one.comm not in DAEMONS | DESKTOP)


def desktops(processes: Processes) -> tuple[str, ...]:
    return tuple(_job(one) for one in processes.holders or () if one.comm in DESKTOP)


def _job(holder: Holder) -> str:
    return f"{shortened(holder.comm)} ({holder.pid})"
