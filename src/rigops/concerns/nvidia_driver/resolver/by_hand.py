"""Steps for a person where rigops does nothing: the exact commands. Nothing is changed.

Other package managers than apt, the keys of Secure Boot, and a driver of NVIDIA's own installer.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from rigops.catalog import versions
from rigops.catalog.loader import Catalog
from rigops.catalog.model import ModuleFlavor
from rigops.concerns.nvidia_driver.resolver import fitness
from rigops.concerns.nvidia_driver.resolver.request import Blocker, Request
from rigops.numbers import whole

if TYPE_CHECKING:
    from rigops.concerns.nvidia_driver.resolver.machine import Machine, RunFile

# The oldest branch of which Arch's own packages are; older ones are built by users.
_ARCH_OWN: Final = 590
_ARCH_BY_USERS: Final = frozenset({"470", "535", "550", "580"})
_WITHOUT_STREAMS: Final = 10  # of Enterprise Linux
_CONSOLE: Final = "enroll the key in the blue menu at the machine's own console"


def by_hand(machine: Machine, request: Request, catalog: Catalog) -> Blocker:
    """`request` has a release that is fit, or one that the catalog lacks and that may be fit."""
    releases = fitness.releases(catalog, request)
    fit = [one for one in releases if not fitness.unfit(catalog, one, machine.cards, request)]
    version = min(
        fit or fitness.unlisted(catalog, request),
        key=lambda one: fitness.preference(catalog, one, machine.cards),
        default=None,
    )
    has = f"has {machine.manager}" if machine.manager else "has no package manager that is known"
    reason = f"rigops installs drivers with apt only, and this machine ({machine.name}) {has}"
    if version is None:
        return Blocker(reason, f"install driver {request.driver.text} and lock it there by hand")
    supported, _ = fitness.flavors(catalog, version, machine.cards)
    order = fitness.in_order(supported, version, machine.flavor)
    flavor = request.flavor if request.flavor != "auto" else order[0]
    branch = versions.branch_of(version)
    newer = fitness.too_new(catalog, version, machine.kernels, flavor)
    if newer:
        boots = " and ".join(newer.releases)
        reason += f"; driver {version} {newer.reason}, and {boots} could boot next"
    if machine.manager == "pacman":
        return Blocker(reason, _pacman(branch, flavor))
    if machine.manager == "dnf":
        return Blocker(reason, _dnf(branch, flavor, machine))
    return Blocker(reason, f"install driver {version} ({flavor}) and lock it there by hand")


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
    major = whole(machine.release.partition(".")[0]) or 0
    is_fedora = machine.distribution == "fedora"
    if is_fedora or major >= _WITHOUT_STREAMS:
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


def foreign(found: RunFile) -> Blocker:
    """`found`: a driver that rigops did not install."""
    version = f" {found.version}" if found.version else ""
    reason = (
        f"NVIDIA's own installer put driver{version} here, and packages would replace its files"
    )
    if not found.uninstaller:
        name = f"NVIDIA-Linux-x86_64-{found.version or 'VERSION'}.run"
        return Blocker(
            reason,
            f"its uninstaller is gone: run `sudo sh {name} --uninstall` with the file that it came "
            "from, then this again",
        )
    return Blocker(
        reason,
        "`rigops apply --remove-foreign-driver` runs its uninstaller first; by hand: "
        f"`sudo {found.uninstaller} --uninstall --silent`",
    )


def unsigned(machine: Machine, request: Request, signed: Sequence[str] = ()) -> Blocker:
    """`signed`: other versions that the sources have signed modules of."""
    known = "is not enrolled" if machine.has_key is False else "is not known to be enrolled"
    reason = f"Secure Boot is on, and the key that signs modules built here {known}"
    fixes = [enrolling(machine), "or switch Secure Boot off in the firmware"]
    if machine.manager == "apt":
        kernels = " and ".join(machine.own_kernels) or "any kernel"
        reason += (
            f"; the package sources have no signed modules of driver {request.driver.text} for "
            f"{kernels}"
        )
    if signed:
        fixes.insert(0, f'declare "driver": "{signed[0]}", whose signed modules they have')
    return Blocker(reason, "; ".join(fixes))


def signed_note(machine: Machine) -> str:
    """For where the distribution's own modules are installed."""
    return (
        "Secure Boot is on and no key of this machine's own is enrolled: the modules are those "
        f"that the distribution built and signed for {' and '.join(machine.own_kernels)}, and the "
        f"kernel is held with them; to have modules built here instead, {enrolling(machine)}"
    )


def enrolling(machine: Machine) -> str:
    if machine.is_enrolling:
        return f"reboot, and {_CONSOLE} with the password that was given to mokutil"
    if machine.distribution == "ubuntu":
        key = machine.key or "/var/lib/shim-signed/mok/MOK.der"
        make = "`sudo update-secureboot-policy --new-key`"
    else:
        key = machine.key or "/var/lib/dkms/mok.pub"
        make = "let dkms build any module once"
    first = "" if machine.key else f"where {key} is not there yet, {make}; then "
    return (
        f"{first}`sudo mokutil --import {key}` with a password of your own, reboot, and {_CONSOLE}"
    )
