"""A concern: one aspect of a rig that can be declared.

A concern is a folder here with a module `concern.py`, and a line in `registry.py`. That module is
read by every command, so it imports nothing heavy: what reaches pyinfra is imported by the
functions that need it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from rigops import assets, json_fields
from rigops.dataclass import dataclass

if TYPE_CHECKING:
    from rigops.catalog import Catalog
    from rigops.concerns.state import State
    from rigops.facts.sections import SectionFact
    from rigops.inventory.spec import RigSpec
    from rigops.inventory.spec.scalars import Key
    from rigops.plan.change import Change
    from rigops.probe.section import Section
    from rigops.probe.sections.rigops_state import RigopsState
    from rigops.probe.snapshot import HostSnapshot
    from rigops.record import Proven
    from rigops.record.lockfile import LockedHost
    from rigops.transport import Result, Target
    from rigops.vault.pinned_set import PinnedSet
    from rigops.vault.store import VaultResult


@dataclass(frozen=True)
class HostRequest:
    """A host of the inventory, what was declared for it, and what it was proven with."""

    name: str
    target: Target
    data: Mapping[str, object]
    spec: RigSpec
    locked: LockedHost | None = None
    lock: Path | None = None  # the file that says so
    back: bool = False  # to the driver that was proven before the present one


class RootShell(Protocol):
    """Commands to the host as root; `wrap` ends them with the connection."""

    def run(self, argv: Sequence[str], stdin: bytes, deadline_s: float) -> Result: ...
    def wrap(self, argv: Sequence[str], /) -> list[str]: ...
    def tell(self, text: str, /) -> None: ...


@dataclass(frozen=True, kw_only=True)
class ProvenHost:
    """`shell`: takes the lock of the run; its argument names the stage."""

    request: HostRequest
    state: RigopsState | None
    proven: Proven
    was_changed: bool
    shell: Callable[[str], AbstractContextManager[RootShell]]


@dataclass(frozen=True)
class HostRecord:
    """A record of rigops on a host: the effect where it cannot be read, and the fix.

    `parse` raises a RigopsError then. `is_refused`: what depends on it is not changed meanwhile.
    """

    path: str
    effect: str
    parse: Callable[[str], object]
    fix: str
    is_refused: bool = False


def of_schema(schema: str) -> Callable[[str], object]:
    return lambda text: json_fields.parse(text, place="the record").require_schema(schema)


@dataclass(frozen=True)
class SelfChecks:
    """For each concern that is declared, the command that checks its own things on the host."""

    commands: Mapping[str, tuple[str, ...]]


@dataclass(frozen=True)
class InventorySpecs:
    """The inventory's declarations for the hosts of this run, read only on demand."""

    by_host: Callable[[], Mapping[str, RigSpec]]


@dataclass(frozen=True, kw_only=True)
class States:
    """Whether a host is as declared, judged once for plan, doctor and the self-check. Pure.

    `needs`: what `judge` looks at; its first section has the evidence. `checks`: doctor's title
    and explanation of each check, by its id, of those for which doctor has none of its own.
    """

    needs: Callable[[], Sequence[Section[Any]]]
    judge: Callable[[RigSpec, HostSnapshot, Catalog], Sequence[State]]
    checks: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Kept:
    """`vault`: None where there was nothing to do. `tree`: the file with the owner's modules."""

    sets: tuple[PinnedSet, ...] = ()
    vault: VaultResult | None = None
    tree: str = ""


@dataclass(frozen=True, kw_only=True)
class Concern:
    """`deploy` runs the operations for a spec, the undoing ones too; None: not in this version.

    Its operations report what they change and what is in the way (see `rigops.plan`). A first plan
    and the one after a change make the same calls. rigops and plain pyinfra run it by a file of
    three lines: `deploys/NAME.py`, or `deploy_file`, whose stem is the name.
    """

    name: str
    keys: tuple[Key[Any], ...]
    deploy: Callable[[RigSpec], None] | None = None
    deploy_file: Path | None = None
    # Facts that the deploy will ask for: collected in one exec. Others cost a second one.
    facts: Callable[[RigSpec], Sequence[type[SectionFact[Any]]]] = lambda _: ()
    files: Callable[[RigSpec], Sequence[str]] = lambda _: ()
    # Keys that hosts make for themselves, as shell patterns: doctor advises to delete none.
    keys_made: tuple[str, ...] = ()
    # Its other records on hosts.
    records: tuple[HostRecord, ...] = ()
    # Changes that leave the proven state as it is, and still ask for a new proof of P2P.
    asks_for_proof: Callable[[Change], bool] = lambda _: False
    # Where it is blocked and no driver is loaded, preflight and a reboot wait for it.
    brings_driver: bool = False
    # Whether what can be set on a running host is as declared.
    states: States | None = None
    # Settings, present or declared, that only a reboot brings into force; asked after the
    # deploy, and where the concern is not selected as well.
    reboot_reasons: Callable[[RigSpec], Iterable[str]] = lambda _: ()
    # The words of a command on the host that checks what this concern brought about there, nothing
    # where it is not declared. Its output: docs/reference/concerns.md.
    self_check: Callable[[RigSpec], Sequence[str]] = lambda _: ()
    # Why a boot that tried these arguments does not hold, by facts of it; empty: it holds.
    trial_failure: Callable[[Collection[str], Mapping[type[Any], Any]], str] = lambda *_: ""
    # What a boot with these arguments is said to be when P2P is required and fails there, which
    # only a proof finds; empty: it waits for none.
    failed_proof: Callable[[Collection[str]], str] = lambda _: ""
    # Data of this machine, such as the lockfile: its operations get it by its type.
    provide: Callable[[HostRequest], object] | None = None
    # The stored part of a proven state, for a rollback and for the lockfile. Fails nothing.
    keep: Callable[[ProvenHost], Kept] | None = None

    @property
    def is_in_this_version(self) -> bool:
        return self.deploy is not None

    @property
    def path(self) -> Path:
        return self.deploy_file or assets.find("deploys") / f"{self.name}.py"

    def declared_keys(self, spec: RigSpec) -> tuple[str, ...]:
        return tuple(sorted(key.name for key in self.keys if key.name in spec.declared))
