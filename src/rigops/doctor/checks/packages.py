"""Packages of the driver: held, left alone by unattended upgrades, and from one place."""

from __future__ import annotations

from typing import Final

from rigops.concerns.nvidia_driver import record
from rigops.concerns.nvidia_driver.record import PinnedDriver
from rigops.concerns.nvidia_driver.resolver.answer import is_in_place, needed_beside, not_installed
from rigops.concerns.nvidia_driver.resolver.host_facts import installed_of
from rigops.doctor.check import Check
from rigops.doctor.examined import Examined
from rigops.doctor.finding import Evidence, Finding, Status, fix_by_hand
from rigops.doctor.views import apt
from rigops.doctor.views.driver_packages import (
    AptRig,
    apt_rig,
    keep_fix,
    named,
)
from rigops.probe.package_names import RUN_FILE, is_kernel_meta, is_user_space
from rigops.probe.sections.bootloader import SECTION as BOOTLOADER
from rigops.probe.sections.nvidia_version import SECTION as NVIDIA_VERSION
from rigops.probe.sections.package_holds import SECTION as PACKAGE_HOLDS
from rigops.probe.sections.package_holds import AptPolicy, Offer, Origin
from rigops.probe.sections.packages import SECTION as PACKAGES
from rigops.probe.sections.packages import Package
from rigops.probe.sections.rigops_state import SECTION as RIGOPS_STATE
from rigops.probe.sections.units import SECTION as UNITS

_CITED = 3
_TIMER = "apt-daily-upgrade.timer"
_UPGRADER = "unattended-upgrades"
_WHY_HOLD = (
    "The next upgrade replaces what is not held: the libraries change on disk while the old kernel "
    "module stays loaded, and CUDA fails until a reboot, or a branch comes that breaks P2P."
)
_HOLDS = "pins the driver's packages to the installed version and holds them"
_WHY_LIBRARIES = (
    " The held packages do not hold the others: the libraries are upgraded without them."
)
_REGEXES = (
    "(lib)?nvidia-",
    "cuda-drivers",
    "lib(cuda|nvcuvid|nvoptix)",
    "linux-(modules|objects|signatures)-nvidia-",
    "xserver-xorg-video-nvidia",
    "firmware-nvidia",
    "lib(gl1|egl|glx|gles)-nvidia",
)

_CITED_SOURCES: Final = 4
_CALLED: Final[dict[Origin, str]] = {
    "distribution": "the distribution",
    "nvidia": "NVIDIA's repository",
    "ppa": "a PPA",
    "local": "a local archive",
}
_WHY_MIXED = (
    "Packages of two makers have the same names and different contents: an upgrade takes some from "
    "one and some from the other, and libraries and kernel module no longer fit."
)
_WHY_RUN = (
    "NVIDIA's own installer writes over files that belong to packages. The next upgrade of those "
    "packages writes over the installer's."
)


@Check(
    "pkg.hold",
    needs=(BOOTLOADER, NVIDIA_VERSION, PACKAGE_HOLDS, PACKAGES, RIGOPS_STATE),
    fixes=("apply", "apply+reboot", "hands"),
)
def hold(examined: Examined) -> Finding:
    """The driver's packages are held or pinned.

    Compares the installed packages of the NVIDIA driver (modules, libraries, tools; not CUDA
    toolkits and not the container toolkit) with what dpkg holds, its own marks and
    /etc/apt/preferences(.d). A pin counts where no other version of the driver can come: its exact
    version above priority 990, or every version below 0. A held metapackage holds none of the
    libraries. With `driver` declared its tools (nvidia-persistenced, nvidia-settings and the like)
    must be held too. The installed packages must be those that rigops pinned, and the packages that
    the module was built with must be there, except headers of kernels that are gone; a pin alone
    does not replace the hold of rigops. With `kernel_hold` the kernel's metapackages must be held.
    Elsewhere than with apt this is not judged.
    """
    found = apt_rig(examined)
    if isinstance(found, Finding):
        return found
    loose = (*found.loose, *_loose_kernels(examined, found))
    if loose:
        return _loose(examined, found, loose)
    if not found.are_whole:
        return Finding("unknown", "every package that was read is held; not all were read")
    pinned = _pinned(examined)
    if (left := _not_as_pinned(examined, found, pinned)) is not None:
        fix = keep_fix(examined, found, "hold its packages with `apt-mark hold`", _HOLDS)
        return Finding(*left, why=_WHY_HOLD, fix=fix)
    if gone := " ".join(_gone(examined, found, pinned) if pinned else ()):
        fix = keep_fix(examined, found, f"`apt-get install {gone}`", f"installs {gone}")
        return Finding("warn", f"{gone} of the pinned driver: not installed", fix=fix)
    summary = f"every package of the NVIDIA driver ({len(found.driver)}) is held or pinned"
    return Finding("ok", summary)


def _pinned(examined: Examined) -> PinnedDriver | None:
    """Of the declared driver, what rigops recorded: plan goes by the same."""
    if examined.spec.driver is None:
        return None
    return record.pinned(examined.snapshot[RIGOPS_STATE].or_empty.records.get(record.PATH))


def _not_as_pinned(
    examined: Examined, found: AptRig, pinned: PinnedDriver | None
) -> tuple[Status, str] | None:
    """A driver that a person holds is safe until rigops pins it."""
    declared = examined.spec.driver
    if declared is None or not examined.snapshot[RIGOPS_STATE].is_complete:
        return None
    if pinned is None:
        return "info", f"driver {declared.text} is declared, and rigops has not pinned it yet"
    if not declared.versions.contains(pinned.version):
        return "warn", f"driver {declared.text} is declared, and rigops has pinned {pinned.version}"
    installed, tools = installed_of(found.packages)
    if not is_in_place(pinned, installed, tools):
        text = f"rigops has pinned driver {pinned.version}, and other packages are installed"
        return "warn", text
    # By name, as plan does: another architecture's follows that of the host's own.
    held = {one.name for one in found.driver if apt.holds(one, found.holds.held)}
    loose = {one.name for one in found.driver} & {*pinned.packages, *tools} - held
    count = f"{len(loose)} of {len(found.driver)} packages"
    return ("warn", f"{count} of the NVIDIA driver are pinned, and not held") if loose else None


def _gone(examined: Examined, found: AptRig, pinned: PinnedDriver) -> tuple[str, ...]:
    _, tools = installed_of(found.packages)
    also = needed_beside(pinned, examined.snapshot[BOOTLOADER].or_empty.kernels)
    return not_installed((*pinned.packages, *tools, *also), found.packages)


def _loose_kernels(examined: Examined, found: AptRig) -> tuple[Package, ...]:
    if examined.spec.kernel_hold is not True:
        return ()
    return tuple(
        one
        for one in found.packages.packages
        if one.is_installed
        and is_kernel_meta(one.name)
        and not apt.holds(one, found.holds.held)
        and not apt.pins_down(one, found.holds.pins)
    )


def _loose(examined: Examined, found: AptRig, loose: tuple[Package, ...]) -> Finding:
    pinned = len(found.driver) - len(found.loose)
    of_all = (
        f"{len(loose)} of {len(loose) + pinned} packages" if pinned else f"{len(loose)} packages"
    )
    what = "of the NVIDIA driver" if found.loose else "of the kernel"
    libraries_only = pinned and any(is_user_space(one.name) for one in loose)
    command = "apt-mark hold " + " ".join(named(one) for one in loose)
    return Finding(
        "warn",
        f"{of_all} {what} are neither held nor pinned",
        (
            *(Evidence(PACKAGES.name, one.line) for one in loose[:_CITED]),
            *(Evidence(PACKAGE_HOLDS.name, name) for name in found.holds.held[:_CITED]),
        ),
        why=_WHY_HOLD + (_WHY_LIBRARIES if libraries_only else ""),
        fix=keep_fix(examined, found, command, _HOLDS) if found.loose else fix_by_hand(command),
        data={"packages": [named(one) for one in loose]},
    )


@Check(
    "pkg.unattended",
    needs=(NVIDIA_VERSION, PACKAGE_HOLDS, PACKAGES, UNITS),
    fixes=("apply", "apply+reboot", "hands"),
)
def unattended(examined: Examined) -> Finding:
    """Unattended upgrades leave the driver alone.

    Where unattended-upgrades is installed and apt's daily run uses it, each package of the driver
    must be held, pinned or matched by Unattended-Upgrade::Package-Blacklist. Its entries are
    regular expressions that are matched from the beginning of a name.
    """
    found = apt_rig(examined)
    if isinstance(found, Finding):
        return found
    held = found.holds
    open_to_it = tuple(
        one for one in found.loose if not apt.blacklists(one.name, held.unattended_blacklist)
    )
    runs = _upgrader_runs(examined, found)
    if not open_to_it:
        if not found.are_whole:
            return Finding("unknown", "not all packages and blacklists were read")
        return Finding(
            "ok", f"{_UPGRADER} leaves the driver alone: held, pinned or on its blacklist"
        )
    if runs is False:
        return Finding("ok", f"{_UPGRADER} does not run here")
    if runs is None:
        return Finding("unknown", f"whether {_UPGRADER} runs could not be read")
    return _open(examined, found, open_to_it)


def _upgrader_runs(examined: Examined, found: AptRig) -> bool | None:
    """It may be installed and switched off, or never have been installed."""
    is_installed = found.packages.installed(_UPGRADER) is not None
    timer = examined.snapshot[UNITS].or_empty.unit(_TIMER)
    is_asleep = timer and timer.enabled in {"disabled", "masked"} and timer.active == "inactive"
    if (is_asleep or found.holds.unattended_runs is False) and found.are_whole:
        return False
    if is_installed or found.holds.has_unattended_settings:
        return True
    return False if found.are_whole and found.holds.has_unattended_settings is False else None


def _open(examined: Examined, found: AptRig, loose: tuple[Package, ...]) -> Finding:
    lines = found.holds.unattended_lines or ("the blacklist is empty",)
    entries = "\n".join(f'  "{regex}";' for regex in _REGEXES)
    by_hand = (
        "write into /etc/apt/apt.conf.d/52rigops-nvidia: Unattended-Upgrade::Package-Blacklist "
        f"{{\n{entries}\n}};"
    )
    return Finding(
        "warn",
        f"{_UPGRADER} may replace {len(loose)} packages of the driver",
        (
            *(Evidence(PACKAGE_HOLDS.name, line) for line in lines),
            *(Evidence(PACKAGES.name, one.line) for one in loose[:_CITED]),
        ),
        why="It upgrades at night, without a question. Entries of its blacklist are matched from "
        'the beginning of a name: "nvidia" does not cover libnvidia-compute or libcuda1.',
        fix=keep_fix(
            examined, found, by_hand, f"holds the driver and puts it on {_UPGRADER}' blacklist"
        ),
        data={"packages": [named(one) for one in loose]},
    )


@Check(
    "pkg.sources", needs=(NVIDIA_VERSION, PACKAGE_HOLDS, PACKAGES, RIGOPS_STATE), fixes=("hands",)
)
def sources(examined: Examined) -> Finding:
    """The driver comes from one place.

    Reads `apt-cache policy` of the driver's packages: where the installed versions come from, and,
    of packages that are neither held nor pinned, where the next version would come from. The
    distribution, NVIDIA's CUDA repository and a PPA are three places, and two of them are a
    warning. So is a driver from packages over which NVIDIA's own installer (.run) was run, which
    leaves /usr/bin/nvidia-uninstall behind.
    """
    found = apt_rig(examined)
    holds = examined.snapshot[PACKAGE_HOLDS].value
    run_files = holds.run_files or () if holds else ()
    if run_files:
        return _installer(examined, run_files)
    if isinstance(found, Finding):
        return found
    policies = found.holds.policies
    if not policies:
        return Finding("unknown", "where the driver's packages come from could not be read")
    return _judge_origins(found, policies)


def _installer(examined: Examined, run_files: tuple[str, ...]) -> Finding:
    packages = examined.snapshot[PACKAGES].value
    driver = packages.driver if packages else ()
    evidence = tuple(Evidence(PACKAGE_HOLDS.name, path) for path in run_files)
    if not driver and (version := _kept_by_rigops(examined)):
        return Finding(
            "ok",
            f"driver {version} came from NVIDIA's installer (.run), and rigops keeps it",
            evidence,
        )
    if not driver:
        return Finding(
            "info",
            "the driver came from NVIDIA's installer (.run), not from packages",
            evidence,
            why="No package manager knows it: a new kernel may come without its module.",
        )
    return Finding(
        "warn",
        f"NVIDIA's installer (.run) was run over {len(driver)} packages of the driver",
        (*evidence, *(Evidence(PACKAGES.name, one.line) for one in driver[:_CITED_SOURCES])),
        why=_WHY_RUN,
        fix=fix_by_hand(
            "keep one of the two: `nvidia-uninstall` takes the installer's files away; then "
            "`apt-get install --reinstall` the packages of the driver and reboot"
        ),
    )


def _kept_by_rigops(examined: Examined) -> str:
    """The version that rigops had that installer bring: DKMS has its modules, and a pin is set.

    With another one loaded, it was changed since.
    """
    state, loaded = examined.snapshot[RIGOPS_STATE].value, examined.snapshot[NVIDIA_VERSION].value
    pinned = record.pinned(state.records.get(record.PATH)) if state else None
    version = pinned.packages.get(RUN_FILE, "") if pinned else ""
    return version if loaded is None or loaded.version in {None, version} else ""


def _judge_origins(found: AptRig, policies: tuple[AptPolicy, ...]) -> Finding:
    own = {one.name for one in found.driver}
    known = [one for one in policies if one.package in own]
    installed: dict[Origin, Offer] = {}
    coming: dict[Origin, Offer] = {}
    loose = {one.name for one in found.loose}
    for policy in known:
        here = policy.offer(policy.installed)
        _note(installed, here)
        _note(coming, here)
        if policy.package in loose:
            _note(coming, policy.offer(policy.candidate))
    if len(installed) > 1:
        return _mixed(installed, "the driver's packages come from", found)
    if len(coming) > 1:
        return _mixed(coming, "the next upgrade would mix packages of", found)
    if not found.are_whole or not known or found.holds.run_files is None:
        return Finding("unknown", "where the driver's packages come from could not all be read")
    origins = " and ".join(_CALLED[one] for one in installed)
    return Finding("ok", f"the driver's packages come from {origins or 'no archive any more'}")


def _note(origins: dict[Origin, Offer], offer: Offer | None) -> None:
    """A version that two archives have is no sign of a mixture; neither is a kept local copy."""
    if offer is not None and len(offer.origins) == 1:
        (origin,) = offer.origins
        if origin != "local":
            origins.setdefault(origin, offer)


def _mixed(origins: dict[Origin, Offer], what: str, found: AptRig) -> Finding:
    places = " and ".join(_CALLED[one] for one in origins)
    return Finding(
        "warn",
        f"{what} {places}",
        tuple(
            Evidence(PACKAGE_HOLDS.name, line)
            for offer in origins.values()
            for line in offer.lines[:2]
        ),
        why=_WHY_MIXED,
        fix=fix_by_hand(
            "keep one: take the other's file out of /etc/apt/sources.list.d, or pin it below "
            "zero for these packages in /etc/apt/preferences.d, run `apt-get update`, and look at "
            f"`apt-cache policy {found.driver[0].name}`"
        ),
    )
