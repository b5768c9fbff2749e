"""The ground that a driver stands on: kernels that can boot next, and who else put a driver there.

As facts, with what the probe's own sections say of modules, packages and Secure Boot.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, Literal

from rigops.facts.sections import SectionFact
from rigops.probe.section import Section
from rigops.probe.sections import nvidia_modinfo, nvidia_version, packages, secure_boot
from rigops.probe.text import blocks, lines

_KERNELS: Final = "kernels"
_KEY: Final = "key"
_RUN_FILE: Final = "run-file"
_CONTAINER: Final = "container"
_LINE = re.compile(r"(?P<release>[A-Za-z0-9][A-Za-z0-9._+~-]*) (?P<headers>headers|none)")
_RUN_FILE_LINE = re.compile(r"/usr/bin/nvidia-(?:un)?install(?:er)?")
_UNINSTALLER: Final = "/usr/bin/nvidia-uninstall"

Key = Literal["enrolled", "not enrolled"]


@dataclass(frozen=True)
class KernelImage:
    release: str
    has_headers: bool


@dataclass(frozen=True, kw_only=True)
class Ground:
    """`kernels` have an image in /boot. `key`: DKMS's own, to sign with; None: nobody can say."""

    kernels: tuple[KernelImage, ...] = ()
    key: Key | None = None
    uninstaller: str = ""  # of a driver that came from NVIDIA's own installer
    is_container: bool = False  # its kernel is that of the machine around it
    unread: tuple[str, ...] = ()


def parse(text: str) -> Ground:
    found = blocks(text)
    said = [line for line in lines(found.get(_KERNELS, "")) if line.strip()]
    shapes = [(line, _LINE.fullmatch(line)) for line in said]
    files = [line for line in lines(found.get(_RUN_FILE, "")) if _RUN_FILE_LINE.fullmatch(line)]
    return Ground(
        kernels=tuple(
            KernelImage(shape["release"], shape["headers"] == "headers")
            for _, shape in shapes
            if shape
        ),
        key=_key(found.get(_KEY, "")),
        uninstaller=_UNINSTALLER if files else "",
        is_container=_CONTAINER in found,
        unread=tuple(line for line, shape in shapes if not shape),
    )


def _key(said: str) -> Key | None:
    if "is already enrolled" in said:
        return "enrolled"
    return "not enrolled" if "is not enrolled" in said else None


# A package's own uninstaller would be no run file: none has one.
SECTION: Final = Section(
    name="driver-ground",
    snippet=f"""
echo "== {_KERNELS}"
for image in /boot/vmlinuz-* /boot/vmlinux-*; do
    [ -e "$image" ] || continue
    kernel=${{image##*/vmlinu[xz]-}}
    if [ -e "/lib/modules/$kernel/build/." ]; then echo "$kernel headers"
    else echo "$kernel none"; fi
done
if [ -e /run/systemd/container ] ||
    tr '\\0' '\\n' 2>/dev/null </proc/1/environ | grep -q '^container='; then
    echo "== {_CONTAINER}"
fi
echo "== {_RUN_FILE}"
ls /usr/bin/nvidia-uninstall /usr/bin/nvidia-installer 2>/dev/null
if [ -d /sys/firmware/efi ] && command -v mokutil >/dev/null; then
    echo "== {_KEY}"
    for key in /var/lib/dkms/mok.pub /var/lib/shim-signed/mok/MOK.der; do
        [ -e "$key" ] || continue
        mokutil --test-key "$key" 2>&1
        break
    done
fi
exit 0
""",
    parse=parse,
    wants_root=True,
)


class DriverGround(SectionFact[Ground]):
    section = SECTION


class DriverLoaded(SectionFact[nvidia_version.NvidiaVersion]):
    section = nvidia_version.SECTION


class DriverModules(SectionFact[nvidia_modinfo.NvidiaModinfo]):
    section = nvidia_modinfo.SECTION


class DriverPackages(SectionFact[packages.Packages]):
    section = packages.SECTION


class SecureBoot(SectionFact[secure_boot.SecureBoot]):
    section = secure_boot.SECTION
