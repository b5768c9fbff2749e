"""A driver in a .run file of NVIDIA's, as the resolver sees it: an offer like those of packages.

It is one file with all of the driver, so that it comes in the place of every package of it. dkms
and the kernels' headers come from the sources of the machine.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from rigops.catalog.versions import branch_of
from rigops.concerns.nvidia_driver.resolver.offers import Offer, is_shared
from rigops.concerns.nvidia_driver.resolver.request import Refusal
from rigops.probe.package_names import RUN_FILE, is_driver

if TYPE_CHECKING:
    from rigops.catalog.model import ModuleFlavor
    from rigops.concerns.nvidia_driver.resolver.machine import Machine, RunFile
    from rigops.inventory.spec.model import DriverSet, Flavor

NEEDS: Final = ("dkms",)
INSTALLED: Final = "installed here"

_OPEN_SINCE: Final = 515
_OF_THE_SAME_NAMES = re.compile(r"nvidia-(?:modprobe|persistenced|settings|xconfig)")


def offer(version: str, *places: str) -> Offer:
    return Offer(RUN_FILE, version, places=places)


def flavors(version: str) -> tuple[ModuleFlavor, ...]:
    """Of the modules whose source it has."""
    is_both = int(branch_of(version)) >= _OPEN_SINCE
    return ("proprietary", "open") if is_both else ("proprietary",)


def is_in_its_way(name: str) -> bool:
    """A package with files that it has as well."""
    return is_driver(name) or is_shared(name) or _OF_THE_SAME_NAMES.fullmatch(name) is not None


def installed_here(
    machine: Machine, flavor: Flavor = "auto", set_: DriverSet | None = None
) -> tuple[Offer, ...]:
    """The .run file that rigops installed: as long as it is as declared, no source is needed."""
    found = machine.run_file
    version = machine.installed.get(RUN_FILE)
    if not version or not found or flavor not in {"auto", found.flavor}:
        return ()
    return () if set_ not in {None, found.set_} else (offer(version, INSTALLED),)


def foreign(found: RunFile) -> Refusal:
    """Of one that rigops did not install."""
    version = f" {found.version}" if found.version else ""
    reason = (
        f"NVIDIA's own installer put driver{version} here, and packages would replace its files"
    )
    if not found.uninstaller:
        name = f"NVIDIA-Linux-x86_64-{found.version or 'VERSION'}.run"
        return Refusal(
            reason,
            f"its uninstaller is gone: run `sudo sh {name} --uninstall` with the file that it came "
            "from, then this again",
        )
    return Refusal(
        reason,
        "`rigops apply --remove-foreign-driver` runs its uninstaller first; by hand: "
        f"`sudo {found.uninstaller} --uninstall --silent`",
    )
