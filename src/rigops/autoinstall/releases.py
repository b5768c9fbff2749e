"""The releases that can be installed, and their kernels."""

from __future__ import annotations

from typing import Final, Literal

from rigops.dataclass import dataclass

Distribution = Literal["debian", "ubuntu"]


@dataclass(frozen=True)
class Release:
    """`kernel`: the series of its own kernel; `hwe_kernel`: of the newer one, if there is one."""

    distribution: Distribution
    version: str
    codename: str
    kernel: str
    hwe_kernel: str = ""


# The last one of a distribution is the default where the host had another distribution.
RELEASES: Final = (
    Release("debian", "12", "bookworm", "6.1"),
    Release("debian", "13", "trixie", "6.12"),
    Release("ubuntu", "24.04", "noble", "6.8", "7.0"),
    Release("ubuntu", "26.04", "resolute", "7.0"),
)
VERSIONS: Final = tuple(one.version for one in RELEASES)


def for_distribution(distribution: Distribution) -> tuple[Release, ...]:
    return tuple(one for one in RELEASES if one.distribution == distribution)
