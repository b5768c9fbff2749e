"""Whether the NVIDIA driver is loaded, and if not, why; and which driver holds each card."""

from __future__ import annotations

import re

from rigops.doctor import views
from rigops.doctor.card import Card
from rigops.doctor.check import Check
from rigops.doctor.checks import module_build, secure_boot
from rigops.doctor.examined import Examined
from rigops.doctor.finding import HOST, Evidence, Finding, Fix, Status, fix_by_hand
from rigops.doctor.known_lines import explaining
from rigops.doctor.views import (
    driver_advice,
    driver_state,
    ignored_cards,
    modules_on_disk,
    next_boot,
)
from rigops.probe.sections.bootloader import SECTION as BOOTLOADER
from rigops.probe.sections.dkms import SECTION as DKMS
from rigops.probe.sections.kernel_log import KERNEL_LOG_PREVIOUS
from rigops.probe.sections.kernel_log import SECTION as KERNEL_LOG
from rigops.probe.sections.nvbandwidth import SECTION as NVBANDWIDTH
from rigops.probe.sections.nvidia_modinfo import SECTION as NVIDIA_MODINFO
from rigops.probe.sections.nvidia_smi_xml import SECTION as SMI
from rigops.probe.sections.nvidia_version import SECTION as NVIDIA_VERSION
from rigops.probe.sections.packages import SECTION as PACKAGES
from rigops.probe.sections.proc_cmdline import SECTION as PROC_CMDLINE
from rigops.probe.sections.secure_boot import SECTION as SECURE_BOOT
from rigops.probe.sections.uname import SECTION as UNAME

NEEDS = (
    UNAME,
    PROC_CMDLINE,
    NVIDIA_VERSION,
    NVIDIA_MODINFO,
    DKMS,
    SECURE_BOOT,
    BOOTLOADER,
    PACKAGES,
    KERNEL_LOG_PREVIOUS,
    KERNEL_LOG,
    SMI,
)

_RIVALS = frozenset({"nouveau", "nova", "nova_core", "nova-core", "NovaCore", "nvidiafb", "rivafb"})
_PASSTHROUGH = frozenset({"vfio-pci", "vfio_pci", "pci-stub", "pciback", "xen-pciback"})
_IDS = "its id out of vfio-pci.ids"
_OF_XEN = "its address out of xen-pciback.hide (under Qubes, rd.qubes.hide_pci)"
_GIVEN_BY = {
    "pci-stub": "its id out of pci-stub.ids",
    "pciback": _OF_XEN,
    "xen-pciback": _OF_XEN,
}
_NOT_PROBED = re.compile(r"NVRM: The NVIDIA probe routine was not called for [0-9]+ device")
_BLACKLIST = "/etc/modprobe.d/blacklist-nouveau.conf"


@Check(
    "drv.loaded",
    needs=(*NEEDS, NVBANDWIDTH),
    fixes=("apply+reboot", "hands"),
    cause_rank=85,
    essential=True,
)
def loaded(examined: Examined) -> Finding:
    """The NVIDIA driver is loaded.

    Looks whether /proc/driver/nvidia/version is there, which it is only while the kernel module is
    loaded. Where it was not collected, cards listed by nvidia-smi count instead, or the driver that
    nvbandwidth names. A host with a card
    and no driver fails, with the cause that the other evidence names: no module for this kernel,
    Secure Boot, nouveau, a driver that ignores the cards, or nothing installed.
    """
    state = driver_state.loaded(examined)
    run = examined.snapshot[NVBANDWIDTH].or_empty
    if state.is_loaded is None and run.driver:  # it copies through the driver
        state = driver_state.Loaded(
            is_loaded=True, evidence=(Evidence(NVBANDWIDTH.name, run.driver_line),)
        )
    if state.is_loaded:
        version = examined.snapshot[NVIDIA_VERSION].or_empty.version or run.driver
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
    causes = (
        module_build.missing_now,
        secure_boot.secure_boot.findings,
        nouveau.findings,
        ignored_cards.judge_ignored,
    )
    found = (finding for judge in causes for finding in judge(examined))
    failures = (finding for finding in found if finding.status == "fail")
    return next(failures, None) or explaining(examined, "drv.nouveau")


def _is_installed(examined: Examined) -> bool:
    smi = examined.snapshot[SMI].value
    failed = smi is not None and smi.failure == "no-driver"
    return failed or modules_on_disk.is_anywhere(examined.snapshot) is True


def _missing(examined: Examined, cause: Finding | None, evidence: tuple[Evidence, ...]) -> Finding:
    cause = cause or explaining(examined, "drv.dkms", "drv.secureboot", least="warn")
    cause = cause or explaining(examined, "bar1.size")
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


@Check("drv.nouveau", needs=(PACKAGES, KERNEL_LOG), fixes=("apply+reboot", "hands"), cause_rank=30)
def nouveau(examined: Examined) -> Finding | list[Finding]:
    """The cards are bound to NVIDIA's driver.

    Looks at the kernel driver that is bound to each card (the driver link in sysfs, or lspci);
    where that is not known, known lines tell. nouveau or nova on a card is a failure: NVIDIA's
    driver cannot use it then. vfio-pci is a warning: it gives a card to a virtual machine, and may
    be intended; in a paste that asks nvidia-smi nothing it is information. drv.loaded judges a card
    without a driver.
    """
    held = [(card, driver_state.bound_to(card)) for card in examined.cards]
    found = [_judge_card(examined, card, *one) for card, one in held if one and one[0]]
    taken = [one for one in found if one]
    if taken:
        return taken
    is_sure = views.sees_all_driven(examined) and len(held) == views.gpu_count(examined)
    if any(one is None for _, one in held) or not is_sure:
        return Finding("unknown", "which driver holds each card could not be read")
    free = [card for card, one in held if one and not one[0]]
    if free:
        return _held_by_none(examined, free)
    lines = tuple(one[1] for _, one in held if one)
    return Finding("ok", "the NVIDIA driver holds every card", lines[:1])


def _judge_card(examined: Examined, card: Card, driver: str, evidence: Evidence) -> Finding | None:
    if driver == driver_state.DRIVER:
        return None
    if driver in _PASSTHROUGH:
        bundle = examined.snapshot.bundle
        is_meant = bundle.paste is not None and SMI.name not in bundle.sections
        return Finding(
            "info" if is_meant else "warn",
            f"{card.name} is held by {driver}",
            (evidence,),
            subject=card.subject,
            why="That is how a card is kept free for a virtual machine. If this is intended, "
            "leave it; programs on this host cannot use the card.",
            fix=fix_by_hand(
                "if no virtual machine shall have the card, take "
                f"{_GIVEN_BY.get(driver, _IDS)} (kernel command line, /etc/modprobe.d), rebuild "
                "the initramfs and reboot"
            ),
        )
    status: Status = "fail" if driver in _RIVALS else "warn"
    return _taken_card(
        examined, status, f"{card.name} is held by {driver}", card.subject, (evidence,)
    )


def _taken_card(
    examined: Examined, status: Status, summary: str, subject: str, evidence: tuple[Evidence, ...]
) -> Finding:
    return Finding(
        status,
        summary,
        evidence,
        subject=subject,
        why="Only one driver can hold a card, and the first to come keeps it. nouveau computes "
        "nothing: CUDA needs NVIDIA's.",
        fix=driver_advice.by_deploy(
            examined,
            "`rigops apply` keeps nouveau from being loaded, rebuilds the initramfs and reboots",
            f"write `blacklist nouveau` and `options nouveau modeset=0` to {_BLACKLIST}, run "
            "`update-initramfs -u` (elsewhere `dracut -f` or `mkinitcpio -P`) and reboot; without "
            "the reboot the card stays where it is",
        ),
    )


def _held_by_none(examined: Examined, free: list[Card]) -> Finding:
    not_probed = driver_state.logged(examined.snapshot, _NOT_PROBED)
    if not_probed:
        lines = driver_state.cited(not_probed, 1)
        return _taken_card(examined, "fail", "another driver has taken a card", HOST, lines)
    names = ", ".join(card.address for card in free)
    return Finding("skipped", f"no driver at all holds {names}")
