"""What Secure Boot does not let load, and what a person has to type for it. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rigops.concerns.nvidia_driver.resolver.request import Refusal

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rigops.concerns.nvidia_driver.resolver.machine import Machine
    from rigops.concerns.nvidia_driver.resolver.request import Request

_CONSOLE: Final = "enroll the key in the blue menu at the machine's own console"


def unsigned(machine: Machine, request: Request, signed: Sequence[str] = ()) -> Refusal:
    """`signed`: other versions that the sources have signed modules of."""
    known = "is not enrolled" if machine.has_key is False else "is not known to be enrolled"
    reason = f"Secure Boot is on, and the key that signs modules built here {known}"
    fixes = [_enrolling(machine), "or switch Secure Boot off in the firmware"]
    if machine.manager == "apt":
        kernels = " and ".join(machine.own_kernels) or "any kernel"
        reason += (
            f"; the package sources have no signed modules of driver {request.wish.text} for "
            f"{kernels}"
        )
    if signed:
        fixes.insert(0, f'declare driver = "{signed[0]}", whose signed modules they have')
    return Refusal(reason, "; ".join(fixes))


def of_signed(machine: Machine) -> str:
    """A note for where the distribution's own modules are installed."""
    return (
        "Secure Boot is on and no key of this machine's own is enrolled: the modules are those "
        f"that the distribution built and signed for {' and '.join(machine.own_kernels)}, and the "
        f"kernel is held with them; to have modules built here instead, {_enrolling(machine)}"
    )


def _enrolling(machine: Machine) -> str:
    if machine.is_enrolling:
        return f"reboot, and {_CONSOLE} with the password that was given to mokutil"
    if machine.distribution == "ubuntu":
        key = machine.key or "/var/lib/shim-signed/mok/MOK.der"
        make = "`sudo update-secureboot-policy --new-key`"
    else:
        key = machine.key or "/var/lib/dkms/mok.pub"
        make = "let dkms build any module once"
    first = "" if machine.key else f"where {key} is not there yet, {make}; then "
    return (
        f"{first}`sudo mokutil --import {key}` with a password of your own, reboot, and {_CONSOLE}"
    )
