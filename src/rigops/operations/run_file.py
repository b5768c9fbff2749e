"""A driver of NVIDIA's from its .run file: put in place by its own installer, and taken away by it.

What that does is in its published source. It would build modules for one kernel, and before 545 it
does nothing beside a driver that is in use: so it is asked for all but the modules, and DKMS is
given their source, with the instructions for it that the file has. A mark says what was begun, and
afterwards, by the digest of the installer's own log, that all of it came from here.
"""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Final

from pyinfra.api.operation import operation
from pyinfra.context import host

from rigops.facts.driver_ground import MARK
from rigops.operations.change import Change, announce, notice
from rigops.operations.foreign_driver import SUBJECT, UNINSTALL
from rigops.operations.telling import telling_script
from rigops.vault.kept import CALLED, FOLDER, POOL

if TYPE_CHECKING:
    from collections.abc import Generator

    from rigops.driver.machine import Machine, RunFile
    from rigops.driver.request import Resolution
    from rigops.operations.telling import Telling

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
mark() {{
    echo "$1" >{MARK}.rigops-new
    sync {MARK}.rigops-new
    mv -f {MARK}.rigops-new {MARK}
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
    file=$1 version=$2 flavour=$3 set=$4
    shift 4
    rm -rf {FOLDER}/work.??????
    has_room "$(stat -c %s "$file")"
    work=$(mktemp -d {FOLDER}/work.XXXXXX)
    trap 'rm -rf "$work"' EXIT
    trap 'exit 143' HUP INT TERM
    say "unpacking NVIDIA's installer of driver $version"
    code=0
    (cd "$work" && sh "$file" --extract-only) </dev/null >"$work/said" 2>&1 || code=$?
    driver=$work/{CALLED}$version source=kernel
    [ "$flavour" = proprietary ] || source=kernel-open
    if [ "$code" != 0 ] || [ ! -x "$driver/nvidia-installer" ]; then
        failed "$code" "$file could not be unpacked"
    fi
    [ -f "$driver/$source/dkms.conf" ] || {{
        echo "$file has no $flavour modules in it that DKMS could build" >&2
        exit 1
    }}
    mark "begun $version $flavour $set -"
    say "NVIDIA's installer of driver $version is at work"
    # What is begun comes to its end, whether or not anybody still listens.
    trap '' HUP INT PIPE TERM
    setsid --wait env TMPDIR="$work" "$driver/nvidia-installer" --silent "$@" \\
        </dev/null >"$work/said" 2>&1 || code=$?
    if [ "$code" != 0 ] || ! is_there "$version"; then
        failed "$code" "NVIDIA's installer did not put driver $version in place"
    fi
    forgotten "$version"
    given_to_dkms "$driver/$source" "$version"
    digest=$(sha256sum <"$log")
    mark "whole $version $flavour $set ${{digest%% *}}"
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


def is_in_place(seen: Machine, wanted: Resolution) -> bool:
    found = seen.run_file
    return (
        wanted.is_run_file
        and found is not None
        and found.whose == "whole"
        and (found.version, found.flavour, found.set_)
        == (wanted.version, wanted.flavour, wanted.set_)
    )


def that_goes(seen: Machine, wanted: Resolution) -> RunFile | None:
    """One that rigops put there, where another driver comes. The same, begun, is done once more."""
    found = seen.run_file
    if found is None or not found.is_ours or is_in_place(seen, wanted):
        return None
    is_begun = found.whose != "whole"
    return None if is_begun and wanted.is_run_file else found


@operation()
def run_file_driver(*, concern: str, wanted: Resolution) -> Generator[Telling, None, None]:
    """Have the driver of a .run file, which the vault on the host has, and nothing of another.

    + concern: the deploy that wants it
    + wanted: the driver, as it was resolved
    """
    after = f"{wanted.version}, {wanted.flavour} modules, {wanted.set_}\n"
    announce(host, Change(concern, "module", SUBJECT, None, after))
    options = (*_OPTIONS, *(() if wanted.set_ == "desktop" else _WITHOUT_A_DESKTOP))
    words = (
        f"{POOL}/{CALLED}{wanted.version}.run", wanted.version, wanted.flavour, wanted.set_
    )  # fmt: skip
    call = shlex.join(("put_in_place", *words, *options))
    yield telling_script(f"{INSTALL}{call}", timeout_s=_LONGEST_S)


@operation()
def run_file_driver_removed(*, concern: str, found: RunFile) -> Generator[Telling, None, None]:
    """Have nothing of a .run file's driver that rigops put there.

    + concern: the deploy that puts another one in its place
    + found: what there is of it
    """
    before = f"{found.version}, {found.flavour} modules, {found.set_}\n"
    announce(host, Change(concern, "module", SUBJECT, before, None))
    notice(host, concern, "until the new driver is installed, this machine has none")
    file = f"{POOL}/{CALLED}{found.version}.run"
    program = (found.uninstaller,) if found.uninstaller else ("sh", file)
    call = shlex.join(("take_away", found.version, *program))
    yield telling_script(f"{UNINSTALL}{TAKE_AWAY}{call}", timeout_s=_LONGEST_S)
