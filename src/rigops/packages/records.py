"""Records on a host: the packages that rigops installed, those that it holds, and its work on them.

Packages and holds from before rigops are in neither of the first two.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import field
from typing import TYPE_CHECKING, Final

from rigops import json_fields
from rigops.dataclass import dataclass
from rigops.json_dataclass import document, from_json, parse
from rigops.plan.change import Package

if TYPE_CHECKING:
    from rigops.packages.dpkg import DpkgState, Entry

PACKAGES_RECORD: Final = "/var/lib/rigops/packages.json"

_PACKAGES_SCHEMA: Final = "rigops.owned_packages/1"
_PACKAGES_FIX: Final = (
    f"repair {PACKAGES_RECORD} or restore a backup of it. If it is lost, move it away; its "
    "packages then count as not rigops'."
)
HOLDS_RECORD: Final = "/var/lib/rigops/holds.json"

_HOLDS_SCHEMA: Final = "rigops.holds/1"
_HOLDS_FIX: Final = (
    f"repair {HOLDS_RECORD} or restore a backup of it. If it is lost, move it away; its holds then "
    "count as not rigops'."
)
WORK_RECORD: Final = "/var/lib/rigops/package_work.json"

_WORK_SCHEMA: Final = "rigops.package_work/1"
_WORK_FIX: Final = f"remove {WORK_RECORD}: dpkg's unfinished work then counts as another tool's."
# Triggers of packages that the work itself does not change wait, or were cut off.
_WAITING: Final = "Wt"


@dataclass(frozen=True)
class OwnedPackage:
    """`asked`: by name; else it came because another one needs it."""

    name: str
    concern: str
    asked: bool = False


@dataclass(frozen=True)
class OwnedPackages:
    """Written before they are installed, so one that is absent belongs to none."""

    packages: Mapping[str, OwnedPackage] = field(default_factory=dict)

    @classmethod
    def parse(cls, text: str) -> OwnedPackages:
        record = json_fields.parse(text, place=PACKAGES_RECORD, fix=_PACKAGES_FIX)
        record.require_schema(_PACKAGES_SCHEMA)
        packages = [from_json(OwnedPackage, entry) for entry in record.each("packages")]
        return cls({one.name: one for one in packages})

    def to_json(self) -> str:
        packages = [vars(self.packages[name]) for name in sorted(self.packages)]
        return json.dumps({"schema": _PACKAGES_SCHEMA, "packages": packages}, indent=2) + "\n"

    def having(self, packages: Collection[OwnedPackage]) -> OwnedPackages:
        return OwnedPackages({**self.packages, **{one.name: one for one in packages}})

    def without(self, names: Collection[str]) -> OwnedPackages:
        return OwnedPackages({n: one for n, one in self.packages.items() if n not in names})


@dataclass(frozen=True)
class Holds:
    """The concern by the name of a package. Written before the hold, and after its release."""

    holds: Mapping[str, str]

    @classmethod
    def parse(cls, text: str | None) -> Holds:
        """None is a host without a record. An unreadable one is an error, never that."""
        if text is None:
            return cls({})
        return parse(cls, text, schema=_HOLDS_SCHEMA, place=HOLDS_RECORD, fix=_HOLDS_FIX)

    def to_json(self) -> str:
        return document(_HOLDS_SCHEMA, Holds(dict(sorted(self.holds.items()))))

    def names_for(self, concern: str) -> tuple[str, ...]:
        return tuple(name for name in sorted(self.holds) if self.holds[name] == concern)

    def having(self, names: Collection[str], concern: str) -> Holds:
        return Holds({**self.holds, **dict.fromkeys(names, concern)})

    def without(self, names: Collection[str]) -> Holds:
        return Holds({name: whose for name, whose in self.holds.items() if name not in names})


@dataclass(frozen=True)
class PackageWork:
    """The last work of apt. Written before it begins, removed once nothing of it is left."""

    packages: tuple[Package, ...]

    @classmethod
    def parse(cls, text: str | None) -> PackageWork:
        """None is a host where no work of rigops was cut off."""
        if text is None:
            return cls(())
        return parse(cls, text, schema=_WORK_SCHEMA, place=WORK_RECORD, fix=_WORK_FIX)

    def to_json(self) -> str:
        return document(_WORK_SCHEMA, self)

    def explains(self, state: DpkgState) -> bool:
        """Whether all that dpkg did not finish is this very work."""
        return bool(self.packages) and all(map(self._has, state.unfinished))

    def _has(self, unfinished: Entry) -> bool:
        return (
            unfinished.status in _WAITING
            or unfinished.is_in_trigger
            or any(
                one.name.partition(":")[0] == unfinished.name
                and unfinished.version in {one.before, one.after}
                for one in self.packages
            )
        )
