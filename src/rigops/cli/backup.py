"""The command that takes a backup now."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from rigops.cli.engine_answers import engine_options, print_answers
from rigops.cli.hosts import AskAccess, called_again, choose_hosts, host_options
from rigops.cli.options import engine_option, host_arguments
from rigops.cli.output import print_closing
from rigops.cli.terminal import Terminal
from rigops.errors import usage_error
from rigops.hosts.access import Chosen

if TYPE_CHECKING:
    from rigops.backup.engines import Engines
    from rigops.hosts.engines import HostAnswer


@click.command("backup")
@host_arguments("HOST…", required=True)
@click.option("--dry-run", is_flag=True, help="Show what would be done; change nothing.")
@click.option(
    "--drill", is_flag=True, help="Back up, restore a sample of that archive, and compare it."
)
@click.option(
    "--heal",
    is_flag=True,
    help="Show which archives a newer borg refuses; with --yes, sign them.",
)
@click.option("--yes", is_flag=True, help="Heal what --heal shows.")
@click.option(
    "--moved", is_flag=True, help="Accept that borg's repository or a declared path has moved."
)
@click.option("--accept-lost", is_flag=True, help="Accept that archives are gone from it.")
@click.option(
    "--prune-most",
    is_flag=True,
    help="Remove what `keep` no longer keeps at once, also more than half of the copies.",
)
@engine_option
@host_options
def command(
    *,
    hosts: tuple[str, ...],
    inventory_path: Path | None,
    dry_run: bool,
    drill: bool,
    heal: bool,
    yes: bool,
    moved: bool,
    accept_lost: bool,
    prune_most: bool,
    engine: str | None,
    access: AskAccess,
    as_json: bool,
) -> int:
    """Take snapshots of HOST now, prune old ones, send what the target lacks, and run borg.

    HOST is a name, group or glob of the inventory.
    Ctrl-C ends it on the host too; the next run removes what was sent only in part. A target that
    is absent is no error: the snapshots wait for it. The first backup with borg exports the key of
    the repository to the vault here. Backups of another tool are left to its unit.

    \b
    Examples:
      rigops backup threadripper
      rigops backup threadripper --dry-run
      rigops backup threadripper --drill      can it be restored?
      rigops backup threadripper --moved      the disk of a path was replaced
      rigops backup threadripper --prune-most after `keep` was lowered
    """
    if drill + dry_run + heal > 1:
        raise usage_error(message="choose one of --drill, --heal and --dry-run", key="--drill")
    if yes and not heal:
        raise usage_error(message="a backup asks nothing", key="--yes", fix="leave --yes out")
    chosen = choose_hosts(hosts, inventory_path)
    from rigops.backup.borg import ACCEPT_LOST
    from rigops.backup.engine import MOVED, PRUNE_MOST
    from rigops.hosts import backups
    from rigops.hosts.engines import ask_engines
    from rigops.report.host_rows import backup_rows
    from rigops.report.snapshots import backup_lines, drill_lines, heal_lines

    consents = ((MOVED, moved), (ACCEPT_LOST, accept_lost), (PRUNE_MOST, prune_most))
    options = engine_options(access(), engine, (name for name, is_given in consents if is_given))
    work: Callable[[Chosen, Engines], HostAnswer] = partial(backups.back_up, dry_run=dry_run)
    doing, lines = "backing up", partial(backup_lines, dry_run=dry_run)
    if drill:
        work, doing, lines = backups.drill, "trying the backup", partial(drill_lines)
    if heal:
        work, doing, lines = partial(backups.heal, confirmed=yes), "healing", partial(heal_lines)
    is_change = yes if heal else not dry_run
    command = "drill" if drill else "heal" if heal else "backup"
    options = replace(options, command=command if is_change else "")
    answers = ask_engines(chosen, options, doing, work, Terminal(), is_change=is_change)
    code = print_answers(
        answers, lambda answer, width: lines(answer.host, answer.value, width), as_json=as_json
    )
    if not as_json:
        print_closing(backup_rows(answers), called_again(inventory_path))
    return code
