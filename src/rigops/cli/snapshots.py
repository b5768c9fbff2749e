"""The command that shows which snapshots hosts have."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from rigops.cli.engine_answers import engine_options, print_answers
from rigops.cli.hosts import AskAccess, choose_hosts, host_options
from rigops.cli.options import engine_option, host_arguments, is_verbose, read_inventory
from rigops.cli.terminal import Terminal
from rigops.errors import Problem, RigopsError, usage_error
from rigops.hosts.access import Chosen, HostAccess
from rigops.report.terminal import print_text
from rigops.transport import Target

if TYPE_CHECKING:
    from rigops.backup.engines import Engines
    from rigops.hosts.engines import HostAnswer

_READ_S: Final = 30.0


@click.command("snapshots")
@host_arguments("[HOST]…")
@click.option("--no-sizes", is_flag=True, help="Do not measure sizes, which can take 20 s.")
@click.option(
    "--target-setup",
    "is_setup",
    is_flag=True,
    help="Print what the server of send_to needs: pipe it into a shell there.",
)
@engine_option
@host_options
def command(
    *,
    hosts: tuple[str, ...],
    inventory_path: Path | None,
    no_sizes: bool,
    is_setup: bool,
    engine: str | None,
    access: AskAccess,
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
        if len(hosts) != 1:
            raise usage_error(message="--target-setup takes one HOST", key="HOST")
        print_text(_target_setup(hosts[0], inventory_path, access()))
        return 0
    chosen = choose_hosts(hosts, inventory_path)
    from rigops.hosts.backups import list_copies
    from rigops.hosts.engines import ask_engines
    from rigops.report.snapshots import snapshots_lines

    def work(host: Chosen, engines: Engines) -> HostAnswer:
        return list_copies(host, engines, sizes=not no_sizes, engine=engine or "")

    def lines(answer: HostAnswer, width: int) -> Iterable[str]:
        return snapshots_lines(
            answer.host, answer.status, answer.value, now, width, verbose=is_verbose()
        )

    options = engine_options(access(), engine)
    answers = ask_engines(chosen, options, "reading snapshots", work, Terminal())
    now = datetime.now().astimezone()
    return print_answers(answers, lines, as_json=as_json, between=("",))


def _target_setup(name: str, inventory_path: Path | None, access: HostAccess) -> str:
    """For the shell of the server that the host's snapshots are sent to: it lets its key in."""
    from rigops.concerns.snapshots.decide import is_remote, server_path, target_setup
    from rigops.concerns.snapshots.record import PUBLIC_KEY
    from rigops.hostside.packing import pack

    host = read_inventory(inventory_path).require(name)
    send_to = host.spec.snapshots.send_to if host.spec.snapshots else None
    if send_to is None or not is_remote(send_to):
        raise usage_error(
            message="the snapshots of this host are not sent to a server",
            host=name,
            key="snapshots",
            fix='declare "send_to": "root@server:/path" in it',
        )
    with access.open(Target.from_host_data(name, host.data)) as (connection, privilege):
        done = connection.run(["cat", PUBLIC_KEY], privilege=privilege, deadline_s=_READ_S)
    key = done.stdout.decode(errors="replace").strip()
    if done.exit_code != 0 or len(key.split()) < 2:  # noqa: PLR2004 - its kind and the key
        raise RigopsError(
            Problem(
                message=f"{PUBLIC_KEY} cannot be read there",
                host=name,
                fix=f"rigops apply --limit {name} makes the key; log in as root, or allow sudo",
            )
        )
    return target_setup(key, server_path(send_to)[1], pack("snapshots").text)
