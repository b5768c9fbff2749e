"""Why a host could not be brought to what is declared, and what a person can do about it. Pure."""

from __future__ import annotations

from typing import Final

from rigops.errors import HostError, Problem, RigopsError
from rigops.probe.collect import ProbeError
from rigops.transport import TransportError

# Errors of hosts and their fixes. The first that fits counts.
_FIXES: Final = (
    ("No space left on device", "free some space there (`df -h`), and run this again"),
    ("Disk quota exceeded", "free some space there (`quota`), and run this again"),
    (
        "Read-only file system",
        "see `dmesg` there for the reason, repair it, and run this again",
    ),
    ("Structure needs cleaning", "the file system is damaged: run fsck on it from a rescue boot"),
    ("Input/output error", "the disk fails: see `dmesg` and `smartctl -a` there"),
)


class DeployError(RigopsError):
    """A deploy could not go on at this host; the text says why."""

    def __init__(self, text: str, *, fix: str = "") -> None:
        super().__init__(Problem(message=text, fix=fix or _fix(text)))


# Of `sudo -n`, and of sudo-rs.
_ASKS: Final = ("password is required", "authentication is required", "terminal is required")


class NoRootError(RigopsError):
    """`sudo`: what it said without a password, in English; empty: it is not installed."""

    def __init__(self, host: str, sudo: str) -> None:
        if not sudo:
            text, fix = "the login is not root, and sudo is not installed", "log in as root"
        elif any(one in sudo for one in _ASKS):
            text = "sudo asks for a password"
            fix = "use --ask-sudo-password, or let this user run sudo without a password"
        else:
            text = f"sudo does not make this user root: {sudo}"
            fix = "log in as root, or let this user run a shell with sudo"
        super().__init__(Problem(message=f"{host}: {text}", fix=fix, host=host))


class SameMachineError(RigopsError):
    def __init__(self, names: str) -> None:
        super().__init__(
            Problem(
                message=f"{names} are the same machine", fix="keep one of them in the inventory"
            )
        )


def host_error(error: BaseException) -> HostError:
    """As a document has it."""
    if isinstance(error, TransportError):
        return HostError(error.kind, str(error), error.fix)
    if isinstance(error, RigopsError):
        kinds = {ProbeError: "auth", NoRootError: "sudo"}
        kind = next((kinds[one] for one in kinds if isinstance(error, one)), "failed")
        return HostError(kind, str(error), error.fix)
    text = f"{type(error).__name__}: {error}"
    return HostError("failed", text, _fix(text))


def _fix(text: str) -> str:
    return next((fix for reason, fix in _FIXES if reason in text), "")
