"""apt's pin of the driver, and what unattended-upgrades leaves alone.

Once it is written, apt itself is asked whether it does what it is for: else all ends there.
"""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Final

from rigops.driver import pinning
from rigops.operations.owned_files import owned_file

if TYPE_CHECKING:
    from rigops.driver.request import Resolution

PREFERENCES: Final = "/etc/apt/preferences.d/rigops-nvidia.pref"
_UNATTENDED: Final = "/etc/apt/apt.conf.d/52rigops-nvidia"

# What apt would install of each package is what was resolved.
_ASSERT: Final = """\
pinned() {
    apt-cache policy "$@" | awk '/^[^ ]/ { name = $1; sub(/:$/, "", name) }
        /^  Candidate:/ { print name "=" $2 }'
}
expect_candidates() {
    names=$(for one; do echo "${one%%=*}"; done)
    # shellcheck disable=SC2086  # several names
    found=$(pinned $names)
    for one; do
        case "
$found
" in *"
$one
"*) ;; *)
            echo "in spite of the pin, apt has another candidate than $one; see" \\
                "apt-cache policy ${one%%=*}" >&2
            exit 1 ;;
        esac
    done
}
"""
# Beside the driver of a .run file there is none for it to install.
_NONE: Final = """\
found=$(apt-cache pkgnames | while read -r name; do
    case $name in {globs}) echo "$name" ;; esac
done | sort | xargs -r apt-cache policy | awk '/^[^ ]/ {{ name = $1 }}
    /^  Candidate:/ && $2 != "(none)" {{ print name " " $2 }}' | head -n 5)
[ -z "$found" ] || {{
    echo "in spite of the pin, apt would install packages of a driver:" $found >&2
    exit 1
}}
"""


def driver_pinned(*, concern: str, wanted: Resolution, kernels: bool, live: bool) -> None:
    """Have it pinned. `kernels`: they are kept as well; `live`: all of it was there before."""
    owned_file(
        name=PREFERENCES,
        concern=concern,
        path=PREFERENCES,
        content=pinning.preferences(wanted),
        effect=_assertion(wanted),
        live=live,
    )
    owned_file(
        name=_UNATTENDED,
        concern=concern,
        path=_UNATTENDED,
        content=pinning.unattended(wanted, kernels=kernels),
    )


def _assertion(wanted: Resolution) -> str:
    if wanted.is_run_file:
        globs = "|".join(one for one in pinning.OF_ANY_DRIVER if ":" not in one)
        return _NONE.format(globs=globs)
    words = [f"{name}={version}" for name, version in wanted.packages.items()]
    return f"{_ASSERT}{shlex.join(('expect_candidates', *words))}"
