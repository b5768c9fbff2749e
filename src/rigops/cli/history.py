"""The command that shows past runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import click

from rigops.cli.failure import EXIT_UNREACHED
from rigops.cli.hosts import accept_host_key_option, choose_hosts, host_key_policy
from rigops.cli.options import common, host_arguments, is_verbose, json_option
from rigops.cli.output import print_json, warn
from rigops.dataclass import dataclass
from rigops.hosts.access import Chosen
from rigops.hosts.parallel import for_each
from rigops.record import journal
from rigops.record.journal import Run
from rigops.record.shell import JOURNAL, MOST_RUNS, READ
from rigops.report.closing import MOST_IN_FULL
from rigops.report.history import history_lines
from rigops.report.terminal import print_lines
from rigops.transport import HostKeyPolicy, TransportError, connect
from rigops.transport.errors import clean

SCHEMA = "rigops.history/1"
_MOST = 30  # lines of many hosts, before they are wrapped
# An unreadable file fails before the pipe, whose exit status is that of tail.
_SHELL = f"{READ}is_journal {JOURNAL} || exit 0\nlines {JOURNAL} | tail -n {MOST_RUNS}"
_READ = ("sh", "-c", _SHELL)


@click.command("history")
@host_arguments("[HOST]…")
@accept_host_key_option
@json_option
@common
def command(
    *,
    hosts: tuple[str, ...],
    inventory_path: Path | None,
    accepted_keys: tuple[str, ...],
    as_json: bool,
) -> int:
    """Show past runs: who ran what, each value before and after, and why one failed.

    Reads the journal of each HOST and the records of this machine; for a host that cannot be
    reached, only the latter. Without HOST: every host of the inventory. Of more than three hosts
    only the newest runs, unless with -v.

    \b
    Examples:
      rigops history
      rigops history threadripper --json
    """
    policy = host_key_policy(accepted_keys)
    chosen = choose_hosts(hosts, inventory_path)
    read = for_each(chosen, lambda host: _read_runs(host, policy))
    for one in read:
        if one.error is not None:
            warn([f"{one.error}; showing this machine's records only"])
        if one.damage:
            warn([f"{one.host}: {one.damage}; showing this machine's records only"])
        if one.unreadable:
            lines = f"{one.unreadable} line{'s' * (one.unreadable != 1)}"
            warn([f"{one.host}: {lines} of its journal cannot be read; all others are shown"])
    runs = sorted((run for one in read for run in one.runs), key=lambda run: run.at, reverse=True)
    unreached = [
        {"host": one.host, "status": "unknown", "error": {"kind": one.error.kind,
         "message": str(one.error)}}
        for one in read if one.error is not None
    ]  # fmt: skip
    if as_json:
        document = [run.as_json() for run in runs]
        print_json({"schema": SCHEMA, "runs": document, "hosts": unreached})
    else:
        is_brief = len(chosen) > MOST_IN_FULL and not is_verbose()
        print_lines(*history_lines(runs, _MOST if is_brief else None))
    return EXIT_UNREACHED if unreached else 0


@dataclass(frozen=True)
class _HostRuns:
    host: str
    runs: Sequence[Run]
    unreadable: int = 0
    error: TransportError | None = None
    damage: str = ""  # of the journal on the host


def _read_runs(host: Chosen, policy: HostKeyPolicy) -> _HostRuns:
    """With the current name of the host: the applied inventory may have used another."""
    here = journal.read(host=host.name)
    try:
        with connect(host.target, host_keys=policy) as connection:
            journal_tail = connection.run(_READ, deadline_s=30)
    except TransportError as error:
        return _HostRuns(host.name, here.runs, here.unreadable, error)
    damage = "" if journal_tail.exit_code == 0 else clean(journal_tail.stderr)
    there = journal.parse(journal_tail.stdout.split(b"\n"))
    runs = journal.with_others(here.runs, there.runs)
    unreadable = here.unreadable + there.unreadable
    named = tuple(replace(run, host=host.name) for run in runs)
    return _HostRuns(host.name, named, unreadable, damage=damage)
