"""What a look at a host comes to, in a few words."""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from typing import TYPE_CHECKING, Final

from rigops.catalog import load
from rigops.driver.choice import Kept, Loaded, Proven, Seen
from rigops.driver.choosing import choose
from rigops.driver.offers import Offers
from rigops.facts.driver_vault_offers import joined, offers
from rigops.spec import read
from tests.unit.driver.archives import archive
from tests.unit.driver.machines import BOOKWORM, with_cards
from tests.unit.vault.making import index_of

if TYPE_CHECKING:
    from rigops.driver.choice import Choice, Folder, Option
    from rigops.driver.machine import Machine
    from rigops.driver.request import Refusal
    from rigops.record.driver import PinnedDriver

TODAY: Final = date(2026, 11, 22)
NOBLE_SUITES: Final = ("noble", "noble-updates")
RIG = with_cards(BOOKWORM, "3090", "3090", "3090")


def chosen(
    machine: Machine,
    *suites: str,
    loaded: str = "",
    today: date = TODAY,
    pinned: PinnedDriver | None = None,
    unusable: Refusal | None = None,
    own: Offers | None = None,
    kept: tuple[str, ...] = (),
    locked: str = "",
    folder: Folder | Refusal | None = None,
    **declared: object,
) -> Choice:
    """`kept`: the versions that were proven here before."""
    own = own or (archive(*suites) if suites else Offers())
    sets = tuple(Proven(version, offers(index_of(version))) for version in kept)
    every = joined(own, offers(*map(index_of, kept)))
    seen = Seen(
        machine=machine,
        offers=own,
        loaded=Loaded(loaded, "proprietary") if loaded else None,
        pinned=pinned,
        unusable=unusable,
        kept=Kept(sets, every) if sets else None,
        locked=locked,
        folder=folder,
    )
    return choose(seen, read(declared) if declared else None, load(), today)


def of(choice: Choice, version: str, flavour: str = "proprietary") -> Option:
    (found,) = [o for o in choice.options if (o.version, o.flavour) == (version, flavour)]
    return found


def with_driver(machine: Machine, build: str) -> Machine:
    names = ("nvidia-kernel-dkms", "libcuda1", "libnvidia-ml1", "nvidia-smi")
    return replace(machine, installed=dict.fromkeys(names, build), flavour="proprietary")
