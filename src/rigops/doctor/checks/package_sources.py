"""Whether all packages of the driver come, and will come, from one place."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rigops.concerns.nvidia_driver import record
from rigops.doctor.check import Check
from rigops.doctor.finding import Evidence, Finding, fix_by_hand
from rigops.doctor.views.driver_packages import AptRig, apt_rig
from rigops.probe.package_names import RUN_FILE
from rigops.probe.sections.nvidia_version import SECTION as NVIDIA_VERSION
from rigops.probe.sections.package_holds import SECTION as PACKAGE_HOLDS
from rigops.probe.sections.packages import SECTION as PACKAGES
from rigops.probe.sections.rigops_state import SECTION as RIGOPS_STATE

if TYPE_CHECKING:
    from rigops.doctor.examined import Examined
    from rigops.probe.sections.package_holds import AptPolicy, Offer, Origin


_CITED: Final = 4
_CALLED: Final[dict[Origin, str]] = {
    "distribution": "the distribution",
    "nvidia": "NVIDIA's repository",
    "ppa": "a PPA",
    "local": "a local archive",
}
_WHY = (
    "Packages of two makers have the same names and different contents: an upgrade takes some from "
    "one and some from the other, and libraries and kernel module no longer fit."
)
_WHY_RUN = (
    "NVIDIA's own installer writes over files that belong to packages. The next upgrade of those "
    "packages writes over the installer's."
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
    return _judged(found, policies)


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
        (*evidence, *(Evidence(PACKAGES.name, one.line) for one in driver[:_CITED])),
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


def _judged(found: AptRig, policies: tuple[AptPolicy, ...]) -> Finding:
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
        why=_WHY,
        fix=fix_by_hand(
            "keep one: take the other's file out of /etc/apt/sources.list.d, or pin it below "
            "zero for these packages in /etc/apt/preferences.d, run `apt-get update`, and look at "
            f"`apt-cache policy {found.driver[0].name}`"
        ),
    )
