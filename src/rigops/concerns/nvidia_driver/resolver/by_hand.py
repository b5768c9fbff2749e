"""Where the package manager is not apt: the exact commands for a person. Nothing is changed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rigops.catalog import versions
from rigops.catalog.lookup import find_branch
from rigops.concerns.nvidia_driver.resolver import fitness
from rigops.concerns.nvidia_driver.resolver.request import Refusal

if TYPE_CHECKING:
    from rigops.catalog.loader import Catalog
    from rigops.catalog.model import ModuleFlavor
    from rigops.concerns.nvidia_driver.resolver.machine import Machine
    from rigops.concerns.nvidia_driver.resolver.request import Request

# The oldest branch of which Arch's own packages are; older ones are built by users.
_ARCH_OWN: Final = 590
_ARCH_BY_USERS: Final = frozenset({"470", "535", "550", "580"})
_WITHOUT_STREAMS: Final = 10  # of Enterprise Linux


def by_hand(machine: Machine, request: Request, catalog: Catalog) -> Refusal:
    version = _version(machine, request, catalog)
    has = f"has {machine.manager}" if machine.manager else "has no package manager that is known"
    reason = f"rigops installs drivers with apt only, and this machine ({machine.name}) {has}"
    if version is None:
        return Refusal(reason, f"install driver {request.wish.text} and lock it there by hand")
    supported, refusal = fitness.flavors(catalog, version, machine.cards)
    refusal = refusal or fitness.flavor_refused(catalog, version, machine.cards, request.flavor)
    if refusal:
        return refusal
    order = fitness.in_order(supported, version, machine.flavor)
    flavor = request.flavor if request.flavor != "auto" else order[0]
    branch = versions.branch_of(version)
    newer = fitness.too_new(catalog, version, machine.kernels)
    if newer:
        limit = fitness.ceiling(catalog, version)
        reason += (
            f"; driver {version} is known to build up to Linux {limit}, and "
            f"{' and '.join(newer)} could boot next"
        )
    if machine.manager == "pacman":
        return Refusal(reason, _pacman(branch, flavor))
    if machine.manager == "dnf":
        return Refusal(reason, _dnf(branch, flavor, machine))
    return Refusal(reason, f"install driver {version} ({flavor}) and lock it there by hand")


def _version(machine: Machine, request: Request, catalog: Catalog) -> str | None:
    """The best judged fit release of those declared; one that the catalog lacks may be fit."""
    every = [
        release.version
        for branch in catalog.drivers
        for release in branch.releases
        if request.takes(release.version)
    ]
    fit = [
        one
        for one in every
        if fitness.flavors(catalog, one, machine.cards)[1] is None
        and (request.allow_bad or fitness.bad(catalog, one, machine.cards) is None)
    ]
    if fit:
        return min(
            fit,
            key=lambda one: (
                fitness.rank(catalog, one, machine.cards),
                [-part for part in versions.parse(one).release],
            ),
        )
    if request.wish.kind == "version":
        return request.wish.text
    known = request.wish.kind == "branch" and find_branch(catalog, request.wish.text)
    return f"{request.wish.text}.0" if known else None


def _pacman(branch: str, flavor: ModuleFlavor) -> str:
    if int(branch) >= _ARCH_OWN:
        names = "nvidia-open-dkms nvidia-utils"
        text = (
            f"`sudo pacman -S --needed {names} linux-headers` where {branch} is what the "
            f"repositories have, else `sudo pacman -U` of its packages from /var/cache/pacman/pkg"
        )
        if flavor == "proprietary":
            text += " (from 590 on only the open modules are packaged there)"
    elif branch in _ARCH_BY_USERS:
        names = f"nvidia-{branch}xx-dkms nvidia-{branch}xx-utils"
        open_ = " (these are the proprietary modules)" if flavor == "open" else ""
        text = (
            f"{names} come from the AUR{open_}: read and build them with makepkg, install the "
            f"headers of your kernel, then `sudo pacman -U nvidia-{branch}xx-*.pkg.tar.zst`"
        )
    else:
        known = ", ".join(sorted(_ARCH_BY_USERS))
        return (
            f"no package of {branch} is known for it: declare one of {known}, which the AUR has, "
            f"or {_ARCH_OWN} or later"
        )
    return (
        f"{text}; hold them and the kernel in /etc/pacman.conf with `IgnorePkg = {names} linux "
        "linux-headers` (linux-lts and linux-lts-headers where that is your kernel), then "
        "`sudo mkinitcpio -P`"
    )


def _dnf(branch: str, flavor: ModuleFlavor, machine: Machine) -> str:
    headers = (
        "the headers of the running kernel have to be there first (`sudo dnf install "
        "kernel-devel-$(uname -r)`), or nothing is built"
    )
    if machine.distribution == "fedora" or _major(machine.release) >= _WITHOUT_STREAMS:
        package = "nvidia-open" if flavor == "open" else "cuda-drivers"
        return (
            f"with NVIDIA's repository: `sudo dnf versionlock add '*nvidia*{branch}*'`, which "
            f"holds it at that branch, then `sudo dnf install {package}`; {headers}"
        )
    stream = f"{branch}-{'open' if flavor == 'open' else 'dkms'}"
    return (
        "with NVIDIA's repository: `sudo dnf module reset nvidia-driver && sudo dnf module "
        f"install nvidia-driver:{stream}`, which stays on that branch; {headers}"
    )


def _major(release: str) -> int:
    head = release.partition(".")[0]
    return int(head) if head.isdecimal() else 0
