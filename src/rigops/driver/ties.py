"""Which packages have to be of one version with the driver's others."""

from __future__ import annotations

import re

from rigops.probe.package_names import driver_version, is_driver

# Debian builds these with every driver, and the packages of each take those of any other.
_SHARED = re.compile(r"nvidia-(?:egl|opencl|suspend|vulkan)-common|nvidia-legacy-check")
_PREBUILT = re.compile(r"linux-(?:modules|objects|signatures)-nvidia-")


def is_shared(name: str) -> bool:
    return _SHARED.fullmatch(name) is not None


def is_tied(name: str) -> bool:
    return is_driver(name) and not is_shared(name)


def is_prebuilt(name: str) -> bool:
    """Modules that the distribution built, versioned with its kernels."""
    return _PREBUILT.match(name) is not None


def stands_in_the_way(name: str, version: str) -> bool:
    """Whether, being of another version, it cannot stay beside the driver."""
    return is_prebuilt(name) or (is_tied(name) and driver_version(version) is not None)
