"""The driver's modules, for every kernel that can boot next, and signed where that counts."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Final

from pyinfra.api.operation import operation
from pyinfra.context import host

from rigops.concerns.nvidia_driver.facts import DriverModules
from rigops.facts.sections import Uname
from rigops.plan.change import Change
from rigops.plan.context import announce
from rigops.plan.streaming import streaming_script

if TYPE_CHECKING:
    from collections.abc import Generator

    from rigops.plan.streaming import StreamingCommand
    from rigops.probe.sections.nvidia_modinfo import ModuleOnDisk

_LONGEST_S: Final = 3 * 3600  # for each kernel, on a slow machine
_BRIEFLY_S: Final = 60

_LOOK: Final = """\
set -eu
PATH=/usr/sbin:/usr/bin:/sbin:/bin
export PATH LC_ALL=C
unset CDPATH
field_for() {
    for name in nvidia nvidia-current nvidia-current-open nvidia-open; do
        modinfo -k "$1" -F "$2" "$name" 2>/dev/null && return
    done
    for file in $(find "/lib/modules/$1" -name 'nvidia-tesla*.ko*' 2>/dev/null); do
        modinfo -F "$2" "$file" 2>/dev/null && return
    done
}
version_for() {
    found=$(field_for "$1" version | head -n 1)
    echo "${found:-none}"
}
key_for() {
    found=$(field_for "$1" sig_key | head -n 1 | tr -d ':' | sed 's/^0*//')
    echo "${found:-none}"
}
"""
# What DKMS says of a failure is in a log, of which the first error is the cause. A module that it
# built before there was a key, or with another one, it builds again only when it is forced to.
_BUILD: Final = """\
again() {
    dkms status -k "$1" 2>/dev/null | tr ',:' '//' | while IFS='/ ' read -r name its _; do
        [ "$its" = "$version" ] || continue
        dkms remove -m "$name" -v "$its" -k "$1" && dkms install -m "$name" -v "$its" -k "$1"
    done
}
build() {
    version=$1 key=$2; shift 2
    command -v dkms >/dev/null || { echo "dkms is not installed" >&2; exit 1; }
    for kernel; do
        echo "building the NVIDIA module $version for $kernel"
        said=$(dkms autoinstall -k "$kernel" 2>&1) || :
        found=$(version_for "$kernel")
        if [ "$found" != "$version" ]; then
            echo "no NVIDIA module $version was built for $kernel, which could boot next:" \\
                "$found" >&2
            for log in /var/lib/dkms/nvidia*/"$version"/build/make.log; do
                [ ! -e "$log" ] || { grep -m 3 -i 'error' "$log" >&2; echo "see $log" >&2; }
            done
            echo "$said" | tail -n 3 >&2
            exit 1
        fi
        [ -n "$key" ] && [ "$(key_for "$kernel")" != "$key" ] || continue
        echo "building it again, signed with the key that is enrolled"
        said=$(again "$kernel" 2>&1) || :
        signed=$(key_for "$kernel")
        [ "$signed" != "$key" ] || continue
        echo "Secure Boot would refuse the NVIDIA module $version for $kernel: its signature is" \\
            "of the key $signed, and enrolled is $key" >&2
        echo "$said" | grep -i 'sign' | tail -n 3 >&2
        exit 1
    done
}
"""
_FIND: Final = """\
find_prebuilt() {
    version=$1; shift
    for kernel; do
        found=$(version_for "$kernel")
        [ "$found" != "$version" ] || continue
        echo "the distribution's modules for $kernel are not those of $version: $found; see" \\
            "dpkg -l 'linux-modules-nvidia-*'" >&2
        exit 1
    done
}
"""


@operation()
def modules_built(
    *, concern: str, version: str, kernels: tuple[str, ...], effect: str, key: str = ""
) -> Generator[StreamingCommand, None, None]:
    """Have the driver's modules in this version for each of these kernels, headers given.

    + concern: the deploy that wants them
    + version: NVIDIA's
    + kernels: those that can boot next
    + effect: what is to be run where some were built
    + key: the serial number of the key that they have to be signed with; empty: with any or none
    """
    lacking = _lacking(concern, version, kernels, key)
    if not lacking:
        host.noop(f"every kernel has the NVIDIA module {version}")
        return
    text = f"{_LOOK}{_BUILD}{shlex.join(('build', version, key, *lacking))}\n{effect}"
    yield streaming_script(text, timeout_s=_LONGEST_S)


@operation()
def modules_brought(
    *, concern: str, version: str, kernels: tuple[str, ...]
) -> Generator[StreamingCommand, None, None]:
    """See that the distribution's own modules are of this version for each of these kernels.

    + concern: the deploy that wants them
    + version: NVIDIA's
    + kernels: those that can boot next
    """
    lacking = _lacking(concern, version, kernels)
    if not lacking:
        host.noop(f"every kernel has the NVIDIA module {version}")
        return
    text = f"{_LOOK}{_FIND}{shlex.join(('find_prebuilt', version, *lacking))}"
    yield streaming_script(text, timeout_s=_BRIEFLY_S)


def subject(kernel: str) -> str:
    return f"NVIDIA modules for Linux {kernel}"


def _lacking(concern: str, version: str, kernels: tuple[str, ...], key: str = "") -> list[str]:
    """The kernels that have no such module; each is announced."""
    running = host.get_fact(Uname).release
    modules = host.get_fact(DriverModules).modules
    by_kernel = {one.kernel or running: one for one in modules}
    lacking = []
    for kernel in kernels:
        there = by_kernel.get(kernel)
        if there and there.version == version and (not key or _signed_with(there) == key):
            continue
        lacking.append(kernel)
        before, after = _described(there, key), f"{version}, signed with {key}" if key else version
        announce(
            host,
            Change(
                concern=concern,
                kind="module",
                subject=subject(kernel),
                before=f"{before}\n" if before else None,
                after=f"{after}\n",
            ),
        )
    return lacking


def _described(there: ModuleOnDisk | None, key: str) -> str:
    if there is None or not there.version:
        return ""
    if not key:
        return there.version
    signed = _signed_with(there)
    return f"{there.version}, {f'signed with {signed}' if signed else 'not signed'}"


def _signed_with(there: ModuleOnDisk) -> str:
    """Of which key; as openssl writes a certificate's number."""
    return (there.sig_key or "").replace(":", "").lstrip("0").upper()
