"""The driver's modules, built for every kernel that can boot next."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Final

from pyinfra.api.operation import operation
from pyinfra.context import host

from rigops.facts.driver_ground import DriverModules
from rigops.facts.sections import Uname
from rigops.operations.change import Change, announce
from rigops.operations.telling import Telling

if TYPE_CHECKING:
    from collections.abc import Generator

_LONGEST_S: Final = 3 * 3600  # for each kernel, on a slow machine

# What DKMS says of a failure is in a log, of which the first error is the cause.
_BUILD: Final = """\
set -eu
PATH=/usr/sbin:/usr/bin:/sbin:/bin
export PATH LC_ALL=C
unset CDPATH
version_for() {
    for name in nvidia nvidia-current nvidia-current-open nvidia-open; do
        modinfo -k "$1" -F version "$name" 2>/dev/null && return
    done
    for file in $(find "/lib/modules/$1" -name 'nvidia-tesla*.ko*' 2>/dev/null); do
        modinfo -F version "$file" 2>/dev/null && return
    done
    echo none
}
build() {
    version=$1; shift
    command -v dkms >/dev/null || { echo "dkms is not installed" >&2; exit 1; }
    for kernel; do
        echo "building the NVIDIA module $version for $kernel"
        said=$(dkms autoinstall -k "$kernel" 2>&1) || :
        found=$(version_for "$kernel" | head -n 1)
        [ "$found" != "$version" ] || continue
        echo "no NVIDIA module $version was built for $kernel, which could boot next: $found" >&2
        for log in /var/lib/dkms/nvidia*/"$version"/build/make.log; do
            [ ! -e "$log" ] || { grep -m 3 -i 'error' "$log" >&2; echo "see $log" >&2; }
        done
        echo "$said" | tail -n 3 >&2
        exit 1
    done
}
"""


def built_for(wanted: str, kernels: tuple[str, ...]) -> tuple[str, ...]:
    """Those of the kernels that have no module of this version."""
    return tuple(kernel for kernel, found in _versions(kernels).items() if found != wanted)


@operation()
def modules_built(
    *, concern: str, version: str, kernels: tuple[str, ...]
) -> Generator[Telling, None, None]:
    """Have the driver's modules in this version for each of these kernels, headers given.

    + concern: the deploy that wants them
    + version: NVIDIA's
    + kernels: those that can boot next
    """
    found = _versions(kernels)
    lacking = [kernel for kernel in kernels if found[kernel] != version]
    if not lacking:
        host.noop(f"every kernel has the NVIDIA module {version}")
        return
    for kernel in lacking:
        before = found[kernel]
        announce(
            host,
            Change(
                concern=concern,
                kind="module",
                subject=f"NVIDIA modules for Linux {kernel}",
                before=f"{before}\n" if before else None,
                after=f"{version}\n",
            ),
        )
    text = f"{_BUILD}{shlex.join(('build', version, *lacking))}\n"
    yield Telling("sh", "-s", _stdin=text, _timeout=_LONGEST_S)


def _versions(kernels: tuple[str, ...]) -> dict[str, str | None]:
    running = host.get_fact(Uname).release
    modules = host.get_fact(DriverModules).modules
    by_kernel = {one.kernel or running: one.version for one in modules}
    return {kernel: by_kernel.get(kernel) for kernel in kernels}
