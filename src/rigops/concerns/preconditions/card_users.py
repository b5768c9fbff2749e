"""Users of the cards: jobs, desktops, and virtual machines that they are passed through to."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Final

from rigops.concerns.preconditions.words import listed, shortened
from rigops.probe.kernel_arguments import name
from rigops.probe.sections.modprobe import Modprobe
from rigops.probe.sections.pci import Pci
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


_MODULE: Final = "vfio_pci"
_DRIVER: Final = "vfio-pci"
_IDS: Final = frozenset({"vfio-pci.ids", "vfio_pci.ids"})
_OF_THE_IOMMU: Final = frozenset({
    "iommu", "amd_iommu", "intel_iommu", "iommu.passthrough", "iommu.strict", "pcie_acs_override",
})  # fmt: skip


def of_the_iommu(arguments: Iterable[str]) -> tuple[str, ...]:
    return tuple(one for one in arguments if name(one) in _OF_THE_IOMMU)


def warning(because: str, pci: Pci, modprobe: Modprobe, command_line: Iterable[str]) -> str:
    """Empty where no function is passed through, or configured to be. `because`: the change."""
    uses = list(_uses(pci, modprobe, command_line))
    if not uses:
        return ""
    return (
        f"{because} affects virtual machines here too ({'; '.join(uses)}): shut them down first, "
        "and check them afterwards"
    )


def _uses(pci: Pci, modprobe: Modprobe, command_line: Iterable[str]) -> Iterator[str]:
    bound: defaultdict[str, list[str]] = defaultdict(list)
    for one in pci.functions:
        if one.driver == _DRIVER:
            bound["GPU" if one.is_nvidia_gpu else ""].append(one.address)
    if bound:
        every = [f"GPU {address}" for address in bound["GPU"]] + bound[""]
        yield f"{listed(every)} bound to {_DRIVER}"
    for option in modprobe.options:
        if (option.module, option.name) == (_MODULE, "ids") and option.value:
            yield f"{shortened(option.file)} gives {shortened(option.value)} to {_DRIVER}"
    for argument in command_line:
        if name(argument) in _IDS:
            yield f"the kernel runs with {shortened(argument)}"
