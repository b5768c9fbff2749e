"""The meaning of packages' names on the distributions that rigops supports."""

from __future__ import annotations

import re
from typing import Final

# A driver of NVIDIA's own installer (.run) among those of packages: no package can be called that.
RUN_FILE: Final = "nvidia-linux-x86_64"
HEADERS: Final = "linux-headers-"
RUN_FILE_ARCHITECTURE: Final = "x86_64"  # dpkg has no such name: apt ignores a record with it

# Also built from NVIDIA's names, and not tied to the driver: another version of these is no
# other driver. nvidia-cuda-mps is the exception, it belongs to the driver in Debian.
_APART = re.compile(
    r"(?:lib)?nvidia-container|nvidia-(?:docker|cuda-(?!mps)|cudnn|nsight|visual-profiler|profiler"
    r"|gds|fs|opencl-dev|settings|prime|detect|support|installer|xconfig|modprobe|persistenced"
    r"|dcgm|vaapi|mig-|bug|kernel-common$)|libnvidia-(?:ml-dev|egl-|container)|linux-firmware-nvidia$"
)
_DRIVER = re.compile(
    r"(?:lib)?nvidia(?:-|$)|opencl-nvidia|xserver-xorg-video-nvidia|xorg-x11-drv-nvidia|cuda-drivers|a?kmod-nvidia"
    r"|dkms-nvidia|linux-(?:modules|objects|signatures)-nvidia|firmware-nvidia-.*gsp"
    r"|lib(?:cuda1|cudadebugger1|nvcuvid1|nvoptix1)$|lib(?:gl1|egl|glx|gles)-nvidia|lib32-nvidia-"
)
_TOOL = re.compile(r"nvidia-(?:modprobe|persistenced|settings|xconfig)")
_USER_SPACE = re.compile(
    r"libnvidia-(?:compute|(?:tesla-)?(?:[0-9]{3}-)?ml1$)|libcuda1$|libnvidia-tesla-(?:[0-9]{3}-)?cuda1$"
    r"|nvidia-utils$|nvidia-[0-9]{3}xx-utils$|nvidia-driver-cuda-libs$|xorg-x11-drv-nvidia-cuda-libs$"
)
_KERNEL = re.compile(
    r"linux-(?:image|headers|modules|generic|lowlatency|lts|zen)|kernel|pve-kernel"
)
_KERNEL_RELEASE = re.compile(r"[0-9]{1,5}(?:\.[0-9]{1,5}){2}")
_UPSTREAM = re.compile(
    r"(?:[0-9]{1,4}:)?(?P<version>[1-9][0-9]{1,3}(?:\.[0-9]{1,3}){1,2})(?![0-9.])"
)


def headers_of(kernel: str) -> str:
    """By its release."""
    return f"{HEADERS}{kernel.lower()}"


def is_driver(name: str) -> bool:
    """Whether another version of it is another driver: libraries, modules and what ties them."""
    return _DRIVER.match(name) is not None and _APART.match(name) is None


def is_driver_tool(name: str) -> bool:
    """Versioned as the driver, and tied to it by no dependency."""
    return _TOOL.fullmatch(name) is not None


def is_user_space(name: str) -> bool:
    """Whether it has the libraries that must be of the loaded module's version."""
    return _USER_SPACE.match(name) is not None


def is_kernel(name: str) -> bool:
    return _KERNEL.match(name) is not None


def is_kernel_meta(name: str) -> bool:
    """A package with no kernel in it that always asks for the newest one."""
    return (
        name.startswith(("linux-image-", HEADERS, "linux-generic", "linux-lowlatency"))
        and _KERNEL_RELEASE.search(name) is None
    )


def driver_version(package_version: str) -> str | None:
    """NVIDIA's version within the distribution's: `535.171.04-0ubuntu2` is 535.171.04."""
    found = _UPSTREAM.match(package_version)
    return found["version"] if found else None
