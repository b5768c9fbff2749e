"""The command that proves peer-to-peer between the GPUs of a host."""

from __future__ import annotations

import sys
from shutil import get_terminal_size
from typing import TYPE_CHECKING

import click

from rigops.cli.fleet import for_each
from rigops.cli.hosts import accept_host_key_option, choose_hosts, host_key_policy
from rigops.cli.options import common, inventory_option, json_option
from rigops.cli.output import print_json
from rigops.preflight.document import HostError, HostFound, document, overall
from rigops.preflight.run import LEVELS, prove
from rigops.preflight.verdict import UNKNOWN, exit_code
from rigops.report.preflight import preflight_text
from rigops.transport import TransportError, connect

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from rigops.cli.hosts import Chosen
    from rigops.transport import Connection, HostKeyPolicy

WIDEST = 100
EXIT_DECLINED = 130
_QUESTION = (
    "Copies between GPUs can lock up a machine whose P2P is broken, so that only a reset helps.\n"
    "Try them on {}?"
)


@click.command("preflight")
@click.argument("hosts", nargs=-1, metavar="[HOST]…")
@inventory_option
@click.option(
    "--level",
    type=click.Choice(LEVELS),
    default="p2p",
    show_default=True,
    help="quick: only what the driver grants. p2p: copies too, checked byte by byte.",
)
@click.option("--yes", is_flag=True, help="Do not ask before copies are tried.")
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
    """Prove that the GPUs of each HOST can copy to each other, or tell how they fail.

    HOST is a name of the inventory, an ssh alias or user@host:port; without one, every host of the
    inventory. Needs only the driver and python3 there, runs as the login user, leaves nothing.

    \b
    Examples:
      rigops preflight threadripper
      rigops preflight --level quick
      rigops preflight -i inventory.py --yes --json
    """
    policy = host_key_policy(accepted_keys)
    chosen = choose_hosts(hosts, inventory_path, without_words="inventory")
    if level != "quick" and not yes and not _agreed(chosen):
        return EXIT_DECLINED
    found = _prove_all(chosen, policy, level)
    if as_json:
        print_json(document(found))
    else:
        click.echo(preflight_text(found, min(get_terminal_size().columns, WIDEST)))
    return exit_code(overall(found))


def _agreed(chosen: Sequence[Chosen]) -> bool:
    if not _on_terminal():
        click.echo(
            "Declined: nobody is here to agree to copies, which can lock up a machine whose P2P is "
            "broken.\n    cure: --yes, or --level quick, which copies nothing",
            err=True,
        )
        return False
    names = ", ".join(host.name for host in chosen)
    return click.confirm(_QUESTION.format(names), err=True)


def _on_terminal() -> bool:
    return sys.stdin.isatty() and sys.stderr.isatty()


def _prove_all(chosen: Sequence[Chosen], policy: HostKeyPolicy, level: str) -> list[HostFound]:
    return for_each(chosen, lambda host: _prove(host, policy, level))


def _prove(chosen: Chosen, policy: HostKeyPolicy, level: str) -> HostFound:
    def reach() -> Connection:
        return connect(chosen.target, host_keys=policy)

    def progress(text: str) -> None:
        click.echo(f"{chosen.name}: {text}", err=True)

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
