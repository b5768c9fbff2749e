"""Rebooting a host and knowing that it did: by its boot id, against a clock that only goes on."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Final

from rigops.converge.reboot_impact import LIST_INHIBITORS, ShutdownInhibitor, inhibitors
from rigops.errors import Problem, RigopsError
from rigops.hostside.packing import pack
from rigops.probe.script import PATH
from rigops.transport import Connection, HostKeyPolicy, Privilege, Target, TransportError, connect
from rigops.transport.errors import clean

LATER_S: Final = 5

_BOOT_ID_FILE: Final = "/proc/sys/kernel/random/boot_id"
_BOOT_ID: Final = ("cat", _BOOT_ID_FILE)
_BEFORE: Final = (
    "sh",
    "-c",
    f"PATH={PATH}; cat {_BOOT_ID_FILE} || exit; {LIST_INHIBITORS} 2>/dev/null; exit 0",
)

# Up to version 256 systemd lets root reboot past every lock, later ones refuse where one blocks; so
# locks are looked at before the order, and with `-i` every version goes past them. A
# reboot that was ordered just before counts too.
_ORDER: Final = """\
order() {
    if [ ! -d /run/systemd/system ]; then
        (sleep 1; reboot) </dev/null >/dev/null 2>&1 &
    elif ! output=$(systemctl reboot $1 2>&1 </dev/null); then
        case $output in *"in progress"* | *"already running"*) return ;; esac
        echo "$output" >&2
        return 1
    fi
}
"""
_ORDER_LATER: Final = f"""\
if [ -d /run/systemd/system ]; then
    systemd-run --quiet --collect --on-active={LATER_S}s --timer-property=AccuracySec=100ms \\
        systemctl reboot
else
    (sleep {LATER_S}; reboot) </dev/null >/dev/null 2>&1 &
fi
"""

# A unit that nothing stops: no dependency has it conflict with the shutdown, and at its end systemd
# kills no process of root's whose first word begins with @. It is in /run, so that it and its
# program are gone with this boot; a unit file, since systemd-run could give no such first word.
_UNIT: Final = "rigops-last-resort.service"
_ARM: Final = """\
folder=/run/rigops unit=/run/systemd/system/@UNIT@
disarm() {
    [ ! -d /run/systemd/system ] || systemctl --quiet stop @UNIT@
    rm -f "$folder/last-resort" "$unit"
}
arm() {
    umask 077
    mkdir -p "$folder" && cat >"$folder/last-resort" <<'RIGOPS_END' || return
@PROGRAM@RIGOPS_END
    if [ ! -d /run/systemd/system ]; then
        setsid sh "$folder/last-resort" "$1" </dev/null >/dev/null 2>&1 &
        return
    fi
    umask 022
    cat >"$unit" <<RIGOPS_END || return
[Unit]
Description=A forced reboot, should the ordered one hang
DefaultDependencies=no
IgnoreOnIsolate=yes
[Service]
ExecStart=@/bin/sh @rigops-last-resort $folder/last-resort $1
StandardOutput=null
StandardError=null
OOMScoreAdjust=-1000
TimeoutStopSec=1
RIGOPS_END
    systemctl stop @UNIT@ 2>/dev/null
    systemctl start @UNIT@
}
"""

_ATTEMPT_S: Final = 10.0
_PAUSE_S: Final = 1.0
_SHORT_S: Final = 30.0
_ORDER_S: Final = 60.0  # a logind that does not answer is given up by systemctl after 25 s
_SIGNAL: Final = 128
_SETTLE_S: Final = 120.0
_SETTLE_SHARE: Final = 0.25  # of the deadline

_SETTLED_SCRIPT: Final = """\
command -v systemctl >/dev/null || exit 0
left=$0
while [ "$left" -gt 0 ]; do
    case $(systemctl is-system-running 2>/dev/null) in
        initializing | starting | "") sleep 1; left=$((left - 1)) ;;
        *) exit 0 ;;
    esac
done
"""


def reboot(
    connection: Connection,
    target: Target,
    privilege: Privilege,
    *,
    deadline_s: float,
    waiting: Callable[[float], None],
    last_resort_s: float | None = None,
) -> Connection:
    """The connection to the host after its reboot, or RigopsError at the deadline.

    With `last_resort_s` inhibitors are passed over, and after so many seconds the host reboots by
    force, whatever hangs there. The old connection is closed once the reboot was ordered.
    """
    began = time.monotonic()
    before, held = _before(connection)
    if last_resort_s is None:
        _refuse_inhibited(target.name, held)
    _order(connection, privilege, last_resort_s)
    connection.close()
    seen = "no answer since"
    while (left := deadline_s - (elapsed := time.monotonic() - began)) > 0:
        waiting(elapsed)
        try:
            again = connect(target, deadline_s=min(_ATTEMPT_S, left), host_keys=HostKeyPolicy())
        except TransportError as error:
            # A host on its way down or up may well hang up on a login, but has no other key.
            if error.kind in {"key_changed", "key_unknown"}:
                raise
            seen = f"last try: {error}"
        else:
            if _came_back(again, before, _settle_s(deadline_s, began)):
                return again
            seen = f"after {time.monotonic() - began:.0f} s it still answered as before its reboot"
        time.sleep(_PAUSE_S)
    raise _failed(
        target.name,
        f"it did not come back within {deadline_s:g} s of its reboot; {seen}",
        "look at its screen; run this again once it is up, or raise reboot_timeout",
    )


def order_only(connection: Connection, privilege: Privilege) -> None:
    """For the machine that this runs on: it reboots in a few seconds."""
    _, held = _before(connection)
    _refuse_inhibited(connection.name, held)
    answer = connection.run_script(
        f"PATH={PATH}\n{_ORDER_LATER}",
        privilege=privilege,
        deadline_s=_ORDER_S,
    )
    if answer.exit_code != 0:
        raise _refused(connection.name, answer.stderr + answer.login_noise)


def _before(connection: Connection) -> tuple[str, tuple[ShutdownInhibitor, ...]]:
    answer = connection.run(_BEFORE, deadline_s=_SHORT_S)
    if answer.exit_code != 0:
        raise TransportError("lost", "no boot id", host=connection.name)
    boot_id, _, rest = answer.stdout.decode(errors="replace").partition("\n")
    return boot_id.strip(), inhibitors(rest)


def _refuse_inhibited(host: str, held: Sequence[ShutdownInhibitor]) -> None:
    blocking = [one for one in held if one.blocks]
    if blocking:
        raise _failed(
            host,
            f"no reboot was ordered: {clean('; '.join(map(str, blocking)))}",
            "wait for its end, or end it there (`systemd-inhibit --list`), then run this again",
        )


def _order(connection: Connection, privilege: Privilege, last_resort_s: float | None) -> None:
    """In one exec, so that whatever cuts it off, nothing is armed without an order."""
    try:
        answer = connection.run_script(
            _order_script(last_resort_s),
            privilege=privilege,
            deadline_s=_ORDER_S,
        )
    except TransportError as error:
        if error.kind in {"lost", "timeout"}:
            return  # it went down before it could say so, or the boot id will show it
        raise
    if 0 < answer.exit_code < _SIGNAL:  # a signal ends sessions of a host that goes down
        raise _refused(connection.name, answer.stderr + answer.login_noise)


def _order_script(last_resort_s: float | None) -> str:
    if last_resort_s is None:
        tools, steps = "", ["order ''"]
    else:
        program = pack("last_resort").text
        tools = _ARM.replace("@UNIT@", _UNIT).replace("@PROGRAM@", program)
        arm = f"arm {max(0, round(last_resort_s))} || {{ disarm 2>/dev/null; exit 1; }}"
        steps = [arm, "order -i || { disarm; exit 1; }"]
    # Called on the last line: a script that arrives in part does nothing.
    body = [f"PATH={PATH}", *steps]
    return "\n".join([tools + _ORDER + "rigops_reboot() {", *body, "}", "rigops_reboot", ""])


def _settle_s(deadline_s: float, began: float) -> float:
    left = deadline_s - (time.monotonic() - began)
    return max(0.0, min(left, _SETTLE_S, deadline_s * _SETTLE_SHARE))


def _came_back(again: Connection, before: str, settle_s: float) -> bool:
    """Whether it is up again. If not, or if it goes down once more meanwhile, it is closed."""
    is_back = False
    try:
        if _boot_id(again) != before:
            settled = ("sh", "-c", f"PATH={PATH}\n{_SETTLED_SCRIPT}", str(int(settle_s)))
            again.run(settled, deadline_s=settle_s + _SHORT_S)
            is_back = True
    except TransportError:
        return False
    finally:
        if not is_back:
            again.close()
    return is_back


def _boot_id(connection: Connection) -> str:
    answer = connection.run(_BOOT_ID, deadline_s=_SHORT_S)
    if answer.exit_code != 0:
        raise TransportError("lost", "no boot id", host=connection.name)
    return answer.stdout.decode(errors="replace").strip()


def _refused(host: str, output: bytes) -> RigopsError:
    return _failed(
        host,
        f"it refused to reboot: {clean(output) or 'no output'}",
        "see `systemctl list-jobs` and `systemd-inhibit --list` there; reboot it by hand, and run "
        "this again",
    )


def _failed(host: str, message: str, fix: str) -> RigopsError:
    return RigopsError(Problem(message=f"{host}: {message}", fix=fix, host=host))
