"""What `drivers --host` says that a declaration comes to is what apply would take."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING, Final

import pytest

from rigops.catalog import load
from rigops.converge.driver_choice import seen
from rigops.driver import declared
from rigops.driver.choosing import choose
from rigops.driver.origins import of_source, resolve_from
from rigops.driver.request import Refusal
from rigops.operations.driver_vault import Shelf
from rigops.operations.driver_vault_choice import Kept, Taken
from rigops.probe.bundle import Bundle, Collected
from rigops.record.lock import locked
from rigops.spec import read
from rigops.vault.store import Store
from tests.unit.cli.test_host_drivers import SOURCES, TEXTS
from tests.unit.driver.choices import TODAY
from tests.unit.operations.test_driver_vault import host, whole
from tests.unit.record.test_lock import NOW, OLD, PROVEN
from tests.unit.vault.making import index_of, kept_set, records

if TYPE_CHECKING:
    from pathlib import Path

    from rigops.driver.choice import Seen
    from rigops.driver.request import Resolution
    from rigops.record.lock import LockedHost
    from rigops.spec import RigSpec

OTHER: Final = "550.163.01"
SETS: Final = {one.version: one for one in (NOW, OLD)}
DEBIAN: Final = "ID=debian\nVERSION_ID=12\nVERSION_CODENAME=bookworm\n"


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


def told(own: tuple[str, ...], there: str, spec: RigSpec, lock: LockedHost) -> Seen:
    texts = {
        **TEXTS,
        "os-release": DEBIAN,
        "packages": installed(there),
        "driver-offers": offered(*own),
    }
    said = {name: Collected(text) for name, text in texts.items()}
    return seen(Bundle("rig", None, root=True, sections=said), load(), spec, lock)


def applied(
    found: Seen, spec: RigSpec, lock: LockedHost, store: Store
) -> Resolution | Refusal | Taken:
    """As the operations of apply do it, with the packages that the host keeps."""
    assert spec.driver
    request = declared.request(spec, spec.driver, locked=lock.version)
    without = resolve_from(found.machine, request, found.offers, load())
    own = of_source(found.offers, request.source, found.machine)
    pool = whole(*(one.version for one in lock.sets))
    shelf = Shelf(sets=lock.sets, locked=lock.version, store=store)
    return Kept(host(pool), shelf, found.machine, load()).instead_of(without, request, own)


@pytest.mark.parametrize("there", ["", NOW.version, OLD.version])
@pytest.mark.parametrize("sets", [(NOW.version,), (OLD.version,), (OLD.version, NOW.version)])
@pytest.mark.parametrize(
    "own", [(), (NOW.version,), (OLD.version,), (OLD.version, NOW.version), (OTHER,)]
)
def test_what_is_declared_comes_to_what_apply_takes(
    tmp_path: Path, own: tuple[str, ...], sets: tuple[str, ...], there: str
) -> None:
    store = Store(tmp_path)
    for version in sets:
        store.put(kept_set(version).index, [index_of(version).encode()])
    lock = locked(PROVEN, tuple(SETS[version] for version in sets))
    wishes = ("535", NOW.version, OLD.version, ">=535", "550")
    for wish, source in product(wishes, ("auto", "vendor")):
        spec = read({"driver": wish, "driver_source": source, "rigops_vault": str(tmp_path)})
        found = told(own, there, spec, lock)

        ours = choose(found, spec, load(), TODAY).declared

        theirs = applied(found, spec, lock, store)
        assert ours is not None
        if isinstance(theirs, Refusal):
            assert ours.refusal == theirs, (wish, source)
        else:
            its = theirs.resolution if isinstance(theirs, Taken) else theirs
            assert (ours.refusal, ours.version) == (None, its.version), (wish, source)
