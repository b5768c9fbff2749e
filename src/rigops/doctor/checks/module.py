"""Whether the NVIDIA driver is loaded, and if not, why."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rigops.doctor import views
from rigops.doctor.check import Check
from rigops.doctor.checks import card_drivers, module_build, secure_boot
from rigops.doctor.finding import Evidence, Finding, Fix, fix_by_hand
from rigops.doctor.views import (
    driver_advice,
    driver_state,
    ignored_cards,
    modules_on_disk,
    next_boot,
)
from rigops.probe.sections.bootloader import SECTION as BOOTLOADER
from rigops.probe.sections.dkms import SECTION as DKMS
from rigops.probe.sections.kernel_log import SECTION as KERNEL_LOG
from rigops.probe.sections.nvidia_modinfo import SECTION as NVIDIA_MODINFO
from rigops.probe.sections.nvidia_smi_xml import SECTION as SMI
from rigops.probe.sections.nvidia_version import SECTION as NVIDIA_VERSION
from rigops.probe.sections.packages import SECTION as PACKAGES
from rigops.probe.sections.proc_cmdline import SECTION as PROC_CMDLINE
from rigops.probe.sections.secure_boot import SECTION as SECURE_BOOT
from rigops.probe.sections.uname import SECTION as UNAME

if TYPE_CHECKING:
    from rigops.doctor.examined import Examined

_CAUSES = (
    module_build.missing_now,
    secure_boot.secure_boot.findings,
    card_drivers.nouveau.findings,
    ignored_cards.judge_ignored,
)
NEEDS = (
    UNAME,
    PROC_CMDLINE,
    NVIDIA_VERSION,
    NVIDIA_MODINFO,
    DKMS,
    SECURE_BOOT,
    BOOTLOADER,
    PACKAGES,
    KERNEL_LOG,
    SMI,
)


@Check(
    "drv.loaded",
    needs=NEEDS,
    fixes=("apply+reboot", "hands"),
    cause_rank=80,
    essential=True,
)
def loaded(examined: Examined) -> Finding:
    """The NVIDIA driver is loaded.

    Looks whether /proc/driver/nvidia/version is there, which it is only while the kernel module is
    loaded. Where it was not collected, cards listed by nvidia-smi count instead. A host with a card
    and no driver fails, with the cause that the other evidence names: no module for this kernel,
    Secure Boot, nouveau, a driver that ignores the cards, or nothing installed.
    """
    state = driver_state.loaded(examined)
    if state.is_loaded:
        version = examined.snapshot[NVIDIA_VERSION].or_empty.version
        named = f"the NVIDIA driver{f' {version}' if version else ''}"
        return Finding("ok", f"{named} is loaded", state.evidence)
    cause = cause_of(examined)
    held = [driver_state.bound_to(card) for card in examined.cards]
    is_bound = any(one and one[0] == driver_state.DRIVER for one in held)
    # A module that DKMS has not built may come from another source, for an unknown kernel.
    is_guess = cause is None or (
        cause.id == "drv.dkms" and not next_boot.running(examined.snapshot)
    )
    if state.is_loaded is None and (is_guess or state.evidence or is_bound):
        if examined.snapshot[NVIDIA_VERSION].timed_out:
            summary = "whether a driver is loaded could not be read in time"
        elif state.evidence:
            summary = "/proc/driver/nvidia/version could not be parsed"
        else:
            summary = "whether a driver is loaded was not collected"
        return Finding("unknown", summary, state.evidence)
    if views.gpu_count(examined) is None and not examined.cards and not _is_installed(examined):
        return Finding("unknown", f"{driver_state.NOT_LOADED}; are there NVIDIA GPUs at all?")
    return _missing(examined, cause, state.evidence)


def cause_of(examined: Examined) -> Finding | None:
    """The failure that keeps the driver from being loaded, as far as a check names one."""
    found = (finding for check in _CAUSES for finding in check(examined))
    return next((finding for finding in found if finding.status == "fail"), None)


def _is_installed(examined: Examined) -> bool:
    smi = examined.snapshot[SMI].value
    failed = smi is not None and smi.failure == "no-driver"
    return failed or modules_on_disk.is_anywhere(examined.snapshot) is True


def _missing(examined: Examined, cause: Finding | None, evidence: tuple[Evidence, ...]) -> Finding:
    if cause is not None:
        reason, fix = cause.summary, cause.fix
    else:
        reason, fix = _other_cause(examined)
    cards = [bound[1] for card in examined.cards if (bound := driver_state.bound_to(card))]
    cited = dict.fromkeys((*evidence, *cards[:2], *(cause.evidence[:2] if cause else ())))
    return Finding(
        "fail",
        f"{driver_state.NOT_LOADED}: {reason}",
        tuple(cited),
        why="Without it no program can use the cards, and nvidia-smi fails.",
        fix=fix,
        data={"cause": cause.id} if cause else {},
    )


def _other_cause(examined: Examined) -> tuple[str, Fix]:
    snapshot = examined.snapshot
    on_disk = modules_on_disk.for_running(snapshot, next_boot.running(snapshot)).is_there
    if on_disk:
        return "the module is on disk for this kernel and not loaded", fix_by_hand(
            "`modprobe nvidia`, and read its error; `dmesg | tail` has more, and "
            "`grep -r nvidia /etc/modprobe.d` shows whether it is blacklisted"
        )
    install = driver_advice.by_deploy(
        examined,
        "`rigops apply` installs the driver that is declared, holds it and reboots",
        "install the driver (Debian: nvidia-driver, Ubuntu: `ubuntu-drivers install`; `rigops "
        "drivers` says which branch is good for these cards), reboot, or `modprobe nvidia`",
    )
    if modules_on_disk.is_anywhere(snapshot) is False:
        return "none is installed", install
    return "the cause is not in the collected outputs", install
