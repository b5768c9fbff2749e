"""For which kernels there is an NVIDIA module, by DKMS, by modinfo and by packages."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rigops.doctor.finding import Evidence

if TYPE_CHECKING:
    from rigops.probe.facts import HostFacts
    from rigops.probe.sections.dkms import DkmsModule
    from rigops.probe.sections.nvidia_modinfo import ModuleOnDisk
    from rigops.probe.sections.packages import Package

DKMS = "dkms"
MODINFO = "nvidia-modinfo"
PACKAGES = "packages"

_PREBUILT = re.compile(r"linux-modules-nvidia-[a-z0-9-]*?(?P<kernel>[0-9]+\.[0-9]+\.[0-9]+-\S+)")
_BUILT_HERE = re.compile(r"nvidia\S*-dkms(?:-\S+)?")
_UNFINISHED = frozenset("FHUW")  # dpkg: half-configured, half-installed, unpacked, triggers


@dataclass(frozen=True)
class OnDisk:
    """None: nobody knows."""

    is_there: bool | None
    evidence: tuple[Evidence, ...] = ()


def for_running(facts: HostFacts, release: str | None) -> OnDisk:
    return _merged(facts, release, _of_running(facts, release), asked_for=None)


def for_kernel(facts: HostFacts, release: str) -> OnDisk:
    modules = facts.nvidia_modinfo.modules if facts.nvidia_modinfo else ()
    told = next((one for one in modules if one.kernel == release), None)
    return _merged(facts, release, told, asked_for=release)


def of_running(facts: HostFacts, release: str | None) -> ModuleOnDisk | None:
    """What modinfo tells of the running kernel's module."""
    return _of_running(facts, release)


def is_anywhere(facts: HostFacts) -> bool | None:
    """Whether there is a module for any kernel at all, or the source of one."""
    modinfo, dkms = facts.nvidia_modinfo, facts.dkms
    by_modinfo = modinfo is not None and bool(modinfo.modules)
    by_dkms = dkms is not None and bool(dkms.nvidia)
    if by_modinfo or by_dkms or _prebuilt(facts) or unfinished(facts):
        return True
    asked = modinfo is not None and facts.is_whole(MODINFO) and not modinfo.unread
    return False if asked and modinfo and modinfo.kernels_without else None


def built(facts: HostFacts, release: str | None) -> tuple[DkmsModule, ...]:
    """What DKMS says of one kernel, and of modules that it has built for none."""
    modules = facts.dkms.nvidia if facts.dkms else ()
    return tuple(one for one in modules if one.kernel in {release, None})


def has_headers(facts: HostFacts, release: str) -> bool | None:
    """Whether a module could be built for this kernel."""
    dkms = facts.dkms
    if dkms is None or dkms.buildable is None:
        return None
    if release in dkms.buildable:
        return True
    return False if facts.is_whole(DKMS) and not dkms.unread else None


def unfinished(facts: HostFacts) -> tuple[Evidence, ...]:
    """Packages whose installation, which builds the module, did not come to its end."""
    return tuple(
        _said(package)
        for package in (facts.packages.packages if facts.packages else ())
        if _BUILT_HERE.fullmatch(package.name) and package.status[1:2] in _UNFINISHED
    )


def _of_running(facts: HostFacts, release: str | None) -> ModuleOnDisk | None:
    return facts.nvidia_modinfo.of(release) if facts.nvidia_modinfo else None


def _merged(
    facts: HostFacts, release: str | None, told: ModuleOnDisk | None, *, asked_for: str | None
) -> OnDisk:
    """One source that knows of a module is enough."""
    if told is not None:
        return OnDisk(is_there=True, evidence=(Evidence(MODINFO, told.line),))
    known = [one for one in built(facts, release) if one.kernel]
    ready = [one for one in known if one.is_installed and release is not None]
    if ready:
        return OnDisk(is_there=True, evidence=tuple(Evidence(DKMS, one.line) for one in ready))
    prebuilt = [package for kernel, package in _prebuilt(facts) if kernel == release]
    if prebuilt:
        return OnDisk(is_there=True, evidence=tuple(map(_said, prebuilt)))
    failed = unfinished(facts)
    modinfo = facts.nvidia_modinfo
    denied = modinfo is not None and bool({asked_for, release} & set(modinfo.kernels_without))
    by_others = bool(facts.dkms and facts.dkms.nvidia) or bool(_prebuilt(facts))
    unbuilt = by_others and release is not None
    if denied or unbuilt or failed:
        by_dkms = tuple(Evidence(DKMS, one.line) for one in _nearest(facts, release))
        others = tuple(_said(package) for _, package in _prebuilt(facts))
        return OnDisk(is_there=False, evidence=(*by_dkms, *others[:2], *failed))
    return OnDisk(is_there=None)


def _nearest(facts: HostFacts, release: str | None) -> tuple[DkmsModule, ...]:
    """What DKMS says of this kernel, or else all that it says."""
    return built(facts, release) or (facts.dkms.nvidia if facts.dkms else ())


def _prebuilt(facts: HostFacts) -> tuple[tuple[str, Package], ...]:
    shapes = (
        (_PREBUILT.fullmatch(package.name), package)
        for package in (facts.packages.packages if facts.packages else ())
        if package.is_installed
    )
    return tuple((shape["kernel"], package) for shape, package in shapes if shape)


def _said(package: Package) -> Evidence:
    fields = (package.name, package.version, package.architecture, package.status)
    return Evidence(PACKAGES, "\t".join(fields))
