"""The command that shows the power budget, and what the energy costs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from rigops.cli.hosts import AskAccess, choose_hosts, host_catalog, host_options, read_catalogs
from rigops.cli.options import host_arguments, is_verbose
from rigops.cli.output import print_json, text_width
from rigops.cli.page_file import html_option, write_page
from rigops.cli.terminal import Terminal
from rigops.dataclass import dataclass
from rigops.errors import HostError
from rigops.hosts.access import Chosen, HostAccess
from rigops.report.terminal import print_lines

if TYPE_CHECKING:
    from rigops.catalog import Catalog
    from rigops.hosts.probing import CollectedHost
    from rigops.power import HostPower, Share
    from rigops.power.report import Measured, Source

_DUTY = 50


@click.command("power")
@host_arguments("[HOST]…")
@click.option(
    "--duty",
    "duty_percent",
    type=click.IntRange(0, 100),
    default=_DUTY,
    show_default=True,
    metavar="PERCENT",
    help="How much of the time all cards work at their limits; the rest counts as idle.",
)
@html_option
@host_options
def command(
    *,
    hosts: tuple[str, ...],
    inventory_path: Path | None,
    duty_percent: int,
    html_path: Path | None,
    access: AskAccess,
    as_json: bool,
) -> None:
    """Show whether supplies and circuits carry the cards' limits, and what the energy costs.

    Counts the limits that the inventory declares, as they are once applied; without a declaration,
    those in force. The keys `psus`, `circuits`, `other_watts` and `electricity_price` say what
    there is. A circuit of the same name in several hosts is one circuit. A host that cannot be
    reached is computed from `gpus` and the catalog. Exit code 1: over the budget; 3: unknown.
    With -v, each card and what is assumed.

    \b
    Examples:
      rigops power
      rigops power threadripper --duty 100     as if it worked day and night
      rigops power -i rack.py --json
      rigops power --html power.html           also a page with bars and power paths
    """
    chosen = choose_hosts(hosts, inventory_path)
    read_catalogs(one.spec for one in chosen)
    found = _probe(chosen, access())
    from rigops.power.report import PowerReport, document, exit_code, shared_circuits

    shares = [share for one in found for share in one.power.shares()]
    shares += _shares_of_the_unasked(chosen)
    reports = [
        PowerReport(
            power=one.power,
            source=one.source,
            duty_percent=duty_percent,
            price=host.spec.electricity_price if host.spec else None,
            others=tuple(share for share in shares if share.host != host.name),
            measured=one.measured,
            error=one.error,
        )
        for host, one in zip(chosen, found, strict=True)
    ]
    circuits = shared_circuits(reports, shares)
    if html_path is not None:
        from rigops.report.html.power import power_page

        write_page(html_path, power_page(reports, circuits))
    if as_json:
        print_json(document(reports, circuits))
    else:
        from rigops.report.power import power_lines

        print_lines(*power_lines(reports, circuits, text_width(), verbose=is_verbose()))
    click.get_current_context().exit(exit_code(reports))


@dataclass(frozen=True, kw_only=True)
class _Found:
    power: HostPower
    source: Source
    measured: tuple[Measured, ...] = ()
    error: HostError | None = None


def _probe(chosen: Sequence[Chosen], access: HostAccess) -> list[_Found]:
    from rigops.doctor.views.host_power import SECTIONS
    from rigops.hosts.probing import ProbeOptions, internal_error, probe_hosts

    def judge(collected: CollectedHost) -> tuple[_Found, str]:
        catalog = host_catalog(collected.spec)
        try:
            found = _judge(collected, catalog)
        except Exception as error:  # noqa: BLE001 - logged and reported
            found = _by_inventory(collected, catalog, internal_error(collected.host, error))
        return found, "not reached" if found.error else "ok"

    options = ProbeOptions(access=access, sections=lambda _: SECTIONS)
    return probe_hosts(chosen, options, judge, Terminal())


def _judge(collected: CollectedHost, catalog: Catalog) -> _Found:
    from rigops.doctor.examined import Examined
    from rigops.doctor.views.host_power import find_measured, find_power
    from rigops.inventory.spec import RigSpec
    from rigops.probe.snapshot import HostSnapshot

    if collected.bundle is None:
        return _by_inventory(collected, catalog, collected.error)
    snapshot = HostSnapshot(collected.bundle)
    examined = Examined(snapshot, collected.spec or RigSpec(), catalog)
    return _Found(
        power=find_power(examined, collected.host),
        source="local" if collected.source == "local" else "ssh",
        measured=find_measured(snapshot),
    )


def _by_inventory(collected: CollectedHost, catalog: Catalog, error: HostError | None) -> _Found:
    from rigops.inventory.spec import RigSpec
    from rigops.power import from_inventory

    spec = collected.spec or RigSpec()
    return _Found(
        power=from_inventory(collected.host, spec, catalog), source="inventory", error=error
    )


def _shares_of_the_unasked(chosen: Sequence[Chosen]) -> list[Share]:
    """Of hosts that are on the circuits of those that were asked."""
    from rigops.power import Neighbors

    asked = {one.name for one in chosen}
    others = {
        other.host: other for one in chosen for other in one.neighbors if other.host not in asked
    }
    return [
        share
        for other in others.values()
        for share in Neighbors((other,)).shares(host_catalog(other.spec))
    ]
