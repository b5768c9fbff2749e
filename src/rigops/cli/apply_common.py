"""Shared by plan, apply, release and rollback: options, hosts, the run, its report and record."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import wraps
from pathlib import Path
from typing import cast

import click

from rigops.catalog import load_once
from rigops.cli.consent import ConsentScreen
from rigops.cli.failure import EXIT_DECLINED, EXIT_INTERRUPTED
from rigops.cli.hosts import called_again, require_connector
from rigops.cli.options import (
    Command,
    combined,
    host_arguments,
    is_verbose,
    read_inventory,
    words,
)
from rigops.cli.output import print_closing, print_json, text_width
from rigops.cli.terminal import Progress
from rigops.concerns.concern import HostRequest
from rigops.concerns.registry import CONCERNS, in_this_version
from rigops.converge.engine import Engine
from rigops.converge.fleet_run import FleetRun, Interrupts
from rigops.converge.flow import Ending, record
from rigops.converge.host_run import HostRun
from rigops.converge.request import RunOptions, Selection, deploys
from rigops.converge.result import HostResult, exit_code
from rigops.dataclass import dataclass
from rigops.errors import RigopsError
from rigops.inventory import Inventory, InventoryHost
from rigops.inventory.spec import RigSpec
from rigops.record import lockfile as lock
from rigops.report.apply import outcome_lines
from rigops.report.closing import MOST_IN_FULL, Again
from rigops.report.host_rows import apply_rows
from rigops.report.preflight import preflight_lines
from rigops.report.terminal import print_lines
from rigops.transport import Target

APPLY_SCHEMA = "rigops.apply/1"
_DOING = {
    "plan": "planning", "apply": "applying", "release": "releasing", "rollback": "rolling back",
}  # fmt: skip
_COMING = [one.name for one in CONCERNS if not one.is_in_this_version]


@dataclass(frozen=True)
class Selected:
    """The hosts and concerns that a command line names. `digest`: of the inventory."""

    requests: Sequence[HostRequest]
    selection: Selection
    digest: str
    again: Again


def _with_selected(function: Command) -> Command:
    """For a command that gets them as `selected`. Words that are hosts are as with --limit."""

    @wraps(function)
    def select(
        *,
        hosts: tuple[str, ...],
        inventory_path: Path | None,
        limit: tuple[str, ...],
        only: tuple[str, ...],
        skip: tuple[str, ...],
        **others: object,
    ) -> object:
        selection = Selection.from_words(only, skip)
        inventory = read_inventory(inventory_path)
        inventory.require_fitting(hosts, "HOST")
        inventory.require_fitting(limit, "--limit")
        chosen = (("--only", only), ("--skip", skip))
        again = replace(
            called_again(inventory_path),
            is_whole=not (hosts or limit),
            selection=tuple(w for name, given in chosen if given for w in (name, ",".join(given))),
        )
        requests = host_requests(inventory, (*hosts, *limit))
        selected = Selected(requests, selection, inventory.digest, again)
        return function(selected=selected, **others)

    return cast("Command", select)


inventory_options = combined(
    host_arguments("[HOST]…"),
    click.option(
        "--limit", multiple=True, callback=words, metavar="PAT", help="Host, group or glob."
    ),
    click.option(
        "--only",
        multiple=True,
        callback=words,
        metavar="CONCERN",
        help=f"Only these concerns: {', '.join(one.name for one in in_this_version())}.",
    ),
    click.option(
        "--skip",
        multiple=True,
        callback=words,
        metavar="CONCERN",
        help="Skip these concerns."
        + (f" Not in this version: {', '.join(_COMING)}." if _COMING else ""),
    ),
    _with_selected,
)


def consent_options(*, reboot_help: str) -> Callable[[Command], Command]:
    return combined(
        click.option(
            "--yes", is_flag=True, help="Confirm the plan. Reboots are confirmed separately."
        ),
        click.option(
            "--reboot",
            type=click.Choice(("ask", "auto", "never")),
            default="ask",
            show_default=True,
            help=reboot_help,
        ),
        click.option("--allow-busy", is_flag=True, help="Go on while GPU jobs run."),
    )


@contextmanager
def fleet_run(
    hosts: Sequence[HostRequest],
    options: RunOptions,
    make: Callable[[HostRequest, RunOptions, Engine], HostRun] = HostRun,
) -> Iterator[tuple[FleetRun, ConsentScreen]]:
    """Of the deploys that are selected; its connections end with the context."""
    with (
        Interrupts() as interrupts,
        Progress(_DOING[options.command], interrupts.end_the_question) as progress,
    ):
        shown = replace(
            options,
            access=options.access.asking(progress.silent),
            deploys=deploys(options.selection),
            tell=progress.say,
        )
        run = FleetRun(hosts, shown, make)
        try:
            yield run, ConsentScreen(progress, has_changes=options.command != "apply")
        finally:
            run.close()


def host_requests(inventory: Inventory, patterns: Sequence[str] = ()) -> list[HostRequest]:
    path = lock.path_of(inventory.path)
    known = lock.read(path)
    return [
        HostRequest(
            host.name,
            Target.from_host_data(host.name, host.data),
            *_with_paths(host),
            locked=known.hosts.get(host.name),
            lock=path,
        )
        for host in inventory.supported
        if not patterns or any(map(host.fits, patterns))
    ]


def host_request(inventory: Inventory, name: str) -> HostRequest:
    require_connector(inventory.require(name))
    return next(one for one in host_requests(inventory) if one.name == name)


def _with_paths(host: InventoryHost) -> tuple[Mapping[str, object], RigSpec]:
    """With whole paths of what is on this machine: a deploy does not know the inventory."""
    declared = {"catalog": host.spec.catalog, "driver_modules": host.spec.driver_modules}
    paths = {name: str(Path(one).absolute()) for name, one in declared.items() if one}
    if path := paths.get("catalog"):
        load_once(Path(path))  # a broken catalog is a usage error, not a host's
    catalog, tree = (paths.get(name) for name in declared)
    return {**host.data, **paths}, replace(host.spec, catalog=catalog, driver_modules=tree)


def conclude(
    run: FleetRun,
    ending: Ending,
    *,
    as_json: bool,
    words: Mapping[str, str] | None = None,
    again: Again | None = None,
) -> int:
    """Record and report the run. A record that fails is an error after the report.

    `again`: of an apply, which ends with what to type next.
    """
    if ending.is_declined:
        if as_json:
            _report(run.results, as_json=True)
        return EXIT_DECLINED
    if ending.is_interrupted:
        print_lines("", "Interrupted. The state of each host:", err=True)
    unrecorded = record(run, _tell)
    _report(run.results, as_json=as_json, words=words, shown=ending.shown)
    if again and not as_json:
        print_closing(apply_rows(run.results), again)
    if unrecorded:
        raise RigopsError(unrecorded)
    return EXIT_INTERRUPTED if ending.is_interrupted else exit_code(run.results)


def _tell(text: str) -> None:
    print_lines(text, err=True)


def _report(
    results: Sequence[HostResult],
    *,
    as_json: bool,
    words: Mapping[str, str] | None = None,
    shown: Collection[str] = (),
) -> None:
    """`words` and `shown`: see outcome_lines."""
    if as_json:
        hosts = [result.as_json() for result in results]
        print_json({"schema": APPLY_SCHEMA, "hosts": hosts})
        return
    is_brief = len(results) > MOST_IN_FULL and not is_verbose()
    proofs = [result.preflight for result in results if result.preflight]
    if proofs and not is_brief:
        print_lines(*preflight_lines(proofs, text_width()))
    print_lines(*outcome_lines(results, words, shown=shown, is_brief=is_brief))
