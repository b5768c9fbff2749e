"""For which kernels there is an NVIDIA module, by DKMS, by modinfo and by packages."""

from __future__ import annotations

import re

from rigops.dataclass import dataclass
from rigops.doctor.finding import Evidence
from rigops.probe.sections.dkms import SECTION as DKMS
from rigops.probe.sections.dkms import DkmsModule
from rigops.probe.sections.nvidia_modinfo import SECTION as NVIDIA_MODINFO
from rigops.probe.sections.nvidia_modinfo import ModuleOnDisk
from rigops.probe.sections.packages import SECTION as PACKAGES
from rigops.probe.sections.packages import Package
from rigops.probe.snapshot import HostSnapshot

_PREBUILT = re.compile(
    r"linux-modules-nvidia-[a-z0-9-]{0,60}?(?P<kernel>[0-9]{1,5}(?:\.[0-9]{1,5}){2}-\S+)"
)
_BUILT_HERE = re.compile(r"nvidia\S*-dkms(?:-\S+)?")
_UNFINISHED = frozenset("FHUW")  # dpkg: half-configured, half-installed, unpacked, triggers


@dataclass(frozen=True)
class OnDisk:
    """None: unknown."""

    is_there: bool | None
    evidence: tuple[Evidence, ...] = ()


def for_running(snapshot: HostSnapshot, release: str | None) -> OnDisk:
    return _merged(snapshot, release, of_running(snapshot, release), asked_for=None)


def for_kernel(snapshot: HostSnapshot, release: str) -> OnDisk:
    modules = snapshot[NVIDIA_MODINFO].or_empty.modules
    listed = next((one for one in modules if one.kernel == release), None)
    return _merged(snapshot, release, listed, asked_for=release)


def is_anywhere(snapshot: HostSnapshot) -> bool | None:
    """Whether there is a module for any kernel at all, or the source of one."""
    modinfo, dkms = snapshot[NVIDIA_MODINFO].value, snapshot[DKMS].value
    by_modinfo = modinfo is not None and bool(modinfo.modules)
    by_dkms = dkms is not None and bool(dkms.nvidia)
    if by_modinfo or by_dkms or _prebuilt(snapshot) or unfinished(snapshot):
        return True
    is_known = snapshot[NVIDIA_MODINFO].is_exhaustive
    return False if is_known and modinfo and modinfo.kernels_without else None


def built(snapshot: HostSnapshot, release: str | None) -> tuple[DkmsModule, ...]:
    """What DKMS says of one kernel, and of modules that it has built for none."""
    modules = snapshot[DKMS].or_empty.nvidia
    return tuple(one for one in modules if one.kernel in {release, None})


def has_headers(snapshot: HostSnapshot, release: str) -> bool | None:
    """Whether a module could be built for this kernel."""
    dkms = snapshot[DKMS].value
    if dkms is None or dkms.buildable is None:
        return None
    if release in dkms.buildable:
        return True
    return False if snapshot[DKMS].is_exhaustive else None


def unfinished(snapshot: HostSnapshot) -> tuple[Evidence, ...]:
    """Packages whose installation, which builds the module, did not come to its end."""
    return tuple(
        _evidence(package)
        for package in snapshot[PACKAGES].or_empty.packages
        if _BUILT_HERE.fullmatch(package.name) and package.status[1:2] in _UNFINISHED
    )


def of_running(snapshot: HostSnapshot, release: str | None) -> ModuleOnDisk | None:
    """The running kernel's module, by modinfo."""
    return snapshot[NVIDIA_MODINFO].or_empty.module_for(release)


def _merged(
    snapshot: HostSnapshot,
    release: str | None,
    listed: ModuleOnDisk | None,
    *,
    asked_for: str | None,
) -> OnDisk:
    """One source that knows of a module is enough."""
    if listed is not None:
        return OnDisk(is_there=True, evidence=(Evidence(NVIDIA_MODINFO.name, listed.line),))
    known = [one for one in built(snapshot, release) if one.kernel]
    ready = [one for one in known if one.is_installed and release is not None]
    if ready:
        return OnDisk(is_there=True, evidence=tuple(Evidence(DKMS.name, one.line) for one in ready))
    prebuilt = [package for kernel, package in _prebuilt(snapshot) if kernel == release]
    if prebuilt:
        return OnDisk(is_there=True, evidence=tuple(map(_evidence, prebuilt)))
    failed = unfinished(snapshot)
    modinfo = snapshot[NVIDIA_MODINFO].value
    denied = modinfo is not None and bool({asked_for, release} & set(modinfo.kernels_without))
    by_others = bool(snapshot[DKMS].or_empty.nvidia or _prebuilt(snapshot))
    unbuilt = by_others and release is not None
    if denied or unbuilt or failed:
        by_dkms = tuple(
            Evidence(DKMS.name, one.line)
            for one in built(snapshot, release) or snapshot[DKMS].or_empty.nvidia
        )
        others = tuple(_evidence(package) for _, package in _prebuilt(snapshot))
        return OnDisk(is_there=False, evidence=(*by_dkms, *others[:2], *failed))
    return OnDisk(is_there=None)


def _prebuilt(snapshot: HostSnapshot) -> tuple[tuple[str, Package], ...]:
    shapes = (
        (_PREBUILT.fullmatch(package.name), package)
        for package in snapshot[PACKAGES].or_empty.packages
        if package.is_installed
    )
    return tuple((shape["kernel"], package) for shape, package in shapes if shape)


def _evidence(package: Package) -> Evidence:
    fields = (package.name, package.version, package.architecture, package.status)
    return Evidence(PACKAGES.name, "\t".join(fields))
