"""Common views of the NVIDIA driver's packages."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from typing import Any

from rigops.catalog import versions
from rigops.dataclass import dataclass
from rigops.doctor.examined import Examined
from rigops.doctor.finding import Evidence, Finding, Fix, fix_by_hand
from rigops.doctor.views import apt
from rigops.doctor.views.driver_advice import advise, blocked
from rigops.doctor.views.driver_state import CONCERN
from rigops.probe.package_names import driver_version, is_driver_tool, is_user_space
from rigops.probe.sections.nvidia_version import SECTION as NVIDIA_VERSION
from rigops.probe.sections.package_holds import SECTION as PACKAGE_HOLDS
from rigops.probe.sections.package_holds import PackageHolds
from rigops.probe.sections.packages import SECTION as PACKAGES
from rigops.probe.sections.packages import Package, Packages
from rigops.probe.snapshot import Answer

_SHOWN = 4


@dataclass(frozen=True)
class AptRig:
    """A host whose driver apt manages."""

    packages: Packages
    driver: tuple[Package, ...]
    holds: PackageHolds
    are_whole: bool  # both sections: what they do not name is not there

    @cached_property
    def loose(self) -> tuple[Package, ...]:
        """Neither held nor pinned."""
        return tuple(
            one
            for one in self.driver
            if not apt.holds(one, self.holds.held) and not apt.pins_down(one, self.holds.pins)
        )


def apt_rig(examined: Examined) -> AptRig | Finding:
    """The packages to judge, or why there are none."""
    snapshot = examined.snapshot
    packages = snapshot[PACKAGES].value
    if packages is None:
        return Finding("unknown", not_read(snapshot[PACKAGES], "the installed packages"))
    is_complete = snapshot[PACKAGES].is_exhaustive
    if (other := _elsewhere(packages, snapshot[PACKAGE_HOLDS].value)) is not None:
        return other
    if not packages.driver:
        return (
            Finding("skipped", "no package of the NVIDIA driver is installed")
            if is_complete
            else Finding("unknown", "the installed packages could not all be read")
        )
    holds = snapshot[PACKAGE_HOLDS].value
    if holds is None or not holds.asks_apt:
        return Finding("unknown", not_read(snapshot[PACKAGE_HOLDS], "holds and pins of packages"))
    is_complete = is_complete and snapshot[PACKAGE_HOLDS].is_complete
    # The tools of a driver that is not declared may be newer.
    tools = (one for one in packages.packages if one.is_installed and is_driver_tool(one.name))
    driver = (*packages.driver, *(tools if examined.spec.driver else ()))
    return AptRig(packages, driver, holds, is_complete)


def _elsewhere(packages: Packages, holds: PackageHolds | None) -> Finding | None:
    """Holds of pacman and dnf are shown, and not judged."""
    if not packages.managers or "dpkg" in packages.managers:
        return None
    whose = " and ".join(sorted(packages.managers))
    lines = tuple(Evidence(PACKAGE_HOLDS.name, line) for line in holds.elsewhere) if holds else ()
    return Finding("skipped", f"packages are {whose}'s here, not apt's", lines)


def not_read(answer: Answer[Any], what: str) -> str:
    if answer.timed_out:
        return f"{what} could not be read: no answer in time"
    return f"{what} could not be read"


def names(packages: Iterable[Package], *, shown: int = _SHOWN) -> str:
    """The first few."""
    found = [named(one) for one in packages]
    rest = len(found) - shown
    return ", ".join(found[:shown]) + (f" and {rest} more" if rest > 0 else "")


def named(package: Package) -> str:
    """As apt wants it: with its architecture where it is not the machine's own."""
    return f"{package.name}:i386" if package.architecture == "i386" else package.name


def user_space_versions(packages: Iterable[Package]) -> dict[str, Package]:
    """NVIDIA's version of the installed libraries, each with one package of it."""
    return {
        version: one
        for one in packages
        if is_user_space(one.name)
        for version in [driver_version(one.version)]
        if version
    }


def installed_version(examined: Examined, packages: Packages) -> str | None:
    """A name is no proof of a branch: the libraries' version is, and what is loaded."""
    found = user_space_versions(packages.driver)
    loaded = examined.snapshot[NVIDIA_VERSION].value
    if loaded and loaded.version and (not found or loaded.version in found):
        return loaded.version
    return next(iter(found), None)


def keep_fix(examined: Examined, found: AptRig, by_hand: str, does: str) -> Fix:
    """Declare what is there, or what should be in its place."""
    if reason := blocked(examined):
        return fix_by_hand(reason)
    version, advice = installed_version(examined, found.packages), advise(examined)
    wish = examined.spec.driver
    if not advice.declare or (wish is None and version is None):
        return fix_by_hand(by_hand)
    stays = version and advice.driver in {version, versions.branch_of(version)}
    if not wish and not stays:
        does = f"installs driver {advice.driver} in its place and holds it"
        by_hand = f"install driver {advice.driver} first, and hold its packages"
    return Fix(
        kind="apply" if wish or stays else "apply+reboot",
        concern=CONCERN,
        declare=advice.declare,
        text=f"`rigops apply` {does}",
        by_hand=by_hand,
    )
