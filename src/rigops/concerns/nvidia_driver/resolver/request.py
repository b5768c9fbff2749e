"""The driver's declaration, with its defaults, and the answers to it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, field
from typing import TYPE_CHECKING, Any

from packaging.version import Version

from rigops.catalog.model import ModuleFlavor
from rigops.dataclass import dataclass
from rigops.probe.package_names import RUN_FILE

if TYPE_CHECKING:
    from rigops.inventory.spec import RigSpec
    from rigops.inventory.spec.model import DriverDeclaration, DriverSet, Flavor


@dataclass(frozen=True, kw_only=True)
class Request:
    driver: DriverDeclaration
    flavor: Flavor = "auto"
    set_: DriverSet | None = None  # None: what is installed, else compute
    allow_bad: bool = False
    upgrade: bool = False  # to a newer version than the installed one, where the declaration allows
    locked: str = ""  # the version that was proven here before
    source: str = "auto"  # the declared kind
    tools: tuple[str, ...] = ()  # wanted where they are offered
    is_of_tree: bool = False  # another version takes another tree of the owner's own modules

    def takes(self, version: str) -> bool:
        return self.driver.versions.contains(Version(version), prereleases=True)


@dataclass(frozen=True, kw_only=True)
class Resolution:
    """The driver to have: `packages` is every one of it, in its exact version.

    `asked` are those named for their own sake; `also` has to be there beside them, in any version.
    `beside` are the driver's tools, in exact versions of their own.
    """

    version: str  # NVIDIA's
    flavor: ModuleFlavor
    packages: Mapping[str, str]
    asked: tuple[str, ...]
    sources: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # source package: versions
    also: tuple[str, ...] = ()
    beside: Mapping[str, str] = field(default_factory=dict)
    remove: tuple[str, ...] = ()
    places: tuple[str, ...] = ()
    why: str = ""
    notes: tuple[str, ...] = ()
    prebuilt: tuple[str, ...] = ()  # kernels whose modules the distribution built and signed
    set_: DriverSet = "compute"

    @property
    def is_run_file(self) -> bool:
        return RUN_FILE in self.packages

    @property
    def exact(self) -> Mapping[str, str]:
        """All that has to be there in one version."""
        return {**self.packages, **self.beside}

    @property
    def by_apt(self) -> Mapping[str, str]:
        """All that is pinned and held."""
        return {name: its for name, its in self.exact.items() if name != RUN_FILE}

    @property
    def branch(self) -> str:
        return self.version.partition(".")[0]


@dataclass(frozen=True)
class Blocker:
    """`fix` is the nearest thing that works; `declare`: the keys of the inventory that do it."""

    reason: str
    fix: str = ""
    declare: Mapping[str, object] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.reason}: {self.fix}" if self.fix else self.reason


def request(
    spec: RigSpec, driver: DriverDeclaration, *, locked: str = "", upgrade: bool = False
) -> Request:
    return Request(
        driver=driver,
        flavor=spec.driver_flavor or "auto",
        set_=spec.driver_set,
        allow_bad=bool(spec.driver_allow_bad),
        upgrade=upgrade,
        locked=locked,
        source=spec.driver_source.kind if spec.driver_source else "auto",
    )


def identity(spec: RigSpec) -> str:
    """All that a resolution depends on: with another text, the driver is resolved again."""
    source = asdict(spec.driver_source) if spec.driver_source else None
    declared = spec.driver.text if spec.driver else None
    return json.dumps(
        [declared, spec.driver_flavor, spec.driver_set, bool(spec.driver_allow_bad), source]
    )


def declared(identity: str) -> dict[str, object]:
    """The keys that `identity` was made of; none of another text."""
    try:
        driver, flavor, set_, allow_bad, source = json.loads(identity)
        found = {
            "driver": driver,
            "driver_flavor": flavor,
            "driver_set": set_,
            "driver_allow_bad": allow_bad or None,
            "driver_source": _source(source) if source else None,
        }
    except (ValueError, TypeError, KeyError):
        return {}
    return {name: value for name, value in found.items() if value is not None}


def _source(fields: Mapping[str, Any]) -> object:
    match fields["kind"]:
        case "snapshot":
            return f"snapshot:{fields['snapshot']}"
        case "dir":
            return f"dir:{fields['directory']}"
        case "deb822":
            return dict(fields["fields"])
        case kind:
            return kind
