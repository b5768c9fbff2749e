"""The driver's packages in the sources of a machine, each in each version."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from functools import cached_property, cmp_to_key

from rigops.dataclass import dataclass
from rigops.packages.dpkg import compare
from rigops.probe.package_names import driver_version, is_driver

_RELATION = re.compile(
    r"(?P<name>[a-z0-9][a-z0-9+.-]*)(?::\w+)?"
    r"(?:\s*\((?P<operator><<|<=|=|>=|>>)(?P<version>[^)]+)\))?"
    r"(?:\s*\[[^]]*\])?(?:\s*<[^>]*>)?"
)
# Debian builds these with every driver, and the packages of each take those of any other.
_SHARED = re.compile(r"nvidia-(?:egl|opencl|suspend|vulkan)-common|nvidia-legacy-check")
_PREBUILT = re.compile(r"linux-(?:modules|objects|signatures)-nvidia-")


@dataclass(frozen=True)
class Relation:
    name: str
    operator: str = ""
    version: str = ""


Alternatives = tuple[Relation, ...]


@dataclass(frozen=True)
class Origin:
    """A place that has a package, and its maker."""

    uri: str
    maker: str = ""  # by its Release file; empty: not in it


@dataclass(frozen=True)
class Offer:
    name: str
    version: str  # the package's own, such as 535.171.04-0ubuntu2
    source: str = ""  # the source package
    depends: tuple[Alternatives, ...] = ()  # Pre-Depends too
    provides: tuple[Relation, ...] = ()
    newest_kernel: str = ""  # that its description says it was built for
    places: tuple[str, ...] = ()  # such as `bookworm/non-free`
    origins: tuple[Origin, ...] = ()

    @property
    def upstream(self) -> str | None:
        """NVIDIA's version, where it is one of the driver's packages."""
        return driver_version(self.version)


@dataclass(frozen=True)
class Offers:
    every: tuple[Offer, ...] = ()

    def named(self, name: str) -> tuple[Offer, ...]:
        return self._by_name.get(name, ())

    def providing(self, name: str) -> tuple[Offer, ...]:
        return self._by_provided.get(name, ())

    def at(self, name: str, version: str) -> Offer | None:
        """Of this package the newest build of NVIDIA's version; the last of them is the newest."""
        return self._newest.get((name, version))

    def exactly(self, name: str, version: str) -> Offer | None:
        """`version`: the package's own."""
        return next((one for one in self.named(name) if one.version == version), None)

    def has(self, packages: Mapping[str, str]) -> bool:
        """Whether each of these packages is among them in this version."""
        return all(self.exactly(name, version) for name, version in packages.items())

    def and_also(self, more: Offers) -> Offers:
        """With those of `more` that these do not have."""
        known = {(one.name, one.version) for one in self.every}
        new = (one for one in more.every if (one.name, one.version) not in known)
        return in_order((*self.every, *new))

    @cached_property
    def _by_name(self) -> Mapping[str, tuple[Offer, ...]]:
        found: dict[str, tuple[Offer, ...]] = defaultdict(tuple)
        for one in self.every:
            found[one.name] += (one,)
        return found

    @cached_property
    def _newest(self) -> Mapping[tuple[str, str | None], Offer]:
        return {(one.name, one.upstream): one for one in self.every}

    @cached_property
    def _by_provided(self) -> Mapping[str, tuple[Offer, ...]]:
        found: dict[str, tuple[Offer, ...]] = defaultdict(tuple)
        for one in self.every:
            for provided in one.provides:
                found[provided.name] += (one,)
        return found


def relations(text: str) -> tuple[Alternatives, ...]:
    """A field such as Depends. Anything but a relation is left out."""
    groups = [
        tuple(
            Relation(shape["name"], shape["operator"] or "", (shape["version"] or "").strip())
            for shape in (_RELATION.fullmatch(word.strip()) for word in group.split("|"))
            if shape
        )
        for group in text.split(",")
    ]
    return tuple(group for group in groups if group)


def offer_of(
    record: Mapping[str, str],
    newest_kernel: str,
    places: tuple[str, ...],
    origins: tuple[Origin, ...] = (),
) -> Offer:
    """`record`: the control fields of a package."""
    needs = (record.get("Pre-Depends", ""), record.get("Depends", ""))
    return Offer(
        name=record.get("Package", ""),
        version=record.get("Version", ""),
        source=(record.get("Source", "").split() or [record.get("Package", "")])[0],
        depends=tuple(one for field in needs for one in relations(field)),
        provides=tuple(one[0] for one in relations(record.get("Provides", ""))),
        newest_kernel=newest_kernel,
        places=places,
        origins=origins,
    )


def in_order(found: Iterable[Offer]) -> Offers:
    """By name, and of each package the oldest build first."""
    by_version = cmp_to_key(compare)
    every = sorted(found, key=lambda one: (one.name, by_version(one.version)))
    return Offers(tuple(every))


def is_shared(name: str) -> bool:
    return _SHARED.fullmatch(name) is not None


def is_same_version(name: str) -> bool:
    """A package that has to be of one version with the driver's others."""
    return is_driver(name) and not is_shared(name)


def conflicts(name: str, version: str) -> bool:
    """Whether, being of another version, it cannot be installed beside the driver."""
    # Modules that the distribution built are versioned with its kernels.
    is_prebuilt = _PREBUILT.match(name) is not None
    return is_prebuilt or (is_same_version(name) and driver_version(version) is not None)
