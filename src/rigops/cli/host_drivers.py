"""`rigops drivers --host`: which drivers each host could run."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from rigops.catalog import Catalog, driver_rows
from rigops.catalog.model import DrivenGpu
from rigops.cli.failure import EXIT_UNREACHED
from rigops.cli.hosts import AskAccess, choose_hosts, host_catalog, locked_hosts, read_catalogs
from rigops.cli.output import print_json, text_width
from rigops.cli.terminal import Terminal
from rigops.concerns.driver_modules.tree import read
from rigops.concerns.nvidia_driver import from_bundle
from rigops.concerns.nvidia_driver.from_bundle import choice
from rigops.errors import HostError, RigopsError
from rigops.hosts.probing import CollectedHost, ProbeOptions, internal_error, probe_hosts
from rigops.inventory.spec import RigSpec
from rigops.report.driver_choice import HostChoice, driver_choice_lines
from rigops.report.drivers import SCHEMA
from rigops.report.terminal import print_lines

if TYPE_CHECKING:
    from rigops.record.lockfile import LockedHost


def show_hosts(
    hosts: Sequence[str], inventory_path: Path | None, access: AskAccess, *, as_json: bool
) -> int:
    chosen = choose_hosts(hosts, inventory_path)
    read_catalogs(one.spec for one in chosen)
    locked = locked_hosts(chosen, inventory_path)
    options = ProbeOptions(access=access(), sections=from_bundle.sections)

    def judge(collected: CollectedHost) -> tuple[HostChoice, str]:
        catalog = host_catalog(collected.spec)
        own_modules = _version_of_tree(collected.spec)
        found = _choice(collected, catalog, locked.get(collected.host), own_modules)
        return found, found.status

    found = probe_hosts(chosen, options, judge, Terminal())
    if as_json:
        rows = [
            row
            for host, one in zip(chosen, found, strict=True)
            for gpu in _gpus(one)
            for row in driver_rows(host_catalog(host.spec), gpu)
        ]
        print_json(
            {
                "schema": SCHEMA,
                "drivers": [row.as_json() for row in dict.fromkeys(rows)],
                "hosts": [one.as_json() for one in found],
            }
        )
    else:
        print_lines(*driver_choice_lines(found, text_width()))
    return EXIT_UNREACHED if any(one.error for one in found) else 0


def _version_of_tree(spec: RigSpec | None) -> str:
    """Of driver_modules: no other driver will do. Plan says why a tree cannot be read."""
    with suppress(RigopsError):
        return read(spec.driver_modules).version if spec and spec.driver_modules else ""
    return ""


def _choice(
    collected: CollectedHost, catalog: Catalog, locked: LockedHost | None, own_modules: str
) -> HostChoice:
    if collected.error or collected.bundle is None:
        return HostChoice(host=collected.host, error=collected.error)
    if missing := from_bundle.missing(collected.bundle):
        message = f"the host did not answer all of {', '.join(missing)}"
        return HostChoice(
            host=collected.host, error=HostError("timeout", message, "run this again")
        )
    try:
        found = choice(collected.bundle, catalog, collected.spec, locked, own_modules)
    except Exception as error:  # noqa: BLE001 - logged and reported
        return HostChoice(host=collected.host, error=internal_error(collected.host, error))
    return HostChoice(host=collected.host, choice=found)


def _gpus(found: HostChoice) -> list[DrivenGpu]:
    cards = found.choice.facts.machine.cards if found.choice else ()
    return list(dict.fromkeys(card.gpu for card in cards if card.gpu))
