"""The plan of a host: all that its operations are going to change."""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import field, replace
from typing import Final, Literal

from rigops.dataclass import dataclass
from rigops.errors import Problem, RigopsError

Kind = Literal["file", "unit", "argument", "setting", "module", "hold"]

_LINES: Final = 6  # of a difference, in an error


@dataclass(frozen=True)
class Change:
    """`before` and `after` are texts to compare; None is absent.

    `drift`: what differs beside them, such as an owner, in words. `by_hand`: the file is no longer
    as rigops wrote it, and is overwritten.
    """

    concern: str
    kind: Kind
    subject: str
    before: str | None
    after: str | None
    drift: str = ""
    by_hand: bool = False


@dataclass(frozen=True)
class Package:
    """One that comes has no `before`, one that goes no `after`."""

    name: str
    before: str | None
    after: str | None


@dataclass(frozen=True)
class PackageChanges:
    """As the package manager simulates them."""

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

    @property
    def every(self) -> frozenset[Package]:
        return frozenset((*self.install, *self.remove, *self.upgrade, *self.downgrade))


@dataclass(frozen=True)
class Repair:
    """Interrupted work of the package manager, and the command that finishes it."""

    broken: str
    command: str
    agreed: bool  # else it is only offered


@dataclass(frozen=True)
class LaterChange:
    """A change that is known only while the plan is applied.

    `when` is for people; it is empty where another change shows this one already.
    """

    concern: str
    kind: Kind
    subject: str
    when: str

    def __str__(self) -> str:
        return f"{self.concern}: {self.when}: {self.subject}"


class UnplannedError(RigopsError):
    """While it was applied, an operation came to something that the plan did not show."""

    def __init__(self, message: str) -> None:
        super().__init__(Problem(message=message, fix="run rigops plan again"))


@dataclass(kw_only=True)
class Plan:
    """Operations add to it. Only changes that it shows are made, but for records of rigops' own.

    `headlines`, `blocked`, `notices`, `reboot_reasons` and `fails_until_reboot` are pairs of a
    concern and a text.
    """

    headlines: tuple[tuple[str, str], ...] = ()
    changes: tuple[Change, ...] = ()
    later: tuple[LaterChange, ...] = ()
    packages_by: Mapping[str, PackageChanges] = field(default_factory=dict)  # concern
    repairs: tuple[Repair, ...] = ()
    housekeeping: tuple[tuple[str, str], ...] = ()  # concern and the record that it updates
    blocked: tuple[tuple[str, str], ...] = ()
    notices: tuple[tuple[str, str], ...] = ()
    warnings: frozenset[str] = frozenset()  # notices that are shown where consent is asked for
    next_steps: tuple[str, ...] = ()  # notices that are repeated at the end of an apply
    undeclared: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # concern and its files
    trial_arguments: tuple[str, ...] = ()  # of the kernel, that the next boot is to try
    trial_wait_s: int = 0  # what the bootloader's menus add to that
    no_trial: str = ""  # why no boot can try them
    reboot_reasons: tuple[tuple[str, str], ...] = ()
    fails_until_reboot: tuple[tuple[str, str], ...] = ()

    @property
    def packages(self) -> PackageChanges:
        return sum(self.packages_by.values(), PackageChanges())

    @property
    def pending(self) -> bool:
        """Whether applying it would run a command that changes something."""
        return bool(
            self.changes
            or self.packages
            or self.housekeeping
            or any(repair.agreed for repair in self.repairs)
        )

    @property
    def sizes(self) -> Mapping[str, int]:
        """Concerns of which anything is going to be changed, and how many changes they have."""
        found = Counter(change.concern for change in self.changes)
        found.update({one: len(packages.every) for one, packages in self.packages_by.items()})
        found.update(dict.fromkeys((concern for concern, _ in self.housekeeping), 0))
        return found

    @property
    def meaning(self) -> tuple[str, ...]:
        """A summary of the changes, a few words each."""
        return tuple(self._meaning())

    def _meaning(self) -> Iterator[str]:
        if any(repair.agreed for repair in self.repairs):
            yield "finish what dpkg began"
        for concern, count in self.sizes.items():
            known = dict.fromkeys(text for whose, text in self.headlines if whose == concern)
            if concern in self.undeclared:
                yield f"undo {concern} ({', '.join(known)})" if known else f"undo {concern}"
            elif known:
                yield from known
            else:
                changes = f"{count} change{'s' * (count > 1)}" if count else "its records"
                yield f"{concern} ({changes})"
        if gone := len(self.packages.remove):
            yield f"{gone} package{'s' * (gone > 1)} removed"

    @property
    def shown_later(self) -> tuple[LaterChange, ...]:
        """Those that no other change shows."""
        shown = {(one.concern, one.kind, one.subject) for one in self.changes}
        return tuple(
            one
            for one in self.later
            if one.when and (one.concern, one.kind, one.subject) not in shown
        )

    def without(self, concerns: Collection[str]) -> Plan:
        """The part that is applied where these are blocked."""
        return replace(
            self,
            headlines=tuple(one for one in self.headlines if one[0] not in concerns),
            changes=tuple(one for one in self.changes if one.concern not in concerns),
            later=tuple(one for one in self.later if one.concern not in concerns),
            packages_by={
                concern: packages
                for concern, packages in self.packages_by.items()
                if concern not in concerns
            },
            housekeeping=tuple(one for one in self.housekeeping if one[0] not in concerns),
        )

    def require(self, change: Change) -> None:
        """Raise UnplannedError where the plan shows this change not at all, or otherwise."""
        key = (change.concern, change.kind, change.subject)
        if key in {(one.concern, one.kind, one.subject) for one in self.later}:
            return
        shown = [one for one in self.changes if (one.concern, one.kind, one.subject) == key]
        if not shown:
            text = f"{change.concern}: {change.subject} would change, and the plan did not show it"
            raise UnplannedError(text)
        if all(one.after != change.after for one in shown):
            text = f"{change.concern}: {change.subject} would not become what the plan showed"
            raise UnplannedError(f"{text}: {_difference(shown[-1].after, change.after)}")

    def shows(self, packages: PackageChanges) -> bool:
        return packages.every <= self.packages.every


def _difference(shown: str | None, now: str | None) -> str:
    if shown is None or now is None:
        return "it would be removed" if now is None else "it would be written"
    compared = difflib.unified_diff(shown.splitlines(), now.splitlines(), lineterm="", n=0)
    return "; ".join(line for line in list(compared)[2 : 2 + _LINES] if not line.startswith("@@"))
