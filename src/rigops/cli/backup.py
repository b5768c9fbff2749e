"""The command that takes a backup now."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from rigops.cli.hosts import (
    accept_host_key_option,
    ask_sudo_password_option,
    choose_hosts,
    host_key_policy,
    sudo_password,
)
from rigops.cli.options import common, engine_option, inventory_option, is_verbose, json_option
from rigops.cli.output import print_json, text_width
from rigops.errors import usage_error
from rigops.report.terminal import print_lines

if TYPE_CHECKING:
    from collections.abc import Callable

    from rigops.backup.engines import Engines
    from rigops.cli.backup_hosts import HostAnswer
    from rigops.cli.hosts import Chosen


@click.command("backup")
@click.argument("hosts", nargs=-1, metavar="HOST…", required=True)
@inventory_option
@click.option("--dry-run", is_flag=True, help="Show what would be done; change nothing.")
@click.option(
    "--drill", is_flag=True, help="Restore a sample of the newest backup, and compare it."
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
@ask_sudo_password_option
@accept_host_key_option
@json_option
@common
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
    asks_sudo_password: bool,
    accepted_keys: tuple[str, ...],
    as_json: bool,
) -> int:
    """Take snapshots of HOST now, prune old ones, send what the target lacks, and run borg.

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
    from rigops.cli.backup_hosts import Reach, ask_engines, document, exit_code
    from rigops.report.snapshots import backup_lines, drill_lines, failure_lines, heal_lines

    consents = ((MOVED, moved), (ACCEPT_LOST, accept_lost), (PRUNE_MOST, prune_most))
    reach = Reach(
        policy=host_key_policy(accepted_keys),
        sudo_password=sudo_password(asked=asks_sudo_password),
        verbose=is_verbose(),
        engine=engine or "",
        consents=frozenset(name for name, is_given in consents if is_given),
    )
    work: Callable[[Chosen, Engines], HostAnswer] = partial(_back_up, dry_run=dry_run)
    doing, lines = "backing up", partial(backup_lines, dry_run=dry_run)
    if drill:
        work, doing, lines = _drill, "trying the backup", partial(drill_lines)
    if heal:
        work, doing, lines = partial(_heal, confirmed=yes), "healing", partial(heal_lines)
    is_change = yes if heal else not dry_run
    answers = ask_engines(chosen, reach, doing, work, is_change=is_change)
    if as_json:
        print_json(document(answers))
        return exit_code(answers)
    width = text_width()
    for one in answers:
        if one.error:
            print_lines(*failure_lines(one.host, one.error, width))
        else:
            print_lines(*lines(one.host, one.value, width))
    return exit_code(answers)


def _back_up(host: Chosen, engines: Engines, *, dry_run: bool) -> HostAnswer:
    from rigops.cli.backup_hosts import HostAnswer
    from rigops.cli.borg_key import key_exported

    done = engines.backup(dry_run=dry_run)
    if not dry_run:
        done = key_exported(host, engines, done)
    status = "fail" if done.get("errors") else "ok"
    shown = {"backup": dict(done), "dry_run": dry_run}
    return HostAnswer(host=host.name, status=status, done=shown, value=done)


def _drill(host: Chosen, engines: Engines) -> HostAnswer:
    from rigops.cli.backup_hosts import HostAnswer

    done = engines.drill()
    status = "ok" if done.get("result") == "ok" else "fail"
    return HostAnswer(host=host.name, status=status, done={"drill": dict(done)}, value=done)


def _heal(host: Chosen, engines: Engines, *, confirmed: bool) -> HostAnswer:
    from rigops.cli.backup_hosts import HostAnswer

    done = engines.heal(confirmed=confirmed)
    status = "warn" if done.get("to_heal") else "ok"
    return HostAnswer(host=host.name, status=status, done={"heal": dict(done)}, value=done)
