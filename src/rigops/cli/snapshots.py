"""The command that shows which snapshots hosts have."""

from __future__ import annotations

from datetime import datetime
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
from rigops.report.terminal import print_lines, print_text

if TYPE_CHECKING:
    from rigops.backup.engines import Engines
    from rigops.cli.backup_hosts import HostAnswer
    from rigops.cli.hosts import Chosen


@click.command("snapshots")
@click.argument("hosts", nargs=-1, metavar="[HOST]…")
@inventory_option
@click.option("--no-sizes", is_flag=True, help="Do not measure sizes, which can take 20 s.")
@click.option(
    "--target-setup",
    "is_setup",
    is_flag=True,
    help="Print what the server of send_to needs: pipe it into a shell there.",
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
    no_sizes: bool,
    is_setup: bool,
    engine: str | None,
    asks_sudo_password: bool,
    accepted_keys: tuple[str, ...],
    as_json: bool,
) -> int:
    """Show which snapshots and backups exist where, why each stays, and which go next.

    Size is what removing a snapshot would free. Times are those of this machine; give them to
    `rigops restore --at`. A target that is absent is no error. With -v, names and all places.

    \b
    Examples:
      rigops snapshots threadripper
      rigops snapshots --json
      rigops snapshots threadripper --target-setup | ssh root@nas sh
    """
    if is_setup:
        from rigops.cli.target_setup import setup_script

        if len(hosts) != 1:
            raise usage_error(message="--target-setup takes one HOST", key="HOST")
        password = sudo_password(asked=asks_sudo_password)
        policy = host_key_policy(accepted_keys)
        print_text(setup_script(hosts[0], inventory_path, policy, password))
        return 0
    chosen = choose_hosts(hosts, inventory_path)
    from rigops.backup.engine import judge_snapshots
    from rigops.cli.backup_hosts import HostAnswer, Reach, ask_engines, document, exit_code
    from rigops.report.snapshots import failure_lines, snapshots_lines

    def work(host: Chosen, engines: Engines) -> HostAnswer:
        found = engines.list(sizes=not no_sizes)
        status = judge_snapshots(found)
        return HostAnswer(host=host.name, status=status, done=found.raw, value=found)

    reach = Reach(
        policy=host_key_policy(accepted_keys),
        sudo_password=sudo_password(asked=asks_sudo_password),
        verbose=is_verbose(),
        engine=engine or "",
    )
    answers = ask_engines(chosen, reach, "reading snapshots", work)
    if as_json:
        print_json(document(answers))
        return exit_code(answers)
    now, width = datetime.now().astimezone(), text_width()
    for number, one in enumerate(answers):
        if number:
            print_lines("")
        if one.error:
            print_lines(*failure_lines(one.host, one.error, width))
        else:
            print_lines(
                *snapshots_lines(one.host, one.status, one.value, now, width, verbose=is_verbose())
            )
    return exit_code(answers)
