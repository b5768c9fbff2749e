"""The section with kernels, Secure Boot's key and a .run driver, and the machine made of all."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Final, Literal

from rigops.catalog.loader import Catalog
from rigops.catalog.lookup import find_gpu, find_unlisted
from rigops.concerns.nvidia_driver.apt_offers import Offered
from rigops.concerns.nvidia_driver.resolver.machine import Card, Kernel, Machine, RunFile
from rigops.concerns.nvidia_driver.resolver.offers import is_shared
from rigops.dataclass import dataclass
from rigops.packages import sources
from rigops.packages.dpkg import Manager
from rigops.probe.package_names import RUN_FILE, is_driver, is_driver_tool
from rigops.probe.section import Section
from rigops.probe.sections.nvidia_modinfo import NvidiaModinfo
from rigops.probe.sections.os_release import OsRelease
from rigops.probe.sections.packages import Packages
from rigops.probe.sections.pci import Pci, PciFunction
from rigops.probe.sections.secure_boot import SecureBoot
from rigops.probe.sections.uname import Uname
from rigops.probe.text import blocks, lines

MARK: Final = "/var/lib/rigops/run-file"  # of a .run file's driver that rigops put there

_KERNELS: Final = "kernels"
_KEY: Final = "key"
_RUN_FILE: Final = "run-file"
_CONTAINER: Final = "container"
_LINE = re.compile(r"(?P<release>[A-Za-z0-9][A-Za-z0-9._+~-]*) (?P<headers>headers|none)")
_LOG: Final = "log "
_LOGGED = re.compile(r".*\((?P<version>[0-9]+(?:\.[0-9]+)+)\)")
_SERIAL = re.compile(r"serial=(?P<number>[0-9A-F]+)")
_MARK: Final = "mark "
_MARKED = re.compile(
    r"(?P<stage>begun|whole) (?P<version>[0-9]+(?:\.[0-9]+)+) (?P<flavor>open|proprietary)"
    r" (?P<set>compute|desktop) (?P<log>[0-9a-f]{64}|-)"
)
_DIGEST: Final = "digest "
_UNINSTALLERS: Final = ("/usr/bin/nvidia-uninstall", "/usr/bin/nvidia-installer")

_MANAGERS: Final[Mapping[str, Manager]] = {"dpkg": "apt", "pacman": "pacman", "rpm": "dnf"}

Key = Literal["enrolled", "enrolling", "not enrolled"]
_KEYS: Final[Mapping[str, Key]] = {  # by what mokutil prints
    "is already enrolled": "enrolled",
    "is already in the enrollment request": "enrolling",
    "is not enrolled": "not enrolled",
}


@dataclass(frozen=True, kw_only=True)
class DriverHostFacts:
    """`kernels` have an image in /boot. `key`: DKMS's own, to sign with; None: not known.

    A key that is enrolling waits for a person at the machine's console.
    """

    kernels: tuple[Kernel, ...] = ()
    key: Key | None = None
    certificate: str = ""  # the file with that key's certificate
    serial: str = ""  # which signatures name that key by
    run_file: RunFile | None = None
    is_container: bool = False  # its kernel is that of the machine around it


def parse(text: str) -> DriverHostFacts:
    found = blocks(text)
    shapes = map(_LINE.fullmatch, lines(found.get(_KERNELS, "")))
    key = lines(found.get(_KEY, ""))
    return DriverHostFacts(
        kernels=tuple(
            Kernel(shape["release"], shape["headers"] == "headers") for shape in shapes if shape
        ),
        key=next((state for words, state in _KEYS.items() if words in "\n".join(key)), None),
        certificate=next((line for line in key if line.startswith("/")), ""),
        serial=next(
            (shape["number"].lstrip("0") for line in key if (shape := _SERIAL.fullmatch(line))), ""
        ),
        run_file=_run_file(lines(found.get(_RUN_FILE, ""))),
        is_container=_CONTAINER in found,
    )


def _run_file(printed: list[str]) -> RunFile | None:
    """NVIDIA's installer believes its log, which goes last when it uninstalls, after itself.

    The mark of rigops has that log's digest: with another one, something changed the driver since.
    """
    logged = next((line.removeprefix(_LOG) for line in printed if line.startswith(_LOG)), None)
    uninstaller = next((line for line in printed if line in _UNINSTALLERS), "")
    digest = next((line.removeprefix(_DIGEST) for line in printed if line.startswith(_DIGEST)), "")
    marks = (_MARKED.fullmatch(line.removeprefix(_MARK)) for line in printed)
    mark = next(filter(None, marks), None)
    if mark and (mark["stage"] == "begun" or mark["log"] == digest):
        return RunFile(
            uninstaller,
            mark["version"],
            "whole" if mark["stage"] == "whole" else "begun by rigops",
            "open" if mark["flavor"] == "open" else "proprietary",
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
block "{_KERNELS}"
for image in /boot/vmlinuz-* /boot/vmlinux-*; do
    [ -e "$image" ] || continue
    kernel=${{image##*/vmlinu[xz]-}}
    if [ -e "/lib/modules/$kernel/build/." ]; then echo "$kernel headers"
    else echo "$kernel none"; fi
done
if [ -e /run/systemd/container ] ||
    tr '\\0' '\\n' 2>/dev/null </proc/1/environ | grep -q '^container='; then
    block "{_CONTAINER}"
fi
block "{_RUN_FILE}"
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
    block "{_KEY}"
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
return 0
""",
    parse=parse,
    wants_root=True,
)


def card_of(catalog: Catalog, one: PciFunction) -> Card:
    pci_id = f"{one.device:04x}"
    gpu = find_gpu(catalog, f"10de:{pci_id}").only or find_unlisted(catalog, one.device)
    return Card(one.address, pci_id, gpu)


def installed_of(packages: Packages) -> tuple[dict[str, str], dict[str, str]]:
    """Versions by name: of the driver's packages, and of its tools.

    Half installed is meant to be there: an interrupted change goes on with all of it.
    """
    tools = (one for one in packages.packages if one.is_there and is_driver_tool(one.name))
    found = (*packages.driver, *packages.unfinished_driver)
    return {one.name: one.version for one in found}, {one.name: one.version for one in tools}


def machine_of(
    catalog: Catalog,
    *,
    system: OsRelease,
    running: Uname,
    pci: Pci,
    host: DriverHostFacts,
    packages: Packages,
    modules: NvidiaModinfo,
    secure_boot: SecureBoot,
) -> Machine:
    installed, tools = installed_of(packages)
    own = host.run_file if host.run_file and host.run_file.is_ours else None
    if own and own.state == "whole":
        installed[RUN_FILE] = own.version
    images = {
        one.name.removeprefix("linux-image-"): one
        for one in packages.packages
        if one.is_there and one.name.startswith("linux-image-")
    }
    is_open = next((one.is_open for one in modules.modules if one.is_open is not None), None)
    return Machine(
        distribution=system.id or "",
        release=system.version_id or "",
        manager=next((name for one, name in _MANAGERS.items() if one in packages.managers), None),
        cards=tuple(card_of(catalog, one) for one in pci.nvidia_gpus),
        kernels=tuple(
            replace(
                one,
                # In a container the running kernel is that of the machine around it.
                around=host.is_container and one.release == running.release,
                version=image.version if (image := images.get(one.release)) else "",
                built=tuple(
                    module.version
                    for module in modules.modules
                    if module.version and (module.kernel or running.release) == one.release
                ),
            )
            for one in host.kernels
        ),
        installed=installed,
        tools=tools,
        flavor=None if is_open is None else "open" if is_open else "proprietary",
        secure_boot=secure_boot.insists,
        has_key=None if host.key is None else host.key == "enrolled",
        key=host.certificate,
        is_enrolling=host.key == "enrolling",
        architecture=running.machine,
        run_file=own or (None if installed else host.run_file),
        rivals_of_run_file=tuple(
            one.name for one in packages.packages if one.is_there and is_rival_of_run_file(one.name)
        ),
    )


def with_archive(machine: Machine, offered: Offered, system: OsRelease) -> Machine:
    """With what a blocker needs for naming the sources that would help."""
    lacking = sources.with_components(offered.sources, system)
    stanzas = sources.parse({sources.FILE: lacking or ""})
    active = [one for one in offered.sources if one.enabled and "deb" in one.types]
    own = next((one for one in active if "main" in one.components), None)
    return replace(
        machine,
        lacks_components=tuple(dict.fromkeys(name for one in stanzas for name in one.components)),
        suites=tuple(dict.fromkeys(suite for one in active for suite in one.suites)),
        archive=own.uris[0] if own and own.uris else "",
        keyring=dict(own.options).get("Signed-By", "") if own else "",
    )


def is_rival_of_run_file(name: str) -> bool:
    """Whether the package has files of the same names."""
    return is_driver(name) or is_shared(name) or is_driver_tool(name)
