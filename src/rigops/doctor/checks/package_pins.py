"""Whether the driver stays the one that it is when the distribution's packages are upgraded."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rigops.concerns.nvidia_driver import record
from rigops.concerns.nvidia_driver.resolver.answer import is_in_place
from rigops.concerns.nvidia_driver.resolver.host_facts import installed_of
from rigops.doctor.check import Check
from rigops.doctor.finding import Evidence, Finding, fix_by_hand
from rigops.doctor.views import apt
from rigops.doctor.views.driver_packages import (
    AptRig,
    apt_rig,
    keep_fix,
    named,
)
from rigops.probe.package_names import is_kernel_meta, is_user_space
from rigops.probe.sections.nvidia_version import SECTION as NVIDIA_VERSION
from rigops.probe.sections.package_holds import SECTION as PACKAGE_HOLDS
from rigops.probe.sections.packages import SECTION as PACKAGES
from rigops.probe.sections.rigops_state import SECTION as RIGOPS_STATE
from rigops.probe.sections.units import SECTION as UNITS

if TYPE_CHECKING:
    from rigops.doctor.examined import Examined
    from rigops.doctor.finding import Status
    from rigops.probe.sections.packages import Package


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


@Check(
    "pkg.hold",
    needs=(NVIDIA_VERSION, PACKAGE_HOLDS, PACKAGES, RIGOPS_STATE),
    fixes=("apply", "apply+reboot", "hands"),
)
def hold(examined: Examined) -> Finding:
    """The driver's packages are held or pinned.

    Compares the installed packages of the NVIDIA driver (modules, libraries, tools; not CUDA
    toolkits and not the container toolkit) with what dpkg holds, its own marks and
    /etc/apt/preferences(.d). A pin counts where no other version of the driver can come: its exact
    version above priority 990, or every version below 0. A held metapackage holds none of the
    libraries. With `driver` declared its tools (nvidia-persistenced, nvidia-settings and the like)
    must be held too, what rigops has pinned must be what is installed, and a pin alone does not
    replace the hold of rigops. With `kernel_hold` the kernel's metapackages must be held. Elsewhere
    than with apt this is not judged.
    """
    found = apt_rig(examined)
    if isinstance(found, Finding):
        return found
    loose = (*found.loose, *_loose_kernels(examined, found))
    if loose:
        return _loose(examined, found, loose)
    if not found.are_whole:
        return Finding("unknown", "every package that was read is held; not all were read")
    if (left := _not_as_pinned(examined, found)) is not None:
        fix = keep_fix(examined, found, "hold its packages with `apt-mark hold`", _HOLDS)
        return Finding(*left, why=_WHY_HOLD, fix=fix)
    summary = f"every package of the NVIDIA driver ({len(found.driver)}) is held or pinned"
    return Finding("ok", summary)


def _not_as_pinned(examined: Examined, found: AptRig) -> tuple[Status, str] | None:
    """Of the declared driver, by what rigops recorded of it: plan goes by the same.

    A driver that a person holds is safe until rigops pins it.
    """
    state = examined.snapshot[RIGOPS_STATE]
    if examined.spec.driver is None or state.value is None or not state.is_complete:
        return None
    pinned = record.pinned(state.value.records.get(record.PATH))
    if pinned is None:
        text = f"driver {examined.spec.driver.text} is declared, and rigops has not pinned it yet"
        return "info", text
    installed, tools = installed_of(found.packages)
    if not is_in_place(pinned, installed, tools):
        text = f"rigops has pinned driver {pinned.version}, and other packages are installed"
        return "warn", text
    # By name, as plan does: another architecture's follows that of the host's own.
    held = {one.name for one in found.driver if apt.holds(one, found.holds.held)}
    loose = {one.name for one in found.driver} & {*pinned.packages, *tools} - held
    count = f"{len(loose)} of {len(found.driver)} packages"
    return ("warn", f"{count} of the NVIDIA driver are pinned, and not held") if loose else None


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
