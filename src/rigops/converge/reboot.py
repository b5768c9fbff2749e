"""Rebooting a host and knowing that it did: by its boot id, against a clock that only goes on."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from rigops.errors import Problem, RigopsError
from rigops.transport import HostKeyPolicy, TransportError, connect

if TYPE_CHECKING:
    from collections.abc import Callable

    from rigops.transport import Connection, Target

# Ordered from outside this login, so that the answer still reaches us. A timer of systemd's takes
# up to a minute longer than it says, unless told to be accurate.
_ORDER_SCRIPT: Final = """\
root=; [ "$(id -u)" = 0 ] || root="sudo -n"
if command -v systemd-run >/dev/null; then
    $root systemd-run --quiet --collect --on-active=1s --timer-property=AccuracySec=100ms \\
        systemctl reboot
else
    $root sh -c "(sleep 1; reboot) </dev/null >/dev/null 2>&1 &"
fi
"""
_ORDER: Final = ("sh", "-c", _ORDER_SCRIPT)
_BOOT_ID: Final = ("cat", "/proc/sys/kernel/random/boot_id")
_SETTLED: Final = ("sh", "-c", "systemctl is-system-running --wait || true")

_ATTEMPT_S: Final = 10.0
_PAUSE_S: Final = 1.0
_SHORT_S: Final = 30.0


def reboot(
    connection: Connection, target: Target, *, deadline_s: float, waiting: Callable[[float], None]
) -> Connection:
    """The connection to the host after its reboot, or RigopsError at the deadline."""
    began = time.monotonic()
    before = _boot_id(connection)
    ordered = connection.run(_ORDER, deadline_s=_SHORT_S)
    if ordered.exit_code != 0:
        said = ordered.stderr.decode(errors="replace").strip()
        raise _failed(
            target, f"it refused to reboot: {said}", "reboot it by hand, and run this again"
        )
    connection.close()
    seen = "it did not go down"
    while (left := deadline_s - (time.monotonic() - began)) > 0:
        waiting(time.monotonic() - began)
        try:
            again = connect(target, deadline_s=min(_ATTEMPT_S, left), host_keys=HostKeyPolicy())
        except TransportError as error:
            # A host on its way down or up may well hang up on a login, but has no other key.
            if error.kind in {"key_changed", "key_unknown"}:
                raise
            seen = f"the last try said: {error}"
        else:
            if _came_back(again, before):
                again.run(_SETTLED, deadline_s=max(left, _SHORT_S))
                return again
            again.close()
        time.sleep(_PAUSE_S)
    raise _failed(
        target,
        f"it did not come back within {deadline_s:g} s of its reboot; {seen}",
        "look at its screen; run this again once it is up, or raise reboot_timeout",
    )


def _came_back(connection: Connection, before: str) -> bool:
    try:
        return _boot_id(connection) != before
    except TransportError:
        return False  # it was on its way down


def _boot_id(connection: Connection) -> str:
    answer = connection.run(_BOOT_ID, deadline_s=_SHORT_S)
    if answer.exit_code != 0:
        raise TransportError("lost", "it does not tell its boot id", host=connection.name)
    return answer.stdout.decode(errors="replace").strip()


def _failed(target: Target, message: str, cure: str) -> RigopsError:
    return RigopsError(Problem(message=message, cure=cure, host=target.name))
