"""A deploy and `drivers --host` collect in their own ways, and get the same answer."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING, Any, Final, cast

import pytest

from rigops.catalog import load
from rigops.concerns.nvidia_driver import apt_offers
from rigops.concerns.nvidia_driver.facts import DriverOffers, VaultPool, driver_answer
from rigops.concerns.nvidia_driver.from_bundle import driver_facts
from rigops.concerns.nvidia_driver.resolver.answer import DriverAnswer, answer
from rigops.concerns.nvidia_driver.resolver.driver_facts import VaultAccess
from rigops.concerns.registry import read
from rigops.facts.sections import OsRelease, RigopsState
from rigops.plan.context import provide
from rigops.probe.bundle import Bundle, Collected
from rigops.probe.sections import os_release
from rigops.probe.sections.rigops_state import RigopsState as StateFacts
from rigops.record.lockfile import locked
from rigops.vault.store import Store
from tests.unit.cli.test_host_drivers import SOURCES, TEXTS
from tests.unit.concerns.nvidia_driver.resolver.choices import whole
from tests.unit.record.test_lockfile import NOW, OLD, PROVEN
from tests.unit.vault.pinned_sets import index_of, pinned_set, records

if TYPE_CHECKING:
    from pathlib import Path

    from pyinfra.api.host import Host

    from rigops.concerns.nvidia_driver.resolver.request import Blocker

OTHER: Final = "550.163.01"
SETS: Final = {one.version: one for one in (NOW, OLD)}
DEBIAN: Final = "ID=debian\nVERSION_ID=12\nVERSION_CODENAME=bookworm\n"
WISHES: Final = ("535", NOW.version, OLD.version, ">=535", "550")


class Known:
    """A host whose facts are these."""

    def __init__(self, facts: dict[type, object]) -> None:
        self._facts = facts
        self.connector_data: dict[str, Any] = {}

    def get_fact(self, fact: type, **_: object) -> object:
        return self._facts[fact]


def offered(*versions: str) -> str:
    every = [one for version in versions for one, _ in records(version)]
    places = "".join(f"{one.name} {one.version} bookworm/non-free\n" for one in every)
    return f"{SOURCES}== places\n{places}== records\n" + "\n".join(map(index_of, versions))


def installed(version: str) -> str:
    rows = (
        f"{one.name}\t{one.version}\tamd64\tii \tnvidia-graphics-drivers\n"
        for one, _ in (records(version) if version else ())
    )
    return f"{TEXTS['packages']}{''.join(rows)}"


def outcome(found: object) -> tuple[str, str] | Blocker:
    if isinstance(found, DriverAnswer):
        taken = found.from_vault.version if found.from_vault else ""
        return found.resolution.version, taken
    return cast("Blocker", found)


@pytest.mark.parametrize("there", ["", NOW.version, OLD.version])
@pytest.mark.parametrize("sets", [(NOW.version,), (OLD.version,), (OLD.version, NOW.version)])
@pytest.mark.parametrize(
    "own", [(), (NOW.version,), (OLD.version,), (OLD.version, NOW.version), (OTHER,)]
)
def test_what_is_collected_at_once_has_the_answer_of_what_is_collected_as_needed(
    tmp_path: Path, own: tuple[str, ...], sets: tuple[str, ...], there: str
) -> None:
    store = Store(tmp_path)
    for version in sets:
        store.put(pinned_set(version).index, [index_of(version).encode()])
    entry = locked(PROVEN, tuple(SETS[version] for version in sets))
    sources = offered(*own)
    texts = {
        **TEXTS,
        "os-release": DEBIAN,
        "packages": installed(there),
        "driver-offers": sources,
    }
    bundle = Bundle(
        "rig", None, root=True, sections={name: Collected(text) for name, text in texts.items()}
    )
    host = Known({
        DriverOffers: apt_offers.parse(sources),
        OsRelease: os_release.parse(DEBIAN),
        RigopsState: StateFacts(),
        VaultPool: whole(*sets),
    })  # fmt: skip
    provide(
        cast("Host", host), VaultAccess(sets=entry.sets, locked=entry.driver.version, store=store)
    )
    for declared, source in product(WISHES, ("auto", "vendor")):
        spec = read({"driver": declared, "driver_source": source, "rigops_vault": str(tmp_path)})
        assert spec.driver
        facts = driver_facts(bundle, load(), spec, entry)

        at_once = answer(facts, spec.driver)
        as_needed = driver_answer(
            cast("Host", host), spec, spec.driver, facts.machine, facts.catalog
        )

        assert outcome(at_once) == outcome(as_needed), (declared, source)
