"""For which kernels the modules of a release build."""

from __future__ import annotations

import re
from typing import Final

from packaging.version import Version

from rigops.catalog import versions
from rigops.catalog.loader import Catalog
from rigops.catalog.model import DriverBranch, KernelChange, ModuleFlavor

_NUMBERS: Final = re.compile(r"([0-9]+)\.([0-9]+)(?:\.([0-9]+))?")
_FOR_ALL_LATER: Final = 2  # numbers: 6.19 and all after it; 6.1.187: this series only


def numbers_of(kernel: str) -> tuple[int, ...]:
    """Of 6.1.187-1 or 7.0.4-arch1-1; none of a text that begins with no release."""
    shape = _NUMBERS.match(kernel)
    return tuple(int(one) for one in shape.groups() if one) if shape else ()


def series(kernel: str) -> tuple[int, ...]:
    return numbers_of(kernel)[:2]


def newest_kernel(branch: DriverBranch, version: str | Version) -> str:
    """Series of the newest kernel that the release is known to build for, or ""."""
    parsed = versions.parse(version) if isinstance(version, str) else version
    fitting = (one.newest for one in branch.kernels if versions.matches(one.versions, parsed))
    return next(fitting, "")


def broken_from(
    catalog: Catalog, version: str, flavor: ModuleFlavor, kernel: str, tested: str = ""
) -> str:
    """The kernel, at most this one, whose changes end the builds of a release; "": none does.

    `tested`: the series up to which the package says that it builds, with patches of its own.
    """
    for change in catalog.kernel_changes:
        if flavor in change.flavors and _is_before_fix(change, version):
            mainline = next(one for one in change.kernels if len(numbers_of(one)) == _FOR_ALL_LATER)
            at = next((one for one in change.kernels if _reaches(kernel, one)), "")
            if at and not series(mainline) <= series(tested):
                return at
    return ""


def _reaches(kernel: str, at: str) -> bool:
    there, since = numbers_of(kernel), numbers_of(at)
    if len(since) == _FOR_ALL_LATER:
        return there[:2] >= since
    return there[:2] == since[:2] and there >= since


def _is_before_fix(change: KernelChange, version: str) -> bool:
    """A branch between those with a fix, of which nothing is known, is not."""
    wanted = versions.parse(version)
    if change.since and wanted < versions.parse(change.since):
        return False
    fixed = [versions.parse(one) for one in change.fixed]
    same = [one for one in fixed if one.major == wanted.major]
    return wanted < same[0] if same else wanted.major < min(one.major for one in fixed)
