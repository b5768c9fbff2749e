"""What operations are going to change, for the plan. Under plain pyinfra nobody reads it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal

if TYPE_CHECKING:
    from pyinfra.api.host import Host

_STORY: Final = "rigops_story"


@dataclass(frozen=True)
class Change:
    """`before` and `after` are texts to compare; None is absent."""

    concern: str
    kind: Literal["file", "unit", "argument", "setting", "module", "hold"]
    subject: str
    before: str | None
    after: str | None


@dataclass(frozen=True)
class Package:
    """One that comes has no `before`, one that goes no `after`."""

    name: str
    before: str | None
    after: str | None


@dataclass(frozen=True)
class PackageChanges:
    """What the package manager itself says that it would do."""

    install: tuple[Package, ...] = ()
    remove: tuple[Package, ...] = ()
    upgrade: tuple[Package, ...] = ()
    downgrade: tuple[Package, ...] = ()

    def __add__(self, other: PackageChanges) -> PackageChanges:
        return PackageChanges(
            self.install + other.install,
            self.remove + other.remove,
            self.upgrade + other.upgrade,
            self.downgrade + other.downgrade,
        )

    def __bool__(self) -> bool:
        return bool(self.install or self.remove or self.upgrade or self.downgrade)


@dataclass(frozen=True)
class Repair:
    """What the package manager was interrupted in, and the command that finishes it."""

    broken: str
    command: str
    agreed: bool  # else it is only offered


@dataclass
class Story:
    """All that the operations of one host have to say in one run of its deploys."""

    changes: list[Change] = field(default_factory=list)
    packages: PackageChanges = field(default_factory=PackageChanges)
    repairs: list[Repair] = field(default_factory=list)
    blocked: list[tuple[str, str]] = field(default_factory=list)  # concern and reason
    notices: list[tuple[str, str]] = field(default_factory=list)  # concern and what to know
    undeclared: dict[str, tuple[str, ...]] = field(default_factory=dict)  # concern and its files
    kept: dict[str, set[str]] = field(default_factory=dict)  # concern and the paths still wanted
    trying: tuple[str, ...] = ()  # kernel arguments that the next boot is to try
    trial_wait_s: int = 0  # what the bootloader's menus add to that
    untried: str = ""  # why new kernel arguments cannot be tried once
    owed: list[tuple[str, str]] = field(default_factory=list)  # concern and what a reboot brings


def story(host: Host) -> Story:
    told: Story = host.connector_data.setdefault(_STORY, Story())
    return told


def begin_story(host: Host) -> Story:
    """Forget what an earlier run of the deploys said."""
    host.connector_data.pop(_STORY, None)
    return story(host)


def announce(host: Host, change: Change) -> None:
    """Say it once, before the first command of the operation."""
    story(host).changes.append(change)


def announce_packages(host: Host, changes: PackageChanges) -> None:
    told = story(host)
    told.packages = told.packages + changes


def announce_repair(host: Host, repair: Repair) -> None:
    """Once, whichever operations stand on it."""
    told = story(host).repairs
    if repair not in told:
        told.append(repair)


def notice(host: Host, concern: str, text: str) -> None:
    """What a person should know before agreeing; it is in nobody's way."""
    told = story(host).notices
    if (concern, text) not in told:
        told.append((concern, text))


def owe(host: Host, concern: str, reason: str) -> None:
    """What is configured, or is going to be, and only a reboot brings into force."""
    told = story(host).owed
    if (concern, reason) not in told:
        told.append((concern, reason))
