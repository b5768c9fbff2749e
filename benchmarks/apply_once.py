"""`rigops apply --yes --preflight never` with a deploy of the benchmark.

`python -m benchmarks.apply_once INVENTORY DEPLOY`; without DEPLOY the hosts are only reached.
"""

# ruff: noqa: I001 - as in the command, gevent comes before everything else
from __future__ import annotations

import rigops.cli.main
import rigops.converge.early

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import gevent

import rigops.cli.apply  # noqa: F401 - the command's start-up, whatever of it is used here
from rigops.cli.apply_common import host_requests
from rigops.cli.options import read_inventory
from rigops.cli.terminal import Progress
from rigops.converge.request import Selection
from rigops.converge.result import exit_code
from rigops.converge.fleet_run import FleetRun, Interrupts
from rigops.converge.request import RunOptions
from rigops.record import journal
from rigops.report.apply import outcome_lines
from rigops.report.plan import plan_lines
from rigops.report.terminal import clean_streams, print_lines
from rigops.transport import HostKeyPolicy, connect

if TYPE_CHECKING:
    from rigops.concerns.concern import HostRequest


def reach(host: HostRequest) -> None:
    connect(host.target, host_keys=HostKeyPolicy()).close()


def main() -> int:
    path, deploys = Path(sys.argv[1]), [Path(word) for word in sys.argv[2:]]
    inventory = read_inventory(path)
    hosts = host_requests(inventory, ())
    Interrupts()
    if not deploys:
        gevent.joinall([gevent.spawn(reach, host) for host in hosts], raise_error=True)
        return 0
    with Progress("applying") as progress:
        options = RunOptions(
            selection=Selection(),
            deploys=deploys,
            inventory_digest=inventory.digest,
            tell=progress.say,
            preflight="never",
        )
        apply = FleetRun(hosts, options)
        try:
            apply.plan()
            with progress.silent():
                print_lines(*plan_lines(apply.results, 100), err=True)
            apply.confirm(removals=False, no_trial=False)
            apply.carry_out(())
        finally:
            apply.close()
    for run in apply.runs:
        journal.append(run.journal_entry())
    print_lines(*outcome_lines(apply.results))
    return exit_code(apply.results)


if __name__ == "__main__":
    with clean_streams():
        sys.exit(main())
