"""What a look at a host comes to, in a few words."""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from rigops.catalog import load
from rigops.concerns.nvidia_driver.apt_offers import Offered
from rigops.concerns.nvidia_driver.from_bundle import source_of
from rigops.concerns.nvidia_driver.resolver.driver_facts import DriverFacts, Loaded, VaultAccess
from rigops.concerns.nvidia_driver.resolver.offers import Offers
from rigops.concerns.nvidia_driver.resolver.options import choose
from rigops.concerns.nvidia_driver.resolver.vault_sets import Pool, VaultContents
from rigops.concerns.registry import read
from rigops.vault.store import Store
from tests.unit.concerns.nvidia_driver.resolver.archives import archive
from tests.unit.concerns.nvidia_driver.resolver.machines import BOOKWORM, with_cards
from tests.unit.vault.pinned_sets import index_of, pinned_set

if TYPE_CHECKING:
    from rigops.concerns.nvidia_driver.record import PinnedDriver
    from rigops.concerns.nvidia_driver.resolver.driver_facts import Folder
    from rigops.concerns.nvidia_driver.resolver.machine import Machine
    from rigops.concerns.nvidia_driver.resolver.options import Choice, Option
    from rigops.concerns.nvidia_driver.resolver.request import Blocker

TODAY: Final = date(2026, 11, 22)
NOBLE_SUITES: Final = ("noble", "noble-updates")
RIG = with_cards(BOOKWORM, "3090", "3090", "3090")


def facts(
    machine: Machine,
    *suites: str,
    loaded: str = "",
    pinned: PinnedDriver | None = None,
    unusable: Blocker | None = None,
    own: Offers | None = None,
    proven: tuple[str, ...] = (),
    locked: str = "",
    folder: Folder | Blocker | None = None,
    **declared: object,
) -> DriverFacts:
    """`proven`: the versions whose packages are all in the vault."""
    spec = read(declared)
    offered = Offered(own or (archive(*suites) if suites else Offers()))
    if unusable:
        offered = replace(offered, trouble=(unusable.fix,))
    sets = tuple(map(pinned_set, proven))
    return DriverFacts(
        machine=machine,
        catalog=load(),
        spec=spec,
        loaded=Loaded(loaded, "proprietary") if loaded else None,
        pinned=pinned,
        offered=offered,
        source=source_of(spec, machine),
        folder=folder,
        vault=VaultAccess(sets=sets, locked=locked, store=Store(Path("/nowhere"))),
        contents=VaultContents(pool=whole(*proven)),
    )


def whole(*versions: str) -> Pool:
    """Of a host's vault that has everything of these versions."""
    packages = [its for version in versions for its in pinned_set(version).packages]
    return Pool(
        digests={one.file: one.sha256 for one in packages},
        indexes=tuple(index_of(version) for version in versions),
    )


def chosen(machine: Machine, *suites: str, today: date = TODAY, **more: Any) -> Choice:
    return choose(facts(machine, *suites, **more), today)


def of(choice: Choice, version: str, flavor: str = "proprietary") -> Option:
    (found,) = [o for o in choice.options if (o.version, o.flavor) == (version, flavor)]
    return found


def with_driver(machine: Machine, build: str) -> Machine:
    names = ("nvidia-kernel-dkms", "libcuda1", "libnvidia-ml1", "nvidia-smi")
    return replace(machine, installed=dict.fromkeys(names, build), flavor="proprietary")
