"""What a concern is: something that a rig can be declared to be.

A concern is a folder here with a module `concern.py`, and a line in `registry.py`. That module is
read by every command, so it imports nothing heavy: what reaches pyinfra is imported by the
functions that need it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rigops import assets

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from pathlib import Path

    from rigops.facts.sections import SectionFact
    from rigops.inventory.spec import RigSpec
    from rigops.inventory.spec.key import Key
    from rigops.plan.change import Change


def _none(_: RigSpec) -> tuple[()]:
    return ()


def _never(_: Change) -> bool:
    return False


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
    # What the deploy is going to ask: collected in one exec. Anything else costs a second one.
    facts: Callable[[RigSpec], Sequence[type[SectionFact[Any]]]] = _none
    files: Callable[[RigSpec], Sequence[str]] = _none
    # Changes that leave the proven state as it is, and still ask for a new proof of P2P.
    asks_for_proof: Callable[[Change], bool] = _never
    # What is configured, or is declared, and only a reboot brings into force; asked after the
    # deploy, and where the concern is not selected as well.
    reboot_reasons: Callable[[RigSpec], Iterable[str]] = _none

    @property
    def is_in_this_version(self) -> bool:
        return self.deploy is not None

    @property
    def path(self) -> Path:
        return self.deploy_file or assets.find("deploys") / f"{self.name}.py"

    def declared_keys(self, spec: RigSpec) -> tuple[str, ...]:
        return tuple(sorted(key.name for key in self.keys if key.name in spec.declared))
