"""Which packages are wanted, whether a host has them so, and how apt is asked for them. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rigops.packages.apt_simulated import Simulated
    from rigops.packages.dpkg import DpkgState

_NAME = re.compile(r"[a-z0-9][a-z0-9+.-]*[a-z0-9+](?::[a-z0-9-]+)?")
_VERSION = re.compile(r"[0-9][A-Za-z0-9.+:~-]*")


@dataclass(frozen=True)
class PackageRequest:
    """`install`: names, with the version where it has to be exactly this one."""

    install: Mapping[str, str | None]
    remove: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(sorted({*self.install, *self.remove}))

    @property
    def fault(self) -> str | None:
        """What apt would take for something else, or for several packages."""
        for name in self.names:
            if not _NAME.fullmatch(name):
                return f"{name!a} is no name of a package"
        for name, version in self.install.items():
            if version is not None and not _VERSION.fullmatch(version):
                return f"{version!a} is no version of a package"
            if name in self.remove:
                return f"{name} is to be installed and to be removed"
        return None

    def is_met_by(self, state: DpkgState) -> bool:
        return all(
            (entry := state.get(name)) is not None
            and entry.is_installed
            and version in {None, entry.version}
            for name, version in self.install.items()
        ) and not any(state.get(name) for name in self.remove)

    def words(self, state: DpkgState) -> tuple[str, ...]:
        """For apt. All that is wanted is named, so that apt takes none of it away for another."""
        found = []
        for name, version in sorted(self.install.items()):
            entry = state.get(name)
            exact = version or (entry.version if entry else None)
            found.append(f"{name}={exact}" if exact else name)
        return (*found, *(f"{name}-" for name in sorted(self.remove) if state.get(name)))

    def missed_by(self, simulated: Simulated, state: DpkgState) -> str | None:
        """Where what apt would do is not what was asked for."""
        after = {step.name: step.after for step in simulated.steps}
        for name, version in self.install.items():
            entry = state.get(name)
            there = after.get(name, entry.version if entry else None)
            if name in after and there is None:
                return f"apt would remove {name}, which is wanted"
            if version is not None and there != version:
                return f"apt would not bring {name} to {version}"
        for name in self.remove:
            there = after.get(name)
            if there is not None:
                return f"{name} is not wanted, and something else that is wanted needs it"
        return None
