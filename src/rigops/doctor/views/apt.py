"""The effect of apt and unattended-upgrades on a package, by their own rules."""

from __future__ import annotations

import re
from collections.abc import Iterable
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import Final

from rigops.probe.package_names import driver_version
from rigops.probe.sections.package_holds import Pin
from rigops.probe.sections.packages import Package

# Above the target release, so that no newer version of any archive outweighs it.
_ABOVE_ALL: Final = 990
_EVERY_VERSION: Final = frozenset({"version *", "release *", "release a=*", "origin *"})
_READ_BY_APT = re.compile(r"/etc/apt/preferences(?:\.d/(?:[A-Za-z0-9_-]+|[A-Za-z0-9_.-]+\.pref))?")
_LONGEST_PATTERN: Final = 200
_LONGEST_NAME: Final = 100
_REPEATS: Final = 2
_CHOICES: Final = 3
_NESTED = re.compile(r"\)[*+{]")


def holds(package: Package, held: Iterable[str]) -> bool:
    """By dpkg's own mark, or in the list of apt-mark, which names other architectures."""
    own = {f"{package.name}:{package.architecture}"}
    if package.architecture != "i386":
        own.add(package.name)
    return package.is_held or not own.isdisjoint(held)


def pins_down(package: Package, pins: Iterable[Pin]) -> Pin | None:
    """The stanza because of which no other version of the driver can come. The first decides."""
    for pin in pins:
        if not _READ_BY_APT.fullmatch(pin.file) or not any(
            _is_meant(word, package) for word in pin.package.split()
        ):
            continue
        if pin.pin in _EVERY_VERSION:
            return pin if pin.priority < 0 else None
        if pin.priority >= 0:
            return pin if pin.priority > _ABOVE_ALL and _is_this_version(pin, package) else None
    return None


def blacklists(name: str, patterns: Iterable[str]) -> bool:
    """Unattended-upgrades matches from the beginning of the name on, and not its middle."""
    return any(
        compiled.match(name[:_LONGEST_NAME]) is not None
        for compiled in map(_compiled, patterns)
        if compiled is not None
    )


def _is_meant(word: str, package: Package) -> bool:
    if word.startswith("src:"):
        source = word.removeprefix("src:").partition(":")[0]
        return package.source is not None and _fits(source, package.source)
    return word != "*" and _fits(word.partition(":")[0], package.name)


def _fits(pattern: str, name: str) -> bool:
    if len(pattern) > 1 and pattern.startswith("/") and pattern.endswith("/"):
        compiled = _compiled(pattern[1:-1])
        return compiled is not None and compiled.search(name[:_LONGEST_NAME]) is not None
    return "[" not in pattern and fnmatchcase(name, pattern)


def _is_this_version(pin: Pin, package: Package) -> bool:
    """The installed version, or any packaging of the same version of NVIDIA's."""
    kind, _, wanted = pin.pin.partition(" ")
    wanted = wanted.strip()
    if kind != "version" or not _fits(wanted, package.version):
        return False
    is_exact = not set("*?[/") & set(wanted)
    return is_exact or driver_version(wanted.rstrip("*")) == driver_version(package.version)


@lru_cache(maxsize=256)
def _compiled(pattern: str) -> re.Pattern[str] | None:
    """A host's own pattern must not cost more than a glance: what could is not understood."""
    is_simple = (
        len(pattern) <= _LONGEST_PATTERN
        and not _NESTED.search(pattern)
        and sum(map(pattern.count, "*+{")) <= _REPEATS
        and sum(map(pattern.count, "?|")) <= _CHOICES
    )
    try:
        return re.compile(pattern) if is_simple else None
    except (re.error, OverflowError, RecursionError):
        return None
