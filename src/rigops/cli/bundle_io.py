"""Bundles read into collected hosts, and saved from them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from rigops.cli.collected_hosts import CollectedHost
from rigops.cli.options import default_inventory, read_inventory
from rigops.cli.output import warn
from rigops.doctor import notes
from rigops.errors import Problem, UsageError
from rigops.probe.bundles import read_all, save, save_all

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from rigops.inventory import Inventory
    from rigops.inventory.spec import RigSpec
    from rigops.probe.bundle import Bundle


def hosts_from_bundles(
    paths: Sequence[Path], hosts: Sequence[str], inventory_path: Path | None
) -> list[CollectedHost]:
    """With one bundle, HOST names the declarations to use; with several, the bundles to read.

    A saved bundle holds its host's real name only if it was saved with --raw.
    """
    found = [bundle for path in paths for bundle in read_all(path)]
    inventory = _inventory(inventory_path)
    if len(hosts) == 1 and len(found) == 1:
        return [_collected(found[0], _declared(inventory, hosts[0], required=True))]
    named = {bundle.host for bundle in found}
    for host in hosts:
        if host not in named:
            raise UsageError(
                Problem(
                    message="no bundle has this host",
                    key="HOST",
                    value=host,
                    accepted=", ".join(sorted(named)),
                )
            )
    return [
        _collected(bundle, _declared(inventory, bundle.host, required=False))
        for bundle in found
        if not hosts or bundle.host in hosts
    ]


def save_bundles(bundles: Sequence[Bundle], path: Path, *, redacted: bool) -> None:
    if not bundles:
        warn([f"no host was reached; {path} not written"])
        return
    if len(bundles) == 1:
        saved = save(bundles[0], path, redacted=redacted)
    else:
        saved = save_all(bundles, path, redacted=redacted)
    about = (
        "names, addresses and serials replaced; read it before you publish it"
        if redacted
        else "names, addresses and serials not replaced"
    )
    click.echo(f"Saved {saved}: {about}.", err=True)


def _collected(bundle: Bundle, spec: RigSpec | None) -> CollectedHost:
    return CollectedHost(
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
                message="not in the inventory",
                key="HOST",
                value=name,
                fix=(inventory.nearest(name) if inventory else "") or "name the inventory with -i",
            )
        )
    return host.spec if host else None
