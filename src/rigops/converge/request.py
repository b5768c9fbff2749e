"""The request of a run of plan or apply, and what of it this version or this host cannot do."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from rigops.concerns import registry
from rigops.converge.lock import Holder
from rigops.converge.result import Blocker
from rigops.dataclass import dataclass
from rigops.errors import Problem, UsageError
from rigops.hosts.access import HostAccess
from rigops.inventory.spec import RigSpec
from rigops.inventory.spec.names import did_you_mean

if TYPE_CHECKING:
    from rigops.probe.sections.os_release import OsRelease

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


def host_blocker(system: OsRelease | None, spec: RigSpec) -> str | None:
    """Why nothing is changed there, with what a person can put in instead."""
    if system is None:
        return None
    arguments = spec.kernel_args or ()
    if system.id == "nixos":
        quoted = " ".join(f'"{one}"' for one in arguments)
        lines = [f"boot.kernelParams = [ {quoted} ];"] if arguments else []
        lines += ["hardware.nvidia.nvidiaPersistenced = true;"] if spec.gpu_persistence else []
        snippet = " ".join(lines) or "what you declare"
        return f"NixOS makes its files from its own configuration: put {snippet} there"
    if system.is_image:
        words = " ".join(f"--append-if-missing={one}" for one in arguments)
        snippet = f"`rpm-ostree kargs {words}`" if words else "rpm-ostree, layered packages"
        name = system.pretty_name or system.id
        return f"{name} is an image whose files are not edited: use {snippet}"
    return None


PreflightWhen = Literal["auto", "always", "never"]
RebootWhen = Literal["ask", "auto", "never"]


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """As the command line has it, the same for all hosts. `Consent` has a person's permissions."""

    command: str = "apply"
    selection: Selection
    inventory_digest: str = ""
    access: HostAccess = HostAccess()
    deploys: Sequence[Path] = ()
    holder: Holder = field(default_factory=Holder.of_this_run)
    tell: Callable[[str, str], None] = lambda *_: None
    yes: bool = False  # the plan is confirmed
    reboot: RebootWhen = "ask"
    serial: int = 1  # hosts that are rebooted at the same time
    prune: bool = False  # concerns that nothing declares any more are undone
    allow_busy: bool = False  # interrupt GPU jobs
    accept_no_trial: bool = False  # make kernel arguments permanent that no boot can try first
    force_reboot_wedged: bool = False  # force a host down whose shutdown may block
    upgrade: bool = False  # what is as declared, to a newer version that is too
    remove_foreign_driver: bool = False  # one that came from no package
    keep_holds: bool = False  # of packages, when their concern is undone
    preflight: PreflightWhen = "auto"

    @property
    def at(self) -> str:
        return self.holder.started

    @property
    def withholds_removals(self) -> bool:
        """It plans no undo of undeclared concerns, since it cannot ask."""
        return self.yes and not self.prune
