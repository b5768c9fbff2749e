"""Files that rigops writes on hosts and that its record there does not name.

Without the record they would not be undone. Most name rigops in their first lines; the others lie
where no other program writes.
"""

from __future__ import annotations

import re
from typing import Final

from rigops.dataclass import dataclass
from rigops.probe.text import lines, matches

FOREIGN_FILES: Final = ("/etc/nccl.conf",)  # of others, with a block of lines of rigops
HEADERS: Final = (
    "(#|//) Made by rigops ",
    "# rigops .*owns the lines from here on",
    "# acs off [|] back [|] show: ",
    "# kernel_hook installed RELEASE ",
    "# nvidia_modules MODULE STOCK ",
    "# own_modules build KERNEL",
    "# notify SUBJECT: ",
    "# self_check: ",
    "# (gpu|cpu)_tuning set ",
    "# Ends a boot with new kernel arguments unless it is confirmed ",
    "(url|command|ping)$",  # whom to notify
)
TRACES: Final = "ls UNRECORDED"
ORIGINALS: Final = "ls UNRECORDED PREVIOUS"  # in older bundles

_OWN: Final = (  # no other program writes there
    "/usr/local/libexec/rigops/*",
    "/etc/rigops/*",
    "/etc/systemd/system/rigops-*",
    "/etc/apt/sources.list.d/rigops-*",
)
_SHARED: Final = (  # a user may have a file of that name
    "/etc/apt/apt.conf.d/*rigops*",
    "/etc/apt/preferences.d/*rigops*",
    "/etc/default/grub.d/*rigops*",
    "/etc/grub.d/*rigops*",
    "/boot/grub*/custom.cfg",
    "/etc/kernel/*.d/*rigops*",
    "/etc/modprobe.d/*rigops*",
    "/etc/security/limits.d/*rigops*",
    "/etc/systemd/*.conf.d/*rigops*",
    "/etc/systemd/system/nvidia-persistenced.service",
    "/etc/systemd/system/*.service.d/rigops*",
    "/etc/udev/rules.d/*rigops*",
    "/usr/local/sbin/rigops-*",
    *FOREIGN_FILES,
)
_TRACE = re.compile(
    r"(?P<made>made|there) (?P<status>[0-9a-f]{4} [0-9:]{3,21})( [0-9a-f]{64})? (?P<path>/.*)"
)


@dataclass(frozen=True)
class Trace:
    """`is_made`: it says that rigops made it."""

    status: str  # as `stat -c '%f %u:%g'` prints it
    is_made: bool


def traces(body: str) -> dict[str, Trace]:
    return {
        one["path"]: Trace(one["status"], one["made"] == "made")
        for one in matches(_TRACE, lines(body))[0]
    }


def companion(path: str, state: str) -> str:
    """The file that has the same block, and that the record knows in the place of this one."""
    return f"{state}/lines/{path.strip('/').replace('/', '-')}"


def snippet(state: str) -> str:
    """Wants `recorded`, a line each. Where every trace is recorded it starts no program."""
    headers = "|".join(HEADERS)
    companions = "\n        ".join(
        f"{path}) ! is_recorded {companion(path, state)} || continue ;;" for path in FOREIGN_FILES
    )
    return f"""
set +f
unset IFS
line='
'
is_recorded() {{ case "$line$recorded$line" in *"$line$1$line"*) ;; *) return 1 ;; esac; }}
found=
for path in {" ".join((*_OWN, *_SHARED))}; do
    [ -f "$path" ] || continue
    ! is_recorded "$path" || continue
    case $path in
        # No record names a passphrase. Files beside ssh's keys go with the key.
        *.rigops-new|/etc/rigops/borg_passphrase*|/etc/rigops/*_key.pub|/etc/rigops/*_known_hosts)
            continue ;;
        {companions}
    esac
    found=$found$path$line
done
trace() {{ printf '%s %s %s\\n' "$1" "$(stat -c '%f %u:%g' "$path")" "$path"; }} # KIND
# Also where there is none: only where the answer reaches as far is that known.
block "{TRACES}"
if [ -n "$found" ]; then
    set -f
    IFS=$line
    # shellcheck disable=SC2086  # a word a line
    made=$(grep -lsE '^({headers})' $found)
    for path in $found; do
        case "$line$made$line" in
            *"$line$path$line"*) trace made ;;
            *)
                # shellcheck disable=SC2254  # patterns are meant
                case $path in {"|".join(_OWN)}) trace there ;; esac
                ;;
        esac
    done
fi
"""
