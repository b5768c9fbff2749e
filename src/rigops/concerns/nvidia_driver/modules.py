"""The driver's modules for every kernel that can boot next, a hook, and NVIDIA's daemon."""

from __future__ import annotations

import shlex
from collections.abc import Generator, Mapping
from typing import Final

from pyinfra.api.operation import operation
from pyinfra.context import host

from rigops.concerns.nvidia_driver import NAME as CONCERN
from rigops.concerns.nvidia_driver.facts import DriverModules
from rigops.concerns.nvidia_driver.resolver.machine import Machine
from rigops.facts.sections import Uname
from rigops.hostside.packing import MODE, installed_at
from rigops.ownership.owned_files import owned_file, owned_program
from rigops.plan.change import Change
from rigops.plan.commands import StreamingCommand, streaming_script
from rigops.plan.context import announce
from rigops.probe.sections.nvidia_modinfo import ModuleOnDisk
from rigops.rendering import render

_LONGEST_S: Final = 3 * 3600  # for each kernel, on a slow machine
_BRIEFLY_S: Final = 60

INITRAMFS: Final = """\
if command -v update-initramfs >/dev/null; then update-initramfs -u -k all >/dev/null
elif command -v dracut >/dev/null; then dracut -q -f --regenerate-all
elif command -v mkinitcpio >/dev/null; then mkinitcpio -P >/dev/null; fi"""
PROGRAM: Final = installed_at("kernel_hook")
# Before dkms in the order of run-parts: of hooks after one that fails, none is run.
HOOKS: Final = (
    "/etc/kernel/postinst.d/00-rigops-nvidia",
    "/etc/kernel/header_postinst.d/00-rigops-nvidia",
)

_UNIT: Final = "nvidia-persistenced.service"
_OWN_UNIT: Final = f"/etc/systemd/system/{_UNIT}"
_DROP_IN: Final = f"{_OWN_UNIT}.d/rigops.conf"
_ENABLED: Final = f"systemctl --quiet --no-reload reenable {_UNIT}"
# The unit may have gone with its package.
_DISABLED: Final = f"systemctl --quiet --no-reload disable {_UNIT} 2>/dev/null || :"
PERSISTENCE_ABSENCE: Final[Mapping[str, str]] = {_OWN_UNIT: _DISABLED, _DROP_IN: _DISABLED}

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
# DKMS writes a failure to a log, of which the first error is the cause. A module that it
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
        printed=$(dkms autoinstall -k "$kernel" 2>&1) || :
        found=$(version_for "$kernel")
        if [ "$found" != "$version" ]; then
            echo "no NVIDIA module $version was built for $kernel, which could boot next:" \\
                "$found" >&2
            for log in /var/lib/dkms/nvidia*/"$version"/build/make.log; do
                [ ! -e "$log" ] || { grep -m 3 -i 'error' "$log" >&2; echo "see $log" >&2; }
            done
            echo "$printed" | tail -n 3 >&2
            exit 1
        fi
        [ -n "$key" ] && [ "$(key_for "$kernel")" != "$key" ] || continue
        echo "building it again, signed with the key that is enrolled"
        printed=$(again "$kernel" 2>&1) || :
        signed=$(key_for "$kernel")
        [ "$signed" != "$key" ] || continue
        echo "Secure Boot would refuse the NVIDIA module $version for $kernel: its signature is" \\
            "of the key $signed, and enrolled is $key" >&2
        echo "$printed" | grep -i 'sign' | tail -n 3 >&2
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
def driver_modules(
    *,
    version: str,
    kernels: tuple[str, ...],
    effect: str = "",
    key: str = "",
    prebuilt: bool = False,
) -> Generator[StreamingCommand, None, None]:
    """Have the driver's modules in this version for each of these kernels.

    + effect: what is to be run where some were built
    + key: the serial number of the key that they have to be signed with; empty: with any or none
    + prebuilt: they are the distribution's own, and none is built
    """
    lacking = _lacking(version, kernels, key)
    if not lacking:
        host.noop(f"every kernel has the NVIDIA module {version}")
    elif prebuilt:
        text = f"{_LOOK}{_FIND}{shlex.join(('find_prebuilt', version, *lacking))}"
        yield streaming_script(text, timeout_s=_BRIEFLY_S)
    else:
        text = f"{_LOOK}{_BUILD}{shlex.join(('build', version, key, *lacking))}\n{effect}"
        yield streaming_script(text, timeout_s=_LONGEST_S)


def kernel_hook(*, concern: str) -> None:
    """Have a new kernel without the pinned module reported, by the program of ``notify``."""
    owned_program(name=PROGRAM, concern=concern, program="kernel_hook")
    content = render("kernel-hook.sh.j2", program=PROGRAM)
    for path in HOOKS:
        owned_file(name=path, concern=concern, path=path, content=content, mode=MODE)


def persistence_daemon(machine: Machine, *, by_run_file: bool) -> None:
    """Have NVIDIA's daemon started at every boot, after what brings the program.

    It is started with persistence on, as each distribution needs it. Debian's unit does so when it
    is installed. Ubuntu's is started by udev, switches persistence off and has no [Install]
    section, so that it cannot be enabled: there it takes a drop-in. NVIDIA's own installer brings
    the program, and no unit.
    """
    if by_run_file:
        path, template = _OWN_UNIT, "nvidia-persistenced.service.j2"
    elif machine.distribution == "ubuntu":
        path, template = _DROP_IN, "nvidia-persistenced.conf.j2"
    else:
        return
    owned_file(name=path, concern=CONCERN, path=path, content=render(template), effect=_ENABLED)


def subject(kernel: str) -> str:
    return f"NVIDIA modules for Linux {kernel}"


def _lacking(version: str, kernels: tuple[str, ...], key: str) -> list[str]:
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
        before, signed, required = None, "", ""
        if key:
            required = f", signed with {key}"
            own_key = _signed_with(there) if there else ""
            signed = f", signed with {own_key}" if own_key else ", not signed"
        if there and there.version:
            before = f"{there.version}{signed}\n"
        after = f"{version}{required}\n"
        announce(host, Change(CONCERN, "module", subject(kernel), before, after))
    return lacking


def _signed_with(there: ModuleOnDisk) -> str:
    """Of which key; as openssl writes a certificate's number."""
    return (there.sig_key or "").replace(":", "").lstrip("0").upper()
