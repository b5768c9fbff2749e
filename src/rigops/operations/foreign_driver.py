"""A driver that NVIDIA's own installer put there: taken away by its own uninstaller.

What that does is in its published source. It ends with 0 even where it did nothing at all; what it
installed and somebody has changed since, it leaves where it is; what it had moved out of its way it
puts back; it makes no initramfs. Its log goes when it is done, and the program itself before that.
"""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Final

from pyinfra.api.operation import operation
from pyinfra.context import host

from rigops.facts.driver_ground import DriverGround
from rigops.operations.change import Change, announce, notice
from rigops.operations.consent import given
from rigops.operations.telling import telling_script

if TYPE_CHECKING:
    from collections.abc import Generator

    from rigops.driver.machine import Machine, RunFile
    from rigops.operations.telling import Telling

SUBJECT: Final = "driver of NVIDIA's own installer"
_LONGEST_S: Final = 1800  # it has DKMS look at every kernel, and so has the initramfs
UNINSTALL: Final = """\
set -eu
PATH=/usr/sbin:/usr/bin:/sbin:/bin
export PATH LC_ALL=C
unset CDPATH
log=/var/lib/nvidia/log
see="see /var/log/nvidia-uninstall.log"
# What it installed, less what it had moved out of the way before: that comes back.
put_there() {
    awk '
        /^[0-9]+: \\// {
            kind = $1 + 0
            sub(/^[0-9]+: /, "")
            if (kind < 2) installed[$0]; else earlier[$0]
        }
        END { for (path in installed) if (!(path in earlier)) print path }
    ' "$log"
    version=$(sed -n '1s/.*(\\(.*\\)).*/\\1/p' "$log")
    [ -z "$version" ] || echo "/var/lib/dkms/nvidia/$version"
}
# A package may have come to own a file since.
still_there() {
    while IFS= read -r path; do
        if [ -e "$path" ] || [ -L "$path" ]; then
            dpkg -S "$path" >/dev/null 2>&1 || echo "$path"
        fi
    done
}
uninstall() { # PROGRAM...
    if [ ! -e "$log" ]; then
        echo "$* does not know what to take away, since $log is gone: install the same driver" \\
            "once more with the .run file that it came from, and then run this again" >&2
        exit 1
    fi
    paths=$(put_there)
    echo "NVIDIA's own uninstaller is at work"
    code=0
    said=$("$@" --uninstall --silent </dev/null 2>&1) || code=$?
    if [ "$code" != 0 ] || [ -e "$log" ]; then
        echo "$* --uninstall --silent did not take the driver away (exit status $code); $see" >&2
        echo "$said" | grep . | tail -n 5 >&2 || :
        exit 1
    fi
    left=$(echo "$paths" | still_there | sort)
    [ -n "$left" ] || return 0
    echo "NVIDIA's uninstaller left what has been changed since its installer brought it; $see:" >&2
    echo "$left" | head -n 5 >&2
    more=$(echo "$left" | tail -n +6 | wc -l)
    [ "$more" = 0 ] || echo "and $more more" >&2
    echo "take that out of the new driver's way, and then run this again" >&2
    exit 1
}
"""


def that_may_go(seen: Machine) -> RunFile | None:
    """The driver of no package, where somebody agreed to its removal and it can be done."""
    found = seen.run_file
    if found is None or found.is_ours or not found.uninstaller:
        return None
    return found if given(host).uninstall else None


def tell_of_both(concern: str, seen: Machine) -> None:
    """Say that packages and NVIDIA's installer were both here. Its uninstaller would hit both."""
    found = host.get_fact(DriverGround).run_file
    if found is None or found.is_ours or not seen.installed:
        return
    version = f" {found.version}" if found.version else ""
    cure = (
        f"`sudo {found.uninstaller} --uninstall --silent`, then `sudo apt-get install --reinstall` "
        "with the packages of the driver, and a reboot"
        if found.uninstaller
        else "after looking at what /var/lib/nvidia/log names, `sudo rm -r /var/lib/nvidia`"
    )
    notice(
        host,
        concern,
        f"NVIDIA's own installer put a driver{version} here beside the packages, which share its "
        "files: it stays, and --remove-foreign-driver does not change that; to be rid of it, "
        f"{cure}",
    )


@operation()
def foreign_driver_removed(
    *, concern: str, uninstaller: str, version: str = "", effect: str = ""
) -> Generator[Telling, None, None]:
    """Have no driver that came from NVIDIA's installer. Whoever wants this has consent for it.

    + concern: the deploy that puts another one in its place
    + uninstaller: the program that it left for that
    + version: the driver's, as far as it is known
    + effect: what is to be run once it is gone
    """
    if not uninstaller:
        host.noop("no driver came from NVIDIA's own installer")
        return
    before = f"{version or 'installed'}\n"
    announce(host, Change(concern, "module", SUBJECT, before, None))
    notice(host, concern, "until the new driver is installed, this machine has none")
    text = f"{UNINSTALL}{shlex.join(('uninstall', uninstaller))}\n{effect}"
    yield telling_script(text, timeout_s=_LONGEST_S)
