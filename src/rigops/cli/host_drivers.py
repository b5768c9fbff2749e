"""`rigops drivers --host`: which drivers each host could run."""

from __future__ import annotations

from datetime import datetime, timezone
from functools import cache
from pathlib import Path
from shutil import get_terminal_size
from typing import TYPE_CHECKING

import click

from rigops.catalog import driver_rows, load
from rigops.cli.collected_hosts import CollectedHost, ProbeOptions, internal_error, probe_hosts
from rigops.cli.drivers import SCHEMA
from rigops.cli.hosts import choose_hosts, host_key_policy, sudo_password
from rigops.cli.options import default_inventory
from rigops.cli.output import print_json
from rigops.concerns.nvidia_driver import from_bundle
from rigops.concerns.nvidia_driver.resolver.options import choose
from rigops.errors import HostError
from rigops.record import lockfile as lock
from rigops.report.driver_choice import HostChoice, driver_choice_text

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rigops.catalog import Catalog
    from rigops.catalog.model import Gpu
    from rigops.cli.hosts import Chosen
    from rigops.inventory.spec import RigSpec
    from rigops.record.lockfile import LockedHost

WIDEST = 100
_UNKNOWN = 3


def show_hosts(
    hosts: Sequence[str],
    inventory_path: Path | None,
    *,
    accepted_keys: Sequence[str],
    asks_sudo_password: bool,
    as_json: bool,
) -> int:
    chosen = choose_hosts(hosts, inventory_path, without_words="local")
    inventory = inventory_path or default_inventory()
    folder = inventory.parent
    for one in chosen:  # a broken catalog is a fault of the command, and not of a host
        _catalog(one.spec, folder)
    locked = _locked(chosen, inventory)
    how = ProbeOptions(
        policy=host_key_policy(accepted_keys),
        sudo_password=sudo_password(asked=asks_sudo_password),
        sections=from_bundle.sections,
    )

    def judge(seen: CollectedHost) -> tuple[HostChoice, str]:
        found = _judged(seen, _catalog(seen.spec, folder), locked.get(seen.host))
        return found, found.status

    found = probe_hosts(chosen, how, judge)
    if as_json:
        rows = [
            row
            for host, one in zip(chosen, found, strict=True)
            for gpu in _gpus(one)
            for row in driver_rows(_catalog(host.spec, folder), gpu)
        ]
        print_json(
            {
                "schema": SCHEMA,
                "drivers": [row.as_json() for row in dict.fromkeys(rows)],
                "hosts": [one.as_json() for one in found],
            }
        )
    else:
        click.echo(driver_choice_text(found, min(get_terminal_size().columns, WIDEST)))
    return _UNKNOWN if any(one.error for one in found) else 0


def _locked(chosen: Sequence[Chosen], inventory: Path) -> Mapping[str, LockedHost]:
    """A damaged lock is a fault of the command too. Hosts of no inventory have none."""
    own = {one.name for one in chosen if one.spec is not None}
    known = lock.read(lock.path_of(inventory)).hosts if own else {}
    return {name: one for name, one in known.items() if name in own}


def _judged(seen: CollectedHost, catalog: Catalog, locked: LockedHost | None) -> HostChoice:
    if seen.error or seen.bundle is None:
        return HostChoice(host=seen.host, error=seen.error)
    if missing := from_bundle.missing(seen.bundle):
        return HostChoice(host=seen.host, error=_unanswered(missing))
    try:
        today = datetime.now(timezone.utc).date()
        choice = choose(from_bundle.driver_facts(seen.bundle, catalog, seen.spec, locked), today)
    except Exception as error:  # noqa: BLE001 - logged and reported
        return HostChoice(host=seen.host, error=internal_error(seen.host, error))
    return HostChoice(host=seen.host, choice=choice)


def _unanswered(sections: Sequence[str]) -> HostError:
    return HostError(
        "timeout", f"the host did not answer all of {', '.join(sections)}", "try again"
    )


def _catalog(spec: RigSpec | None, folder: Path) -> Catalog:
    """The catalog, with the entries that the host's declarations add."""
    named = spec.catalog if spec else None
    return _load(folder / Path(named).expanduser() if named else None)


@cache
def _load(additions: Path | None) -> Catalog:
    return load(additions)


def _gpus(found: HostChoice) -> list[Gpu]:
    cards = found.choice.facts.machine.cards if found.choice else ()
    return list(dict.fromkeys(card.gpu for card in cards if card.gpu))
