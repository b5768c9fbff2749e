"""A driver that NVIDIA's own installer put there: taken away by its own uninstaller."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Final

from pyinfra.api.operation import operation
from pyinfra.context import host

from rigops.operations.change import Change, announce, notice
from rigops.operations.telling import Telling

if TYPE_CHECKING:
    from collections.abc import Generator

_LONGEST_S: Final = 900
_UNINSTALL: Final = """\
set -eu
PATH=/usr/sbin:/usr/bin:/sbin:/bin
export PATH LC_ALL=C
unset CDPATH
uninstall() {
    echo "NVIDIA's own uninstaller is at work"
    "$1" --silent </dev/null >/dev/null 2>&1 || {
        echo "$1 --silent failed; see /var/log/nvidia-uninstall.log" >&2
        exit 1
    }
    if [ -e "$1" ]; then
        echo "$1 is still there after it was run; see /var/log/nvidia-uninstall.log" >&2
        exit 1
    fi
}
"""


@operation()
def foreign_driver_removed(*, concern: str, uninstaller: str) -> Generator[Telling, None, None]:
    """Have no driver that came from NVIDIA's installer. Whoever wants this has consent for it.

    + concern: the deploy that puts another one in its place
    + uninstaller: the program that it left for that
    """
    if not uninstaller:
        host.noop("no driver came from NVIDIA's own installer")
        return
    announce(host, Change(concern, "module", f"driver of {uninstaller}", "installed\n", None))
    notice(host, concern, "until the new driver is installed, this machine has none")
    yield Telling(
        "sh", "-s", _stdin=f"{_UNINSTALL}{shlex.join(('uninstall', uninstaller))}\n",
        _timeout=_LONGEST_S,
    )  # fmt: skip
