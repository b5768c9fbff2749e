"""The kernel to install: the release's own, or a newer one, where the driver builds."""

from __future__ import annotations

import re

from packaging.version import Version

from rigops.autoinstall.releases import Release
from rigops.capture.document import Capture
from rigops.catalog import Catalog, versions
from rigops.catalog.kernels import newest_kernel
from rigops.catalog.lookup import find_branch
from rigops.dataclass import dataclass

_BRANCH = re.compile(r"[1-9][0-9]{2}")


@dataclass(frozen=True)
class Kernel:
    """`flavor`: for Ubuntu's installer; `package`: for Debian's."""

    series: str
    flavor: str = ""
    package: str = ""
    warnings: tuple[str, ...] = ()


def kernel_of(capture: Capture, release: Release, catalog: Catalog) -> Kernel:
    driver, newest = _newest(capture, catalog)
    if release.distribution == "debian":
        return Kernel(
            release.kernel,
            package="linux-image-amd64",
            warnings=_too_new(release.kernel, driver, newest),
        )
    had_hwe = any("-hwe-" in name for name in capture.system.kernel_packages)
    if had_hwe and release.hwe_kernel and not _too_new(release.hwe_kernel, driver, newest):
        return Kernel(release.hwe_kernel, flavor="hwe")
    return Kernel(
        release.kernel, flavor="generic", warnings=_too_new(release.kernel, driver, newest)
    )


def _newest(capture: Capture, catalog: Catalog) -> tuple[str, str]:
    """The driver that the host is to have, and the newest kernel that it is known to build for."""
    declared = capture.declared.driver or ""
    version = capture.driver.version if capture.driver else declared
    try:
        branch = find_branch(catalog, versions.branch_of(version))
        return version, newest_kernel(branch, version) if branch else ""
    except ValueError:
        branch = find_branch(catalog, declared) if _BRANCH.fullmatch(declared) else None
        last = branch.releases[-1].version if branch and branch.releases else ""
        return declared, newest_kernel(branch, last) if branch and last else ""


def _too_new(kernel: str, driver: str, newest: str) -> tuple[str, ...]:
    if not newest or Version(kernel) <= Version(newest):
        return ()
    known = f"driver {driver} is known to build for kernels up to {newest}"
    return (f"{known}, and this release has {kernel}",)
