"""A driver in a .run file of NVIDIA's, as the resolver sees it: an offer like those of packages.

It is one file with all of the driver, so that it comes in the place of every package of it. dkms
and the kernels' headers come from the sources of the machine.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from rigops.catalog.versions import branch_of
from rigops.driver.offers import Offer
from rigops.driver.request import Refusal
from rigops.driver.ties import is_shared
from rigops.probe.package_names import RUN_FILE, is_driver

if TYPE_CHECKING:
    from rigops.catalog.model import Flavour
    from rigops.driver.machine import Machine, RunFile
    from rigops.spec.model import DriverSet, Flavor

ARCHITECTURE: Final = "x86_64"  # no name that dpkg has for one: apt passes such a record by
NEEDS: Final = ("dkms",)
INSTALLED: Final = "installed here"

_OPEN_SINCE: Final = 515
_OF_THE_SAME_NAMES = re.compile(r"nvidia-(?:modprobe|persistenced|settings|xconfig)")


def offer(version: str, *places: str) -> Offer:
    return Offer(RUN_FILE, version, places=places)


def flavours(version: str) -> tuple[Flavour, ...]:
    """Of the modules whose source it has."""
    is_both = int(branch_of(version)) >= _OPEN_SINCE
    return ("proprietary", "open") if is_both else ("proprietary",)


def is_in_its_way(name: str) -> bool:
    """A package with files that it has as well."""
    return is_driver(name) or is_shared(name) or _OF_THE_SAME_NAMES.fullmatch(name) is not None


def kept(
    machine: Machine, flavor: Flavor = "auto", set_: DriverSet | None = None
) -> tuple[Offer, ...]:
    """The one that rigops put there: it stays where any source would do, as it is."""
    found = machine.run_file
    version = machine.installed.get(RUN_FILE)
    if not version or not found or flavor not in {"auto", found.flavour}:
        return ()
    return () if set_ not in {None, found.set_} else (offer(version, INSTALLED),)


def somebodys(found: RunFile) -> Refusal:
    """Of one that is there already, and that rigops did not put there."""
    version = f" {found.version}" if found.version else ""
    reason = (
        f"NVIDIA's own installer put a driver{version} here, and packages would share its files"
    )
    if not found.uninstaller:
        name = f"NVIDIA-Linux-x86_64-{found.version or 'VERSION'}.run"
        return Refusal(
            reason,
            f"its uninstaller is gone, so run `sudo sh {name} --uninstall` with the file that it "
            "came from, then this again",
        )
    return Refusal(
        reason,
        "`rigops apply --remove-foreign-driver` has its own uninstaller take it away first; by "
        f"hand that is `sudo {found.uninstaller} --uninstall --silent`",
    )
