"""The command that proves peer-to-peer between the GPUs of a host."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from rigops.cli.hosts import accept_host_key_option, choose_hosts, for_each, host_key_policy
from rigops.cli.options import common, inventory_option, json_option
from rigops.cli.output import has_terminal, print_json, text_width
from rigops.errors import HostError
from rigops.hostside.p2p.verdict import UNKNOWN, exit_code
from rigops.preflight.document import HostFound, document, overall
from rigops.preflight.run import LEVELS, prove
from rigops.report.preflight import preflight_lines
from rigops.report.terminal import print_lines, visible
from rigops.transport import TransportError, connect

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from rigops.cli.hosts import Chosen
    from rigops.transport import Connection, HostKeyPolicy

EXIT_DECLINED = 130
_QUESTION = (
    "Copies between GPUs can lock up a machine with broken P2P until it is reset.\nTry them on {}?"
)


@click.command("preflight")
@click.argument("hosts", nargs=-1, metavar="[HOST]…")
@inventory_option
@click.option(
    "--level",
    type=click.Choice(LEVELS),
    default="p2p",
    show_default=True,
    help="quick: query the driver only. p2p: also copy, and check every byte.",
)
@click.option("--yes", is_flag=True, help="Do not ask before copying.")
@accept_host_key_option
@json_option
@common
def command(
    *,
    hosts: tuple[str, ...],
    inventory_path: Path | None,
    level: str,
    yes: bool,
    accepted_keys: tuple[str, ...],
    as_json: bool,
) -> int:
    """Test copies between every pair of GPUs.

    HOST is an inventory name, an ssh alias or user@host:port. Without HOST: every host of the
    inventory. Needs the driver and python3 on the host, runs as the login user, leaves no files.

    \b
    Examples:
      rigops preflight threadripper
      rigops preflight --level quick
      rigops preflight -i inventory.py --yes --json
    """
    policy = host_key_policy(accepted_keys)
    chosen = choose_hosts(hosts, inventory_path, without_words="inventory")
    if level != "quick" and not yes and not _confirmed(chosen):
        return EXIT_DECLINED
    found = for_each(chosen, lambda host: _prove(host, policy, level))
    if as_json:
        print_json(document(found))
    else:
        print_lines(*preflight_lines(found, text_width()))
    return exit_code(overall(found))


def _confirmed(chosen: Sequence[Chosen]) -> bool:
    if not has_terminal():
        print_lines(
            "Declined: no terminal to confirm on. Copies can lock up a machine with broken P2P.",
            "    fix: pass --yes, or --level quick to copy nothing",
            err=True,
        )
        return False
    names = ", ".join(host.name for host in chosen)
    return click.confirm(_QUESTION.format(visible(names)), err=True)


def _prove(chosen: Chosen, policy: HostKeyPolicy, level: str) -> HostFound:
    def reach() -> Connection:
        return connect(chosen.target, host_keys=policy)

    def progress(text: str) -> None:
        print_lines(f"{chosen.name}: {text}", err=True)

    try:
        with reach() as connection:
            return prove(
                chosen.name,
                connection,
                chosen.spec,
                level=level,
                reconnect=reach,
                progress=progress,
            )
    except TransportError as error:
        return HostFound(host=chosen.name, status=UNKNOWN, error=HostError(error.kind, str(error)))
