"""Which kernel driver holds each card."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from rigops.doctor import views
from rigops.doctor.check import Check
from rigops.doctor.finding import HOST, Evidence, Finding, fix_by_hand
from rigops.doctor.views import driver_advice, driver_state
from rigops.probe.sections.kernel_log import SECTION as KERNEL_LOG
from rigops.probe.sections.packages import SECTION as PACKAGES

if TYPE_CHECKING:
    from rigops.doctor.card import Card
    from rigops.doctor.examined import Examined
    from rigops.doctor.finding import Status


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
_AT_WORK = re.compile(r"^nouveau [0-9a-f:.]+: ")
_BLACKLIST = "/etc/modprobe.d/blacklist-nouveau.conf"


@Check("drv.nouveau", needs=(PACKAGES, KERNEL_LOG), fixes=("apply+reboot", "hands"), cause_rank=30)
def nouveau(examined: Examined) -> Finding | list[Finding]:
    """The cards are bound to NVIDIA's driver.

    Looks at the kernel driver that is bound to each card (the driver link in sysfs, or lspci), and
    where that is not known at the kernel's log. nouveau or nova on a card is a failure: NVIDIA's
    driver cannot use it then. vfio-pci is a warning: it gives a card to a virtual machine, and may
    be intended. drv.loaded judges a card without a driver.
    """
    held = [(card, driver_state.bound_to(card)) for card in examined.cards]
    found = [_judged(examined, card, *one) for card, one in held if one and one[0]]
    taken = [one for one in found if one]
    if taken:
        return taken
    is_sure = views.sees_all_driven(examined) and len(held) == views.gpu_count(examined)
    if any(one is None for _, one in held) or not is_sure:
        return _by_log(examined)
    free = [card for card, one in held if one and not one[0]]
    if free:
        return _held_by_none(examined, free)
    lines = tuple(one[1] for _, one in held if one)
    return Finding("ok", "the NVIDIA driver holds every card", lines[:1])


def _judged(examined: Examined, card: Card, driver: str, evidence: Evidence) -> Finding | None:
    if driver == driver_state.DRIVER:
        return None
    if driver in _PASSTHROUGH:
        return Finding(
            "warn",
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
    return _taken(examined, status, f"{card.name} is held by {driver}", card.subject, (evidence,))


def _taken(
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
        return _logged(examined, driver_state.cited(not_probed, 1))
    names = ", ".join(card.address for card in free)
    return Finding("skipped", f"no driver at all holds {names}")


def _by_log(examined: Examined) -> Finding:
    """By the kernel log, where the cards do not show it."""
    not_probed = driver_state.logged(examined.snapshot, _NOT_PROBED)
    at_work = driver_state.logged(examined.snapshot, _AT_WORK)
    if not_probed or at_work:
        lines = (*driver_state.cited(not_probed, 1), *driver_state.cited(at_work, 2))
        return _logged(examined, lines)
    return Finding("unknown", "which driver holds each card could not be read")


def _logged(examined: Examined, lines: tuple[Evidence, ...]) -> Finding:
    return _taken(examined, "fail", "another driver has taken a card", HOST, lines)
