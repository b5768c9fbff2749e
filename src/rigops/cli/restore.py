"""The command that brings files, trees and subvolumes back."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from functools import partial
from pathlib import Path

import click

from rigops.cli.engine_answers import engine_options, print_answers
from rigops.cli.failure import EXIT_DECLINED
from rigops.cli.hosts import AskAccess, choose_host, host_options
from rigops.cli.options import engine_option, inventory_option
from rigops.cli.output import has_terminal, print_declined
from rigops.cli.terminal import Terminal
from rigops.errors import usage_error


@click.command("restore")
@click.argument("host")
@click.argument("path")
@inventory_option
@click.option(
    "--at",
    "when",
    default="",
    metavar="WHEN",
    help="As it was then, by this machine's clock: yesterday, 2026-11-24, 2026-11-24T18:30, 3d "
    "(ago), or a name [default: the newest that has PATH].",
)
@click.option("--place", default="", help="Only from there: local, or a target's name.")
@click.option("--to", default="", metavar="DIR", help="Put it into DIR on the host.")
@click.option("--in-place", is_flag=True, help="Replace PATH; the present one is moved aside.")
@click.option("--dry-run", is_flag=True, help="Show what would be restored; change nothing.")
@click.option("--yes", is_flag=True, help="Do not ask before replacing PATH.")
@engine_option
@host_options
def command(
    *,
    host: str,
    path: str,
    inventory_path: Path | None,
    when: str,
    place: str,
    to: str,
    in_place: bool,
    dry_run: bool,
    yes: bool,
    engine: str | None,
    access: AskAccess,
    as_json: bool,
) -> int:
    """Bring back PATH of HOST: a file, a directory or a whole subvolume.

    Takes the newest snapshot or backup that has it, and says from where it is. Puts it back where
    it was; where something is there, beside that, as PATH.restored-TIME. Ownership, modes, ACLs,
    extended attributes, hard links and sparse files stay as they were. Ctrl-C leaves nothing half
    made.

    \b
    Examples:
      rigops restore threadripper /home/me/thesis.tex
      rigops restore threadripper /home/me/thesis --at yesterday --to /tmp/old
      rigops restore threadripper /home --in-place     all of it, also onto a new disk
    """
    if to and in_place:
        raise usage_error(message="choose --to or --in-place", key="--to", value=to)
    for key, value in (("PATH", path), ("--to", to)):
        if value and not value.startswith("/"):
            raise usage_error(
                message="not an absolute path", key=key, value=value, fix="begin it with /"
            )
    from rigops.backup.engine import RestoreRequest
    from rigops.backup.engines import exactly
    from rigops.backup.when import parse_when
    from rigops.hosts.backups import restore
    from rigops.hosts.engines import ask_engines
    from rigops.report.snapshots import question_text, restored_lines

    terminal, at = Terminal(), parse_when(when, datetime.now().astimezone())
    request = RestoreRequest(path=path, at=at, place=place, to=to, in_place=in_place)
    if in_place and not (yes or dry_run or has_terminal()):
        print_declined("no terminal to confirm on", "pass --yes, or leave --in-place out")
        return EXIT_DECLINED
    chosen = (choose_host(host, inventory_path),)
    options = engine_options(access(), engine or ("btrfs" if place else ""))
    if in_place and not (yes or dry_run):
        work = partial(restore, request=request, dry_run=True)
        (planned,) = ask_engines(chosen, options, "looking for it", work, terminal)
        if planned.error is None:
            if not click.confirm(question_text(host, planned.value), err=True):
                print_declined("nothing was changed")
                return EXIT_DECLINED
            request = exactly(request, planned.value)
            options = replace(options, engine=planned.value["engine"])
    options = replace(options, command="" if dry_run else "restore")
    work = partial(restore, request=request, dry_run=dry_run)
    answers = ask_engines(chosen, options, "restoring", work, terminal, is_change=not dry_run)
    return print_answers(
        answers,
        lambda answer, width: restored_lines(
            answer.host,
            answer.value,
            width,
            dry_run=dry_run,
            is_beside=not (to or in_place),
        ),
        as_json=as_json,
    )
