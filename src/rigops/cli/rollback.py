"""The command that goes back: to the driver proven before, or to the root of a snapshot."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Final

import click

from rigops.backup.when import parse_when
from rigops.cli.apply_common import conclude, consent_options, fleet_run, host_request
from rigops.cli.hosts import AskAccess, host_options
from rigops.cli.options import inventory_option, read_inventory
from rigops.concerns.concern import HostRequest
from rigops.concerns.nvidia_driver import record as driver
from rigops.converge.engine import Engine
from rigops.converge.fleet_run import FleetRun
from rigops.converge.flow import carry_out
from rigops.converge.host_run import HostRun
from rigops.converge.request import RebootWhen, RunOptions, Selection
from rigops.converge.rollback import RootRollback, earlier_request, lines_to_change
from rigops.dataclass import dataclass
from rigops.errors import usage_error
from rigops.hosts.access import HostAccess

_DRIVER: Final = "nvidia_driver"


@dataclass(frozen=True, kw_only=True)
class _Rollback:
    """`hints`: what to change in the inventory, which still has what was gone back from.

    `is_reboot`: it is nothing without its reboot.
    """

    request: HostRequest
    question: str
    words: Mapping[str, str]
    selection: Selection = Selection()
    prune: bool = False
    is_reboot: bool = False
    make: Callable[[HostRequest, RunOptions, Engine], HostRun] = HostRun
    hints: Callable[[HostRun], Iterable[str]] = lambda _: ()

    def confirms(self, run: FleetRun) -> str:
        """The question is asked only where there is something to do."""
        results = [result for result in run.results if result.error is None]
        return self.question if any(result.pending for result in results) else ""


@click.command("rollback")
@click.argument("host")
@inventory_option
@click.option(
    "--what",
    type=click.Choice(("driver", "config", "root")),
    default="driver",
    show_default=True,
    help="What to roll back.",
)
@click.option(
    "--at",
    "when",
    default="",
    metavar="WHEN",
    help="With --what root: 2026-11-24, 3d (ago), or a snapshot's name "
    "[default: the newest that apply took].",
)
@consent_options(reboot_help="The earlier driver, or root, runs only after a reboot.")
@host_options
def command(
    *,
    host: str,
    inventory_path: Path | None,
    what: str,
    when: str,
    yes: bool,
    reboot: RebootWhen,
    allow_busy: bool,
    access: AskAccess,
    as_json: bool,
) -> int:
    """Bring HOST back to its earlier driver or configuration, or its root back to a snapshot.

    driver: takes the packages from the vault, without a network, and checks each against
    inventory.lock.json. Does not edit the inventory: if it declares the newer driver, prints the
    line to change.

    config: applies what was declared before, and worked, except the driver. Prints the lines of
    the inventory to change, or the next apply goes forward again.

    root: puts a snapshot of a btrfs root in force, reboots, and tests P2P. The present root stays
    aside. Without --at: the newest snapshot that apply took before its changes.

    \b
    Examples:
      rigops rollback threadripper
      rigops rollback threadripper --yes --reboot auto
      rigops rollback threadripper --what config
      rigops rollback threadripper --what root
      rigops rollback threadripper --what root --at 20261125T060001Z-apply
    """
    if when and what != "root":
        raise usage_error(message="only --what root takes a time", key="--at", value=when)
    if what == "root" and reboot == "never":
        raise usage_error(
            message="the root changes only with a reboot",
            key="--reboot",
            value=reboot,
            accepted="ask or auto",
        )
    inventory = read_inventory(inventory_path)
    request = host_request(inventory, host)
    # A refused run asks for no password.
    if what == "config":
        given = access()
        rollback = _config(request, given)
    else:
        rollback = _root(request, when) if what == "root" else _driver(request)
        given = access()
    options = RunOptions(
        command="rollback",
        selection=rollback.selection,
        inventory_digest=inventory.digest,
        access=given,
        yes=yes,
        reboot=reboot,
        prune=rollback.prune,
        allow_busy=allow_busy,
    )
    with fleet_run([rollback.request], options, rollback.make) as (run, screen):
        ending = carry_out(run, screen, rollback.confirms, needs_reboot=rollback.is_reboot)
    for host_run in run.runs:
        if host_run.result.outcome in {"converged", "changed", "reboot_owed"}:
            host_run.result.story += rollback.hints(host_run)
    return conclude(run, ending, as_json=as_json, words=rollback.words)


def _driver(request: HostRequest) -> _Rollback:
    if request.spec.driver is None:
        name = request.name
        raise usage_error(message=f"no driver is declared for {name}", host=name, key="driver")
    return _Rollback(
        request=replace(request, back=True),
        selection=Selection.from_words([_DRIVER], ()),
        question="reinstall this driver",
        hints=_driver_to_change,
        words={
            "converged": "already has that driver",
            "changed": "the driver that was proven before is installed",
            "reboot_owed": "the driver that was proven before is installed, reboot pending",
        },
    )


def _config(request: HostRequest, access: HostAccess) -> _Rollback:
    earlier = earlier_request(request, access)
    return _Rollback(
        request=earlier,
        selection=Selection.from_words((), [_DRIVER]),
        question="go back to this configuration",
        prune=True,
        hints=lambda _: lines_to_change(request.data, earlier),
        words={
            "converged": "already has that configuration",
            "changed": "what was declared before is in force",
            "reboot_owed": "what was declared before is written, reboot pending",
        },
    )


def _root(request: HostRequest, when: str) -> _Rollback:
    return _Rollback(
        request=request,
        question="roll back the root",
        is_reboot=True,
        make=partial(RootRollback, at=parse_when(when, datetime.now().astimezone())),
        words={"changed": "the root of the snapshot runs", "reboot_owed": "not touched"},
    )


def _driver_to_change(run: HostRun) -> Iterator[str]:
    declared, pinned = run.request.spec.driver, driver.pinned(run.recorded(driver.PATH))
    version = pinned.version if pinned else ""
    if declared is None or run.result.outcome == "converged":
        return
    if declared.versions.contains(version, prereleases=True):
        yield f'driver = "{declared.text}" in the inventory includes {version}: apply keeps it'
    else:
        yield (
            f'the inventory declares "driver": "{declared.text}"; write "driver": "{version}", '
            "or the next apply installs the newer one again"
        )
