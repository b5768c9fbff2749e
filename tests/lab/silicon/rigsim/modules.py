"""Which kernel driver the host's own files would load."""

import os
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

from . import kernel_arguments, paths

_FILES = ("nvidia-current.ko", "nvidia.ko", "nvidia-current-open.ko", "nvidia-open.ko")
_NAMES = frozenset(("nvidia", "nvidia-current"))
_VERSION = re.compile(rb"(?:^|\0)version=([0-9.]+)\0")
_DIRECTORIES = ("/etc/modprobe.d", "/run/modprobe.d", "/usr/lib/modprobe.d", "/lib/modprobe.d")


def _kernels() -> list[str]:
    booted = next(
        (w for w in paths.read(paths.COMMAND_LINE).split() if w.startswith("BOOT_IMAGE=")), ""
    )
    return [os.uname().release, booted.rpartition("vmlinuz-")[2]]


def path() -> Path | None:
    """The module that the running kernel would load: built here, else whoever brought one."""
    for kernel in filter(None, _kernels()):
        folder = paths.at(f"/lib/modules/{kernel}")
        found = [folder / "updates/dkms" / name for name in _FILES]
        found += sorted(folder.glob("kernel/nvidia-*/nvidia.ko"))
        found.append(folder / "kernel/drivers/video/nvidia.ko")  # of NVIDIA's own installer
        for one in found:
            if one.is_file():
                return one
    return None


def _module() -> bytes:
    found = path()
    return found.read_bytes() if found else b""


def on_disk() -> str:
    override = paths.read(paths.DRIVER_OVERRIDE)
    if override:
        return "" if override == "none" else override
    found = _VERSION.search(_module())
    return found[1].decode() if found else ""


def is_open() -> bool:
    return b"\0license=Dual MIT/GPL\0" in _module()


def _configurations() -> Iterator[Path]:
    seen = set()
    for directory in _DIRECTORIES:
        for path in sorted(paths.at(directory).glob("*.conf")):
            if path.name not in seen:
                seen.add(path.name)
                yield path


def _lines() -> Iterator[list[str]]:
    for path in _configurations():
        for line in paths.read(path).splitlines():
            words = line.split("#")[0].split()
            if words:
                yield words


def refused() -> bool:
    """Whether nvidia is kept from being loaded at boot."""
    names = set(kernel_arguments.blacklisted(paths.read(paths.COMMAND_LINE)))
    for words in _lines():
        if words[0] == "blacklist" and len(words) > 1:
            names.add(words[1])
        if words[0] == "install" and words[2:3] in (["/bin/false"], ["/bin/true"]):
            names.add(words[1])
    return bool(names & _NAMES)


def nouveau_refused() -> bool:
    names = kernel_arguments.blacklisted(paths.read(paths.COMMAND_LINE))
    return "nouveau" in names or any(words[:2] == ["blacklist", "nouveau"] for words in _lines())


def options(module: str) -> dict[str, str]:
    """What modprobe.d asks for, by parameter."""
    found = {}
    for words in _lines():
        if words[0] == "options" and words[1:2] in ([module], [module.replace("_", "-")]):
            for word in shlex.split(" ".join(words[2:])):
                name, _, value = word.partition("=")
                found[name] = value
    return found
