"""The borg of Debian 13 on a host of Debian 12, from a tree of its own."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING, Final

from tests.lab import bootstrap, cache
from tests.lab.borg_host import WRAPPER
from tests.lab.hosts import ssh_command

if TYPE_CHECKING:
    from pathlib import Path

    from tests.lab.borg_host import BorgHost

_PACKAGES: Final = ("borgbackup", "openssh-client")
_SUITE: Final = "trixie"
_TREE: Final = "/opt/trixie"
_WRAPPER_TEXT: Final = f"""#!/bin/bash
if [ -z "$here" ]; then
    here=$(pwd -P); export here
    exec unshare -m "$0" "$@"
fi
for one in data mnt var/lib/rigops var/cache/rigops etc/rigops root run dev proc; do
    mkdir -p /$one {_TREE}/$one
    mount --rbind /$one {_TREE}/$one
done
exec chroot {_TREE} /bin/sh -c 'cd "$here" && exec /usr/bin/borg "$@"' borg "$@"
"""


def install_14(on: BorgHost) -> None:
    tree = cache.built("borg14", f"{_SUITE}-1", _build_tree) / "root"
    with subprocess.Popen(
        ["tar", "-C", str(tree), "-cf", "-", "--exclude=./dev/*", "."], stdout=subprocess.PIPE
    ) as packed:
        subprocess.run(
            [*ssh_command(), f"root@{on.host.name}", f"mkdir -p {_TREE}; tar -xf - -C {_TREE}"],
            check=True,
            stdin=packed.stdout,
        )


def use_14(on: BorgHost) -> None:
    on.does(f"cat >{WRAPPER}; chmod 755 {WRAPPER}", _WRAPPER_TEXT)


def _build_tree(new: Path) -> None:
    bootstrap.make("borg of Debian 13", new / "root", _PACKAGES, suite=_SUITE)
