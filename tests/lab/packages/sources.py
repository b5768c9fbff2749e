"""Where a rig gets packages from: the text of its one file of apt sources."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Protocol

from tests.lab.errors import LabError
from tests.lab.packages import recipe
from tests.lab.packages.archive import COMPONENTS

if TYPE_CHECKING:
    from collections.abc import Sequence

AT = "/srv/rigsim-apt"  # in a host
FILE = "etc/apt/sources.list.d/rigsim.sources"
_UBUNTU = "noble-updates"
_POCKET = "noble"


class Machine(Protocol):
    """What of a rig decides over its packages."""

    @property
    def os(self) -> str: ...
    @property
    def suite(self) -> str: ...
    @property
    def driver(self) -> str | None: ...
    @property
    def open_modules(self) -> bool: ...
    @property
    def components(self) -> Sequence[str]: ...
    @property
    def pocket(self) -> str | None: ...
    @property
    def held(self) -> bool: ...
    @property
    def persistence(self) -> bool: ...


def sources(rig: Machine) -> str:
    """The distribution's own suites, and the one that the rig's driver once came from."""
    names = [_standard(rig)]
    if rig.os == "ubuntu" and rig.pocket == "on":
        names.append(_POCKET)
    elif rig.os == "debian":
        names += _origin(rig)
    return "\n".join(source(rig.os, name, _components(rig)) for name in names)


def first_sources(rig: Machine) -> str:
    """Where its driver came from, whatever became of that since."""
    return "\n".join(source(rig.os, name) for name in [_standard(rig), *_origin(rig)])


def source(repository: str, suite: str, components: Sequence[str] = ()) -> str:
    """One stanza; with no components named, all there are."""
    return (
        "Types: deb\n"
        f"URIs: file:{AT}/{repository}\n"
        f"Suites: {suite}\n"
        f"Components: {' '.join(components or COMPONENTS[repository])}\n"
        "Trusted: yes\n"
    )


def _origin(rig: Machine) -> list[str]:
    standard = _standard(rig)
    origin = _suite_of(rig.os, rig.driver, standard) if rig.driver else standard
    return [] if origin == standard else [origin]


def _standard(rig: Machine) -> str:
    return _UBUNTU if rig.os == "ubuntu" else rig.suite


def _suite_of(repository: str, driver: str, standard: str) -> str:
    """The suite that has this version of the driver; the standard one where it does."""
    suites = sorted(_suites(repository), key=lambda suite: suite.name != standard)
    for suite in suites:
        if suite.has_driver(driver):
            return suite.name
    known = sorted({
        package.words["upstream"]
        for suite in suites
        for package in suite.packages
        if package.name == "nvidia-smi" or package.name.startswith("nvidia-utils-")
        if "upstream" in package.words
    })  # fmt: skip
    raise LabError(f"driver={driver}: the lab's {repository} has {', '.join(known)}")


def _components(rig: Machine) -> Sequence[str]:
    return [name for name in rig.components if name in COMPONENTS[rig.os]] + (
        ["restricted"] if rig.os == "ubuntu" else []
    )


def _suites(repository: str) -> list[recipe.Suite]:
    return [suite for suite in recipe.suites(os.uname().release) if suite.repository == repository]
