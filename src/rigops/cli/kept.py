"""What hosts said, kept in bundles and judged again."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from rigops.bundles import read_all, save, save_all
from rigops.cli.options import default_inventory, read_inventory
from rigops.cli.output import warn
from rigops.cli.sighting import Sighting
from rigops.doctor import notes
from rigops.errors import Problem, UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from rigops.inventory import Inventory
    from rigops.probe.bundle import Bundle
    from rigops.spec import RigSpec


def kept_sightings(
    paths: Sequence[Path], hosts: Sequence[str], inventory_path: Path | None
) -> list[Sighting]:
    """With one bundle, HOST says whose declarations it is judged by; with several, which to judge.

    A saved bundle does not tell its host's real name, unless it was saved with --raw.
    """
    found = [bundle for path in paths for bundle in read_all(path)]
    inventory = _inventory(inventory_path)
    if len(hosts) == 1 and len(found) == 1:
        return [_sighting(found[0], _declared(inventory, hosts[0], required=True))]
    named = {bundle.host for bundle in found}
    for host in hosts:
        if host not in named:
            raise UsageError(
                Problem(
                    message="no bundle is of this host",
                    key="HOST",
                    value=host,
                    accepted=", ".join(sorted(named)),
                )
            )
    return [
        _sighting(bundle, _declared(inventory, bundle.host, required=False))
        for bundle in found
        if not hosts or bundle.host in hosts
    ]


def keep(bundles: Sequence[Bundle], path: Path, *, redacted: bool) -> None:
    if not bundles:
        warn([f"no host was seen, so nothing is kept in {path}"])
        return
    if len(bundles) == 1:
        kept = save(bundles[0], path, redacted=redacted)
    else:
        kept = save_all(bundles, path, redacted=redacted)
    about = (
        "names, addresses and serials replaced; look through it before you publish it"
        if redacted
        else "with names, addresses and serials as they are"
    )
    click.echo(f"Kept in {kept}: {about}.", err=True)


def _sighting(bundle: Bundle, spec: RigSpec | None) -> Sighting:
    return Sighting(
        host=bundle.host,
        source="bundle",
        spec=spec,
        bundle=bundle,
        notes=tuple(notes.of_bundle(bundle)),
    )


def _inventory(path: Path | None) -> Inventory | None:
    if path is None and not default_inventory().exists():
        return None
    return read_inventory(path)


def _declared(inventory: Inventory | None, name: str, *, required: bool) -> RigSpec | None:
    host = inventory.host(name) if inventory else None
    if host is None and required:
        raise UsageError(
            Problem(
                message="the inventory does not name this host",
                key="HOST",
                value=name,
                cure=(inventory.nearest(name) if inventory else "") or "name the inventory with -i",
            )
        )
    return host.spec if host else None
