"""Why the sources of a machine have no driver as declared, and where there is one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from rigops.catalog import versions
from rigops.concerns.nvidia_driver.resolver.candidates import named_for_branches
from rigops.concerns.nvidia_driver.resolver.machine import Machine
from rigops.concerns.nvidia_driver.resolver.offers import Offer, Offers
from rigops.concerns.nvidia_driver.resolver.request import Blocker, Request
from rigops.concerns.nvidia_driver.resolver.resolution import closure
from rigops.dataclass import dataclass

_SOURCES: Final[Mapping[str, str]] = {
    "distribution": "the distribution's own package sources",
    "vendor": "NVIDIA's own package sources",
    "snapshot": "the package sources of the snapshot",
}


@dataclass(frozen=True)
class _Archived:
    """A real driver that a distribution's archive has, or had until a date."""

    distribution: str
    release: str
    version: str
    suite: str
    components: str
    until: str = ""  # a date of its snapshots; empty: it is there to stay


# Ubuntu turned 535, 550 and 570 into other branches in its -updates; the release's own pocket does
# not change any more. A suite of a snapshot is as it was on that day: 535.288.01 from January to
# May 2026, by the packages' changelogs.
_BEFORE: Final = "20260501T000000Z"
_DEBIAN: Final = "main contrib non-free non-free-firmware"
_UBUNTU: Final = "main restricted"
_ARCHIVED: Final = (
    _Archived("debian", "12", "535.261.03", "bookworm", _DEBIAN),
    _Archived("debian", "13", "535.274.02", "trixie", _DEBIAN),
    _Archived("debian", "13", "550.163.01", "trixie", _DEBIAN),
    _Archived("ubuntu", "24.04", "535.171.04", "noble", _UBUNTU),
    _Archived("ubuntu", "24.04", "535.288.01", "noble-updates", _UBUNTU, _BEFORE),
    _Archived("ubuntu", "22.04", "535.288.01", "jammy-updates", _UBUNTU, _BEFORE),
)


def not_offered(
    machine: Machine,
    request: Request,
    offers: Offers,
    real: Sequence[str],
    is_fit: Callable[[str], bool],
) -> Blocker:
    """`real`: the versions that the sources do have, best first; `is_fit`: it is fit for here."""
    archived = _archived(machine, request, is_fit)
    fix = archived.fix or _fix(request, [one for one in real if is_fit(one)])
    if trap := _trap(request, offers):
        return replace(archived, reason=trap, fix=fix)
    if not real and request.source == "vendor":
        return Blocker(
            "no package source of this machine is NVIDIA's own (`Origin: NVIDIA`) with a complete "
            "driver",
            "install the keyring package that NVIDIA's driver installation guide names for "
            f"{machine.name}, which configures its repository, run `sudo apt-get update`, then "
            f'this again; or declare "driver_source": {{"URIs": "<NVIDIA\'s repository for '
            f'{machine.name}>", "Suites": "/", "Signed-By": "<the path of its key>"}}',
        )
    have = f"{_SOURCES.get(request.source, 'the package sources of this machine')} have"
    if not real:
        return replace(archived, reason=f"{have} no NVIDIA driver", fix=fix)
    found = ", ".join(sorted(real, key=versions.parse))
    reason = f"{have} no driver {request.driver.text}, only {found}"
    return replace(archived, reason=reason, fix=fix)


def _trap(request: Request, offers: Offers) -> str:
    """A package that promises a declared branch by its name, and leads to another one."""
    promising = list(named_for_branches(offers))
    promising.reverse()
    promising.sort(key=lambda one: len(one[1].name))
    for branch, offer in promising:
        version = offer.upstream
        is_named = request.driver.kind == "branch" and request.driver.text == branch
        if version is None or not (
            is_named or (request.takes(version) and versions.branch_of(version) == branch)
        ):
            continue
        is_empty = len(offer.depends) == 1
        found = closure([offer.name], version, offers, offer.version)
        if is_empty and (found.elsewhere or versions.branch_of(version) != branch):
            return (
                f"what is named {branch} here is not {branch}: {offer.name} {offer.version} is "
                f"empty and installs {' and so '.join(_successors(offer, offers))}"
            )
    return ""


def _successors(offer: Offer, offers: Offers) -> list[str]:
    """Where the packages lead that hold nothing but the name of the next one."""
    names: list[str] = []
    ahead: Offer | None = offer
    while ahead and len(ahead.depends) == 1 and ahead.depends[0][0].name not in names:
        name = ahead.depends[0][0].name
        names.append(name)
        ahead = next(reversed(offers.named(name)), None)
    return names


def _archived(machine: Machine, request: Request, is_fit: Callable[[str], bool]) -> Blocker:
    """Without a reason, and empty where no archive is known to have it."""
    archived = [
        one
        for one in _ARCHIVED
        if (one.distribution, one.release) == (machine.distribution, machine.release)
        and request.takes(one.version)
        and is_fit(one.version)
    ]
    lasting = [one for one in archived if not one.until]
    if lasting and machine.lacks_components and request.source == "auto":
        return _declaring(
            request,
            lasting[-1],
            "distribution",
            f'declare "driver_source": "distribution", which adds '
            f"{' '.join(machine.lacks_components)} of the archive that this machine uses already, "
            f"which has {lasting[-1].version}",
        )
    elsewhere = [one for one in lasting if one.suite not in machine.suites]
    if elsewhere and machine.archive:
        fields = _fields(machine.archive, elsewhere[-1], machine.keyring)
        return _declaring(request, elsewhere[-1], fields, _line(fields, elsewhere[-1].version))
    if elsewhere:
        where = f"<your archive of {machine.name}>"
        fields = _fields(where, elsewhere[-1], machine.keyring)
        return Blocker("", _line(fields, elsewhere[-1].version))
    gone = [one for one in archived if one.until]
    if gone:
        where = f"<your snapshot service>/{gone[-1].until}"
        fields = _fields(where, gone[-1], machine.keyring)
        return Blocker("", _line(fields, gone[-1].version))
    return Blocker("")


def _declaring(request: Request, one: _Archived, source: object, fix: str) -> Blocker:
    is_named = request.driver.kind != "range"
    driver = request.driver.text if is_named else versions.branch_of(one.version)
    return Blocker("", fix, {"driver": driver, "driver_source": source})


def _fix(request: Request, usable: Sequence[str]) -> str:
    source = "a driver_source (a dict of deb822 fields) of an archive that has it"
    if request.is_of_tree:
        version = request.driver.text
        others = " or ".join(versions.nearest(version, usable)) if usable else ""
        return (
            (f"check out a tree of {others}, which they have, or " if others else "")
            + f"put NVIDIA-Linux-x86_64-{version}.run into a folder of this machine and declare "
            '"driver_source": "dir:FOLDER"'
        )
    if not usable:
        return f"declare {source}"
    near = usable[:1]
    if request.driver.kind != "range":
        whole = (
            request.driver.text if request.driver.kind == "version" else f"{request.driver.text}.0"
        )
        near = versions.nearest(whole, _best(usable) if request.driver.kind == "branch" else usable)
    declared = " or ".join(f'"{one}"' for one in near)
    return f'declare "driver": {declared}, which they have, or {source}'


def _best(usable: Sequence[str]) -> list[str]:
    """Of each branch its first."""
    return list({versions.branch_of(one): one for one in reversed(usable)}.values())


def no_snapshot(day: str, machine: Machine, codename: str) -> Blocker:
    """Where apt on this machine finds none."""
    is_ubuntu = machine.distribution == "ubuntu"
    there = _Archived(
        machine.distribution,
        machine.release,
        "",
        f"{codename}-updates" if is_ubuntu else codename,
        _UBUNTU if is_ubuntu else _DEBIAN,
        day,
    )
    return Blocker(
        "apt on this machine finds no snapshot of its archive: it is older than 2.8, or the "
        "archive has no snapshot service",
        _line(_fields(f"<your snapshot service>/{day}", there, machine.keyring), ""),
    )


def _fields(uris: str, one: _Archived, keyring: str) -> dict[str, str]:
    signed = {"Signed-By": keyring} if keyring else {}
    return {"URIs": uris, "Suites": one.suite, "Components": one.components, **signed}


def _line(fields: Mapping[str, str], version: str) -> str:
    text = ", ".join(f'"{name}": "{value}"' for name, value in fields.items())
    return f'declare "driver_source": {{{text}}}' + (f", which brings {version}" if version else "")
