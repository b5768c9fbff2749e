"""Which deploy acts on which declaration. Pure but for looking which deploys there are."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from rigops.concerns import registry
from rigops.converge.result import Blocker
from rigops.dataclass import dataclass
from rigops.errors import Problem, UsageError
from rigops.inventory.spec.names import did_you_mean

if TYPE_CHECKING:
    from rigops.inventory.spec import RigSpec

_NOT_IN_THIS_VERSION = "not in this version"


@dataclass(frozen=True)
class Selection:
    """The user's choice by --only and --skip; nothing outside it is touched or undone."""

    only: frozenset[str] = frozenset()
    skip: frozenset[str] = frozenset()

    @classmethod
    def from_words(cls, only: Iterable[str], skip: Iterable[str]) -> Selection:
        names = [one.name for one in registry.CONCERNS]
        for option, concern in [("--only", c) for c in only] + [("--skip", c) for c in skip]:
            if concern not in names:
                raise UsageError(
                    Problem(
                        message="there is no such concern",
                        key=option,
                        value=concern,
                        accepted=", ".join(names),
                        fix=did_you_mean(concern, names),
                    )
                )
        return cls(frozenset(only), frozenset(skip))

    def has(self, concern: str) -> bool:
        return concern not in self.skip and (not self.only or concern in self.only)


def deploys(selection: Selection) -> list[Path]:
    """The deploy files to run, in the order of their concerns."""
    return [one.path for one in registry.in_this_version() if selection.has(one.name)]


def blocked(spec: RigSpec, selection: Selection) -> tuple[Blocker, ...]:
    """Declarations whose concern this version does not have."""
    return tuple(
        Blocker(one.name, keys, _NOT_IN_THIS_VERSION)
        for one in registry.CONCERNS
        if selection.has(one.name)
        and not one.is_in_this_version
        and (keys := one.declared_keys(spec))
    )


def keys_of(concern: str, spec: RigSpec) -> tuple[str, ...]:
    """None of a deploy that is no concern of the registry."""
    found = (one for one in registry.CONCERNS if one.name == concern)
    return next((one.declared_keys(spec) for one in found), ())
