"""A request for packages: how apt is asked for them, what blocks it, and what to do then. Pure."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from typing import TYPE_CHECKING, Final

from rigops.dataclass import dataclass
from rigops.packages.dpkg import DpkgState, nearest
from rigops.probe import package_names
from rigops.vault.store import amount

if TYPE_CHECKING:
    from rigops.packages.apt_simulated import Simulated

CONFIGURE: Final = "dpkg --configure -a"
# Where apt itself was cut off, what dpkg has is of two versions: only apt can bring those together.
FINISH: Final = "sudo dpkg --configure -a; sudo apt-get -f --allow-downgrades install"
_UPDATE: Final = "sudo apt-get update"
_OLD_S: Final = 30 * 24 * 3600
_DAY_S: Final = 24 * 3600
_DPKG_NEEDS: Final = 32 * 1024 * 1024  # its database and its log, rewritten at each package

_NAME = re.compile(r"[a-z0-9][a-z0-9+.-]*[a-z0-9+](?::[a-z0-9-]+)?")
_VERSION = re.compile(r"[0-9][A-Za-z0-9.+:~-]*")
_NO_VERSION = re.compile(r"Version '(?P<version>[^']*)' for '(?P<name>[^']*)' was not found")
_NO_PACKAGE = re.compile(
    r"Unable to locate package (?P<name>\S+)"
    r"|Couldn't find any package by (?:glob|regex) '(?P<pattern>[^']*)'"
    r"|Package '(?P<absent>[^']*)' has no installation candidate"
)
_TIED = re.compile(
    r"[^:]+: (?:Pre)?Depends: (?P<name>\S+) \(= (?P<version>[^)]*)\) but \S+ is to be installed.*"
)
_STATES: Final = {
    "H": "half-installed", "U": "unpacked and not configured", "F": "half-configured",
    "W": "waiting for triggers", "t": "with pending triggers",
}  # fmt: skip


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
        """A word that apt would take for something else, or for several packages."""
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
        """For apt. All names are in them, so that apt removes none for the sake of another."""
        found = []
        for name, version in sorted(self.install.items()):
            entry = state.get(name)
            exact = version or (entry.version if entry else None)
            found.append(f"{name}={exact}" if exact else name)
        return (*found, *(f"{name}-" for name in sorted(self.remove) if state.get(name)))

    def missed_by(self, simulated: Simulated, state: DpkgState) -> str | None:
        """Where apt would not do what is requested."""
        after = {step.name: step.after for step in simulated.steps}
        for name, version in self.install.items():
            entry = state.get(name)
            there = after.get(name, entry.version if entry else None)
            if name in after and there is None:
                return f"apt would remove {name}, which is to be installed"
            if version is not None and there != version:
                return f"apt would not bring {name} to {version}"
        for name in self.remove:
            there = after.get(name)
            if there is not None:
                return f"{name} is to be removed, and a package to be installed needs it"
        return None


def without_apt(state: DpkgState, done: str) -> str:
    """`done`: such as `installed`."""
    known = state.manager or "no known package manager"
    return f"packages are {done} with apt only, and this host has {known}"


def unfinished(state: DpkgState) -> str:
    """Unfinished work of dpkg; empty: none."""
    names = [f"{one.name} ({_STATES.get(one.status, 'damaged')})" for one in state.unfinished]
    if names:
        return f"dpkg did not finish with {few(names)}"
    return "dpkg was interrupted" if state.interrupted else ""


def not_to_be_configured(state: DpkgState) -> str | None:
    """Where configuring fixes nothing."""
    names = [one.name for one in state.unfinished if one.must_be_reinstalled]
    if not names:
        return None
    again = f"sudo apt-get install --reinstall {' '.join(names)}"
    return f"dpkg did not finish with {few(names)}, to be installed once more: {again}"


def blocker(
    request: PackageRequest, state: DpkgState, simulated: Simulated, change_held: Collection[str]
) -> str | None:
    """Why it cannot be done, with what helps; None where apt can."""
    if not simulated.done:
        return _refusal(request, simulated)
    if simulated.unparsed:
        return f"rigops cannot parse the output of apt: {few(simulated.unparsed)}"
    held = [name for name in simulated.held_changed if name not in change_held]
    if held:
        return f"{few(held)} is held: sudo apt-mark unhold {' '.join(held)}"
    if missed := request.missed_by(simulated, state):
        return missed
    return "; ".join(_full(simulated)) or None


def old_lists(simulated: Simulated) -> str | None:
    age = simulated.lists_age_s
    if age is None or age <= _OLD_S:
        return None
    return f"apt's package lists are {age // _DAY_S} days old: {_UPDATE} brings newer ones"


def other_driver(version: str, simulated: Simulated) -> str | None:
    """Whatever a package is called: what it brings is what counts."""
    others = [
        f"{step.name} {step.after}"
        for step in simulated.steps
        if step.after is not None
        and package_names.is_driver(step.name)
        and package_names.driver_version(step.after) not in {None, version}
    ]
    if not others:
        return None
    return f"with driver {version}, apt would bring {few(others)}, which is another driver"


def _refusal(request: PackageRequest, simulated: Simulated) -> str:
    if not simulated.has_lists:
        return f"apt has no package lists here: {_UPDATE}"
    if not simulated.unmet:
        errors = [_explained(error, request, simulated) for error in simulated.errors]
        return "; ".join(errors) or "apt refused without an error message"
    text = f"apt cannot: {few(simulated.unmet)}"
    ties = [_TIED.fullmatch(one) for one in simulated.unmet]
    words = dict.fromkeys(f"{one['name']}={one['version']}" for one in ties if one)
    if words and all(ties):
        return f"{text}; these have to be of the same version, so ask for {', '.join(words)} too"
    return text


def _explained(error: str, request: PackageRequest, simulated: Simulated) -> str:
    if shape := _NO_VERSION.fullmatch(error):
        name, version = shape["name"], shape["version"]
        known = simulated.known.get(name, ())
        near = nearest(version, known)
        there = f"nearest: {', '.join(near)}" if near else "its sources have no version of it"
        return f"apt knows no {name} {version} ({there}); {_UPDATE} may bring it"
    if shape := _NO_PACKAGE.fullmatch(error):
        name = next(filter(None, shape.groups()))
        if f"{name}+" in request.install:  # apt takes the + behind an unknown name for an order
            name += "+"
        return f"apt knows no package {name}: is its source enabled? If so, {_UPDATE}"
    return f"apt: {error}"


def _full(simulated: Simulated) -> Iterator[str]:
    """Where there is less room than apt itself says that it takes."""
    needs: dict[str, int] = defaultdict(int)
    free: dict[str, int] = {}
    demands = {
        "archives": simulated.download,
        "usr": simulated.growth,
        "dpkg": _DPKG_NEEDS if simulated.steps else 0,
        "boot": _boot(simulated),
    }
    for label, size in demands.items():
        room = simulated.room.get(label)
        if room is not None:
            needs[room.mount] += size
            free[room.mount] = room.free
    for mount, need in needs.items():
        if need > free[mount]:
            fix = "sudo apt-get autoremove" if mount == "/boot" else "sudo apt-get clean"
            yield (
                f"{mount} has {amount(free[mount])} free and this takes {amount(need)}: make room, "
                f"for example with {fix}"
            )


def _boot(simulated: Simulated) -> int:
    """An initrd is written beside the old one; a kernel brings itself and one more of them."""
    initrd = simulated.boot_files.get("initrd", 0)
    kernels = sum(
        step.name.startswith("linux-image-")
        and package_names.is_kernel(step.name)
        and not package_names.is_kernel_meta(step.name)
        and step.before is None
        for step in simulated.steps
    )
    remade = any(
        package_names.is_kernel(step.name) or package_names.is_driver(step.name)
        for step in simulated.steps
    )
    return kernels * (initrd + simulated.boot_files.get("vmlinuz", 0)) + remade * initrd


def few(names: Collection[str], most: int = 6) -> str:
    shown = ", ".join(list(names)[:most])
    return f"{shown} and {len(names) - most} more" if len(names) > most else shown
