"""Secure Boot: whether it keeps the driver from being loaded."""

from __future__ import annotations

import re

from rigops.doctor.check import Check
from rigops.doctor.examined import Examined
from rigops.doctor.finding import Evidence, Finding, fix_by_hand
from rigops.doctor.known_lines import known_lines
from rigops.doctor.views import driver_state, modules_on_disk, next_boot
from rigops.probe.sections.dkms import SECTION as DKMS
from rigops.probe.sections.kernel_log import KERNEL_LOG_PREVIOUS
from rigops.probe.sections.kernel_log import SECTION as KERNEL_LOG
from rigops.probe.sections.nvidia_modinfo import SECTION as NVIDIA_MODINFO
from rigops.probe.sections.nvidia_smi_xml import SECTION as SMI
from rigops.probe.sections.nvidia_version import SECTION as NVIDIA_VERSION
from rigops.probe.sections.packages import SECTION as PACKAGES
from rigops.probe.sections.proc_cmdline import SECTION as PROC_CMDLINE
from rigops.probe.sections.secure_boot import SECTION as SECURE_BOOT
from rigops.probe.sections.uname import SECTION as UNAME
from rigops.probe.snapshot import HostSnapshot

_UNVERIFIED = re.compile(r"\bnvidia\S*: module verification failed")
_HANDS = fix_by_hand(
    "enroll the key that DKMS signs with: `mokutil --import /var/lib/shim-signed/mok/MOK.der` "
    "(Debian: /var/lib/dkms/mok.pub) asks for a password of one use; reboot, and at the "
    "machine's own screen and keyboard choose Enroll MOK, Continue, Yes, and type that "
    "password. Or turn Secure Boot off in the firmware's setup: Security or Boot, Secure Boot, "
    "Disabled. Either needs a person at the console"
)
_WHY = (
    "With Secure Boot the kernel takes only modules that are signed with a key it knows. The one "
    "that DKMS builds is signed with a key of this machine, which must be enrolled in the firmware."
)


@Check(
    "drv.secureboot",
    needs=(
        UNAME,
        PROC_CMDLINE,
        NVIDIA_VERSION,
        NVIDIA_MODINFO,
        DKMS,
        SECURE_BOOT,
        PACKAGES,
        KERNEL_LOG_PREVIOUS,
        KERNEL_LOG,
        SMI,
    ),
    fixes=("hands",),
    cause_rank=20,
)
def secure_boot(examined: Examined) -> Finding:
    """Secure Boot does not keep the driver out.

    Reads the firmware's state (mokutil, or the EFI variable) and the kernel's lockdown. Secure Boot
    alone is not a fault: it fails only where the kernel's log shows that a module was refused, or
    where the module on disk is unsigned, and no driver is loaded. Without a module for the running
    kernel drv.dkms has the reason. The line "module verification failed … tainting kernel" is
    harmless with Secure Boot off.
    """
    snapshot = examined.snapshot
    insists = snapshot[SECURE_BOOT].or_empty.insists
    if insists is False:
        return _off(examined)
    if driver_state.loaded(examined).is_loaded:
        evidence = (*_state(snapshot), *_refusals(examined))
        if insists:
            return Finding("ok", "Secure Boot is on, and the driver was accepted", evidence)
        is_told = snapshot.bundle.paste is not None  # by drv.loaded
        summary = "the driver is loaded, so nothing keeps it from being loaded"
        return Finding("skipped" if is_told else "ok", summary, evidence)
    return _not_loaded(examined, is_on=bool(insists))


def _not_loaded(examined: Examined, *, is_on: bool) -> Finding:
    snapshot = examined.snapshot
    release = next_boot.running(snapshot)
    if modules_on_disk.for_running(snapshot, release).is_there is False:
        return _nothing_to_reject(examined, is_on=is_on)
    if rejected := _refusals(examined):
        return _rejects(snapshot, rejected)
    if not is_on:
        return Finding("unknown", "whether Secure Boot is on was not collected")
    module = modules_on_disk.of_running(snapshot, release)
    is_out = driver_state.loaded(examined).is_loaded is False
    if module is not None and module.is_signed is False and is_out:
        return _rejects(snapshot, (Evidence(NVIDIA_MODINFO.name, module.line),))
    return Finding("unknown", "Secure Boot is on; whether it keeps the module out is unknown")


def _refusals(examined: Examined) -> tuple[Evidence, ...]:
    """Of a module that is NVIDIA's, or that no line names."""
    told = known_lines(examined).get("drv.secureboot", ())
    return tuple(cited for one in told if one.status == "fail" for cited in one.evidence)


def _state(snapshot: HostSnapshot) -> tuple[Evidence, ...]:
    state = snapshot[SECURE_BOOT].value
    lines = (state.line, state.lockdown_line) if state else ()
    return tuple(Evidence(SECURE_BOOT.name, line) for line in lines if line)


def _off(examined: Examined) -> Finding:
    snapshot = examined.snapshot
    unverified = driver_state.logged(snapshot, _UNVERIFIED)
    why = (
        'That the kernel calls the module\'s verification failed ("tainting kernel") is harmless '
        "here: it only notes that it did not build this module itself."
    )
    return Finding(
        "ok",
        "unsigned modules may be loaded: Secure Boot is off",
        (*_state(snapshot), *driver_state.cited(unverified, 1), *_refusals(examined)),
        why=why if unverified else "",
    )


def _nothing_to_reject(examined: Examined, *, is_on: bool) -> Finding:
    state = "on" if is_on else "perhaps on"
    return Finding(
        "info",
        f"Secure Boot is {state}, and there is no module for this kernel that it could reject",
        (*_state(examined.snapshot), *_refusals(examined)),
        why="Once the module is built, the key that DKMS signs it with must be enrolled.",
    )


def _rejects(snapshot: HostSnapshot, evidence: tuple[Evidence, ...]) -> Finding:
    return Finding(
        "fail",
        "the kernel refuses the NVIDIA module because of Secure Boot",
        (*_state(snapshot), *evidence),
        why=_WHY,
        fix=_HANDS,
    )
