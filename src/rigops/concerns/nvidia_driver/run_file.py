"""A driver of NVIDIA's own installer (.run): installed by it, and removed by its uninstaller.

Their published source describes both. The installer would build modules for one kernel, and
before 545 it does nothing beside a driver that is in use: so it is asked for all but the modules,
and DKMS is given their source, with the instructions for it that the file has. A mark says what was
begun, and afterwards, by the digest of the installer's own log, that all of it came from here.

The uninstaller ends with 0 even where it did nothing at all; what was installed and changed since,
it leaves where it is; what the installer had moved aside it puts back; it makes no initramfs. The
log goes when it is done, and the program itself before that.
"""

from __future__ import annotations

import shlex
from collections.abc import Generator
from typing import Final

from pyinfra.api.operation import operation
from pyinfra.context import host

from rigops.atomic_file import SHELL_SETTLE
from rigops.concerns.nvidia_driver import NAME as CONCERN
from rigops.concerns.nvidia_driver.facts import DriverHost
from rigops.concerns.nvidia_driver.resolver.host_facts import MARK
from rigops.concerns.nvidia_driver.resolver.machine import Machine, RunFile
from rigops.concerns.nvidia_driver.resolver.request import Resolution
from rigops.plan.change import Change
from rigops.plan.commands import StreamingCommand, streaming_script
from rigops.plan.context import announce, consent_of, notice
from rigops.vault.pinned_set import FOLDER, POOL, RUN_FILE_PREFIX

INSTALLERS_LOG: Final = "/var/lib/nvidia/log"
SUBJECT: Final = "driver of NVIDIA's own installer"
UNINSTALL: Final = """\
set -eu
PATH=/usr/sbin:/usr/bin:/sbin:/bin
export PATH LC_ALL=C
unset CDPATH
log=/var/lib/nvidia/log
see="see /var/log/nvidia-uninstall.log"
# Files that it installed, less those that it had moved away before: they come back.
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
        echo "$* cannot remove the driver, since $log is gone: install the same driver" \\
            "once more with the .run file that it came from, and then run this again" >&2
        exit 1
    fi
    paths=$(put_there)
    echo "NVIDIA's own uninstaller is at work"
    code=0
    printed=$("$@" --uninstall --silent </dev/null 2>&1) || code=$?
    if [ "$code" != 0 ] || [ -e "$log" ]; then
        echo "$* --uninstall --silent did not remove the driver (exit status $code); $see" >&2
        echo "$printed" | grep . | tail -n 5 >&2 || :
        exit 1
    fi
    left=$(echo "$paths" | still_there | sort)
    [ -n "$left" ] || return 0
    echo "NVIDIA's uninstaller left what has been changed since its installer brought it; $see:" >&2
    echo "$left" | head -n 5 >&2
    more=$(echo "$left" | tail -n +6 | wc -l)
    [ "$more" = 0 ] || echo "and $more more" >&2
    echo "remove these files, and then run this again" >&2
    exit 1
}
"""
_LONGEST_S: Final = 3600  # it is unpacked, and a gigabyte is written, on a slow disk
_UNPACKED: Final = 8  # times its own size, unpacked and installed

_FORGET: Final = """\
forgotten() { # VERSION: what DKMS was given
    if command -v dkms >/dev/null && dkms status -m nvidia -v "$1" 2>/dev/null | grep -q .; then
        dkms remove -m nvidia -v "$1" --all >/dev/null
    fi
    rm -rf "/usr/src/nvidia-$1"
}
"""
TAKE_AWAY: Final = f"""\
{_FORGET}take_away() {{ # VERSION PROGRAM...
    version=$1; shift
    rm -rf {FOLDER}/work.??????
    [ ! -e "$log" ] || uninstall "$@"
    forgotten "$version"
    rm -f {MARK}
}}
"""
INSTALL: Final = f"""\
{_FORGET}set -eu
PATH=/usr/sbin:/usr/bin:/sbin:/bin
export PATH LC_ALL=C
unset CDPATH
umask 022
log=/var/lib/nvidia/log
say() {{ echo "$@" || :; }}
{SHELL_SETTLE}mark() {{
    echo "$1" >{MARK}.rigops-new
    settle {MARK}
    sync {MARK.rpartition("/")[0]}
}}
has_room() {{ # BYTES
    for place in {FOLDER} /usr; do
        free=$(df -kP "$place" | awk 'NR == 2 {{ print $4 }}')
        [ "$free" -ge $(($1 * {_UNPACKED} / 1024)) ] || {{
            echo "unpacked and installed the driver needs" \\
                "$(($1 * {_UNPACKED} / 1000000)) MB, and $place has $((free / 1000)) MB free" >&2
            exit 1
        }}
    done
}}
failed() {{ # STATUS WORDS...
    status=$1; shift
    echo "$* (exit status $status); see /var/log/nvidia-installer.log" >&2
    grep '^ERROR: ' "$work/said" >&2 || grep . "$work/said" | tail -n 5 >&2 || :
    exit 1
}}
is_there() {{ [ -e "$log" ] && sed -n 1p "$log" | grep -q -F "($1)"; }}
given_to_dkms() {{ # SOURCE VERSION
    number=0
    for module in nvidia nvidia-uvm nvidia-modeset nvidia-drm nvidia-peermem; do
        [ -d "$1/$module" ] || continue
        echo "BUILT_MODULE_NAME[$number]=\\"$module\\""
        echo "DEST_MODULE_LOCATION[$number]=\\"/kernel/drivers/video\\""
        number=$((number + 1))
    done >"$work/modules"
    to=/usr/src/nvidia-$2
    cp -R "$1" "$to"
    awk -v version="$2" -v jobs="$(nproc)" -v modules="$work/modules" '
        /__DKMS_MODULES/ {{ while ((getline line <modules) > 0) print line; next }}
        {{
            gsub(/__VERSION_STRING/, version); gsub(/__JOBS/, jobs)
            gsub(/__EXCLUDE_MODULES/, ""); print
        }}' "$1/dkms.conf" >"$to/dkms.conf"
    dkms add -m nvidia -v "$2" >/dev/null
}}
put_in_place() {{ # FILE VERSION FLAVOUR SET OPTION...
    file=$1 version=$2 flavor=$3 set=$4
    shift 4
    rm -rf {FOLDER}/work.??????
    has_room "$(stat -c %s "$file")"
    work=$(mktemp -d {FOLDER}/work.XXXXXX)
    trap 'rm -rf "$work"' EXIT
    trap 'exit 143' HUP INT TERM
    say "unpacking NVIDIA's installer of driver $version"
    code=0
    (cd "$work" && sh "$file" --extract-only) </dev/null >"$work/said" 2>&1 || code=$?
    driver=$work/{RUN_FILE_PREFIX}$version source=kernel
    [ "$flavor" = proprietary ] || source=kernel-open
    if [ "$code" != 0 ] || [ ! -x "$driver/nvidia-installer" ]; then
        failed "$code" "$file could not be unpacked"
    fi
    [ -f "$driver/$source/dkms.conf" ] || {{
        echo "$file has no $flavor modules in it that DKMS could build" >&2
        exit 1
    }}
    mark "begun $version $flavor $set -"
    say "NVIDIA's installer of driver $version is at work"
    # A begun step always finishes, even without a connection.
    trap '' HUP INT PIPE TERM
    setsid --wait env TMPDIR="$work" "$driver/nvidia-installer" --silent "$@" \\
        </dev/null >"$work/said" 2>&1 || code=$?
    if [ "$code" != 0 ] || ! is_there "$version"; then
        failed "$code" "NVIDIA's installer did not put driver $version in place"
    fi
    forgotten "$version"
    given_to_dkms "$driver/$source" "$version"
    digest=$(sha256sum <"$log")
    mark "whole $version $flavor $set ${{digest%% *}}"
}}
"""
# Older ones know of one kernel module only, and newer ones that name as well.
_OPTIONS: Final = (
    "--no-kernel-module",
    "--no-kernel-module-source",
    "--no-nouveau-check",
    "--no-x-check",
    "--no-check-for-alternate-installs",
)
_WITHOUT_A_DESKTOP: Final = ("--no-opengl-files",)


def removable_foreign(seen: Machine) -> RunFile | None:
    """The driver of no package, where its removal is confirmed and possible."""
    found = seen.run_file
    if found is None or found.is_ours or not found.uninstaller:
        return None
    return found if consent_of(host).uninstall else None


def report_both(seen: Machine) -> None:
    """Where packages and NVIDIA's installer were both here, its uninstaller would break both."""
    found = host.get_fact(DriverHost).run_file
    if found is None or found.is_ours or not seen.installed:
        return
    version = f" {found.version}" if found.version else ""
    fix = (
        f"`sudo {found.uninstaller} --uninstall --silent`, then `sudo apt-get install --reinstall` "
        "with the packages of the driver, and reboot"
        if found.uninstaller
        else "after checking the files that /var/lib/nvidia/log names, `sudo rm -r /var/lib/nvidia`"
    )
    notice(
        host,
        CONCERN,
        f"NVIDIA's own installer put driver{version} here beside packages that share its files: it "
        f"stays, with --remove-foreign-driver too; to remove it: {fix}",
    )


def is_in_place(seen: Machine, wanted: Resolution) -> bool:
    found = seen.run_file
    return (
        wanted.is_run_file
        and found is not None
        and found.state == "whole"
        and (found.version, found.flavor, found.set_)
        == (wanted.version, wanted.flavor, wanted.set_)
    )


def replaced_run_file(seen: Machine, wanted: Resolution) -> RunFile | None:
    """One that rigops installed, where another driver comes. The same, begun, is finished."""
    found = seen.run_file
    if found is None or not found.is_ours or is_in_place(seen, wanted):
        return None
    return None if found.state != "whole" and wanted.is_run_file else found


@operation()
def run_file_driver(*, wanted: Resolution) -> Generator[StreamingCommand, None, None]:
    """Have the driver of a .run file, which the vault on the host has, and nothing of another."""
    after = f"{wanted.version}, {wanted.flavor} modules, {wanted.set_}\n"
    announce(host, Change(CONCERN, "module", SUBJECT, None, after))
    options = (*_OPTIONS, *(() if wanted.set_ == "desktop" else _WITHOUT_A_DESKTOP))
    words = (
        f"{POOL}/{RUN_FILE_PREFIX}{wanted.version}.run", wanted.version, wanted.flavor, wanted.set_
    )  # fmt: skip
    call = shlex.join(("put_in_place", *words, *options))
    yield streaming_script(f"{INSTALL}{call}", timeout_s=_LONGEST_S)


@operation()
def run_file_driver_removed(
    *, found: RunFile, effect: str = ""
) -> Generator[StreamingCommand, None, None]:
    """Have no driver of NVIDIA's installer. The caller has consent for a foreign one."""
    if found.is_ours:
        before = f"{found.version}, {found.flavor} modules, {found.set_}\n"
        file = f"{POOL}/{RUN_FILE_PREFIX}{found.version}.run"
        program = (found.uninstaller,) if found.uninstaller else ("sh", file)
        text = f"{TAKE_AWAY}{shlex.join(('take_away', found.version, *program))}"
    else:
        before = f"{found.version or 'installed'}\n"
        text = shlex.join(("uninstall", found.uninstaller))
    announce(host, Change(CONCERN, "module", SUBJECT, before, None))
    notice(host, CONCERN, "this host has no driver until the new one is installed")
    yield streaming_script(f"{UNINSTALL}{text}\n{effect}", timeout_s=_LONGEST_S)
