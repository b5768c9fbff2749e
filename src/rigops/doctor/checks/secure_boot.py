"""Secure Boot: whether it keeps the driver from being loaded."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from rigops.doctor import rig
from rigops.doctor.check import Check, Examined
from rigops.doctor.finding import Evidence, Finding, Remedy, saying
from rigops.doctor.rig import driver_state, modules_on_disk, next_boot
from rigops.doctor.rig.modules_on_disk import MODINFO

if TYPE_CHECKING:
    from rigops.probe.facts import HostFacts

SECURE_BOOT = "drv.secureboot"

_SECTION = "secure-boot"
_REJECTED = re.compile(
    r"unsigned module loading is restricted|Key was rejected by service"
    r"|[Ll]oading of (?:unsigned module|module with un\w{1,20} \w{1,20}) is rejected"
)
_UNVERIFIED = re.compile(r"\bnvidia\S*: module verification failed")
_HANDS = Remedy(
    kind="hands",
    text=(
        "enrol the key that DKMS signs with: `mokutil --import /var/lib/shim-signed/mok/MOK.der` "
        "(Debian: /var/lib/dkms/mok.pub) asks for a password of one use; reboot, and at the "
        "machine's own screen and keyboard choose Enroll MOK, Continue, Yes, and type that "
        "password. Or turn Secure Boot off in the firmware's setup: Security or Boot, Secure Boot, "
        "Disabled. Either needs somebody at the console"
    ),
)
_WHY = (
    "With Secure Boot the kernel takes only modules that are signed with a key it knows. The one "
    "that DKMS builds is signed with a key of this machine, which the firmware must be told of."
)


def secure_boot(examined: Examined) -> list[Finding]:
    if rig.has_no_gpu(examined):
        return [_finding("skipped", driver_state.NO_GPU)]
    facts = examined.facts
    insists = facts.secure_boot.insists if facts.secure_boot else None
    if insists is False:
        return [_off(facts)]
    if driver_state.loaded(examined).is_loaded:
        return [_accepted(facts)]
    return [_not_loaded(examined, is_on=bool(insists))]


def _not_loaded(examined: Examined, *, is_on: bool) -> Finding:
    facts = examined.facts
    release = next_boot.running(facts)
    if modules_on_disk.for_running(facts, release).is_there is False:
        return _nothing_to_reject(facts, is_on=is_on)
    rejected = driver_state.logged(facts, _REJECTED)
    if rejected:
        return _rejects(facts, driver_state.cited(rejected))
    if not is_on:
        return _finding("unknown", "whether Secure Boot is on was not collected")
    module = modules_on_disk.of_running(facts, release)
    is_out = driver_state.loaded(examined).is_loaded is False
    if module is not None and module.is_signed is False and is_out:
        return _rejects(facts, (Evidence(MODINFO, module.line),))
    return _finding("unknown", "Secure Boot is on, and nothing tells whether it is in the way")


_finding = saying(SECURE_BOOT)


def _state(facts: HostFacts) -> tuple[Evidence, ...]:
    state = facts.secure_boot
    said = (state.line, state.lockdown_line) if state else ()
    return tuple(Evidence(_SECTION, line) for line in said if line)


def _accepted(facts: HostFacts) -> Finding:
    if facts.secure_boot is not None and facts.secure_boot.insists:
        return _finding("ok", "Secure Boot is on, and the driver was accepted", _state(facts))
    return _finding("ok", "the driver is loaded, so nothing keeps it from being loaded")


def _off(facts: HostFacts) -> Finding:
    unverified = driver_state.logged(facts, _UNVERIFIED)
    why = (
        'That the kernel calls the module\'s verification failed ("tainting kernel") is harmless '
        "here: it only notes that it did not build this module itself."
    )
    return _finding(
        "ok",
        "unsigned modules may be loaded: Secure Boot is off",
        (*_state(facts), *driver_state.cited(unverified, 1)),
        why=why if unverified else "",
    )


def _nothing_to_reject(facts: HostFacts, *, is_on: bool) -> Finding:
    state = "on" if is_on else "perhaps on"
    return _finding(
        "info",
        f"Secure Boot is {state}, and there is no module for this kernel that it could reject",
        _state(facts),
        why="Once the module is built, the key that DKMS signs it with must be enrolled.",
    )


def _rejects(facts: HostFacts, evidence: tuple[Evidence, ...]) -> Finding:
    return _finding(
        "fail",
        "the kernel refuses the NVIDIA module because of Secure Boot",
        (*_state(facts), *evidence),
        why=_WHY,
        remedy=_HANDS,
    )


CHECKS = (
    Check(
        id=SECURE_BOOT,
        title="Secure Boot does not keep the driver out",
        explanation=(
            "Reads the firmware's state (mokutil, or the EFI variable) and the kernel's lockdown. "
            "Secure Boot alone is no fault: it fails only where the kernel's log shows that a "
            "module was refused, or where the module on disk is unsigned, and no driver is loaded. "
            "With no module for the running kernel there is nothing to refuse, and drv.dkms tells "
            'what is wrong. The line "module verification failed … tainting kernel" is harmless '
            "with Secure Boot off."
        ),
        run=secure_boot,
    ),
)
