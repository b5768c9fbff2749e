"""The catalog of drivers and cards, with the entries that a host's declarations add."""

from __future__ import annotations

from pathlib import Path

from pyinfra.api.host import Host

from rigops import catalog
from rigops.catalog import Catalog
from rigops.inventory.spec import RigSpec
from rigops.plan.context import provided


def catalog_of(host: Host) -> Catalog:
    """By the path that rigops gives, which is whole; under plain pyinfra from where that is run."""
    spec = provided(host, RigSpec)
    named = spec.catalog if spec else None
    return catalog.load_once(Path(named).expanduser().absolute()) if named else catalog.load()
