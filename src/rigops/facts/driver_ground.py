"""The ground that a driver stands on: kernels that can boot next, and who else put a driver there.

As facts, with what the probe's own sections say of modules, packages and Secure Boot.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, Literal

from rigops.driver.machine import RunFile
from rigops.facts.sections import SectionFact
from rigops.probe.section import Section
from rigops.probe.sections import nvidia_modinfo, nvidia_version, packages, secure_boot
from rigops.probe.text import blocks, lines

MARK: Final = "/var/lib/rigops/run-file"  # of a .run file's driver that rigops put there

_KERNELS: Final = "kernels"
_KEY: Final = "key"
_RUN_FILE: Final = "run-file"
_CONTAINER: Final = "container"
_LINE = re.compile(r"(?P<release>[A-Za-z0-9][A-Za-z0-9._+~-]*) (?P<headers>headers|none)")
_LOG: Final = "log "
_LOGGED = re.compile(r".*\((?P<version>[0-9]+(?:\.[0-9]+)+)\)")
_SERIAL = re.compile(r"serial=0*(?P<number>[0-9A-F]+)")
_MARK: Final = "mark "
_MARKED = re.compile(
    r"(?P<stage>begun|whole) (?P<version>[0-9]+(?:\.[0-9]+)+) (?P<flavour>open|proprietary)"
    r" (?P<set>compute|desktop) (?P<log>[0-9a-f]{64}|-)"
)
_DIGEST: Final = "digest "
_UNINSTALLERS: Final = ("/usr/bin/nvidia-uninstall", "/usr/bin/nvidia-installer")

Key = Literal["enrolled", "enrolling", "not enrolled"]


@dataclass(frozen=True)
class KernelImage:
    release: str
    has_headers: bool


@dataclass(frozen=True, kw_only=True)
class Ground:
    """`kernels` have an image in /boot. `key`: DKMS's own, to sign with; None: nobody can say.

    A key that is enrolling waits for somebody at the machine's console.
    """

    kernels: tuple[KernelImage, ...] = ()
    key: Key | None = None
    certificate: str = ""  # the file with that key's certificate
    serial: str = ""  # which signatures name that key by
    run_file: RunFile | None = None
    is_container: bool = False  # its kernel is that of the machine around it
    unread: tuple[str, ...] = ()


def parse(text: str) -> Ground:
    found = blocks(text)
    said = [line for line in lines(found.get(_KERNELS, "")) if line.strip()]
    shapes = [(line, _LINE.fullmatch(line)) for line in said]
    key = lines(found.get(_KEY, ""))
    return Ground(
        kernels=tuple(
            KernelImage(shape["release"], shape["headers"] == "headers")
            for _, shape in shapes
            if shape
        ),
        key=_key("\n".join(key)),
        certificate=next((line for line in key if line.startswith("/")), ""),
        serial=next((shape["number"] for line in key if (shape := _SERIAL.fullmatch(line))), ""),
        run_file=_run_file(lines(found.get(_RUN_FILE, ""))),
        is_container=_CONTAINER in found,
        unread=tuple(line for line, shape in shapes if not shape),
    )


def _key(said: str) -> Key | None:
    if "is already enrolled" in said:
        return "enrolled"
    if "is already in the enrollment request" in said:
        return "enrolling"
    return "not enrolled" if "is not enrolled" in said else None


def _run_file(said: list[str]) -> RunFile | None:
    """NVIDIA's installer believes its log, which goes last when it uninstalls, after itself.

    The mark of rigops has that log's digest: with another one somebody else was at it since.
    """
    logged = next((line.removeprefix(_LOG) for line in said if line.startswith(_LOG)), None)
    uninstaller = next((line for line in said if line in _UNINSTALLERS), "")
    digest = next((line.removeprefix(_DIGEST) for line in said if line.startswith(_DIGEST)), "")
    marks = (_MARKED.fullmatch(line.removeprefix(_MARK)) for line in said)
    mark = next(filter(None, marks), None)
    if mark and (mark["stage"] == "begun" or mark["log"] == digest):
        return RunFile(
            uninstaller,
            mark["version"],
            "whole" if mark["stage"] == "whole" else "begun by rigops",
            "open" if mark["flavour"] == "open" else "proprietary",
            "desktop" if mark["set"] == "desktop" else "compute",
        )
    if logged is None and not uninstaller:
        return None
    shape = _LOGGED.fullmatch((logged or "").strip())
    return RunFile(uninstaller, shape["version"] if shape else "")


# No package has an uninstaller, or a log, of these names.
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
for file in {" ".join(_UNINSTALLERS)}; do
    if [ -x "$file" ]; then echo "$file"; fi
done
if [ -e /var/lib/nvidia/log ]; then
    echo "{_LOG}$(head -n 1 /var/lib/nvidia/log)"
    digest=$(sha256sum </var/lib/nvidia/log)
    echo "{_DIGEST}${{digest%% *}}"
fi
if [ -e {MARK} ]; then echo "{_MARK}$(head -n 1 {MARK})"; fi
if [ -d /sys/firmware/efi ] && command -v mokutil >/dev/null; then
    echo "== {_KEY}"
    certificate=$(cat /etc/dkms/framework.conf /etc/dkms/framework.conf.d/*.conf 2>/dev/null |
        sed -n 's/^[[:blank:]]*mok_certificate=//p' | tail -n 1 | tr -d '\\042\\047')
    if [ -z "$certificate" ]; then
        certificate=/var/lib/dkms/mok.pub
        ! grep -q '^ID="*ubuntu"*$' /etc/os-release ||
            certificate=/var/lib/shim-signed/mok/MOK.der
    fi
    if [ -e "$certificate" ]; then
        echo "$certificate"
        mokutil --test-key "$certificate" 2>&1
        openssl x509 -inform DER -in "$certificate" -noout -serial 2>/dev/null
    fi
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
