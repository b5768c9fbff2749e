"""The command that proves peer-to-peer between the GPUs of a host."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from rigops.cli.failure import EXIT_DECLINED
from rigops.cli.hosts import (
    accept_host_key_option,
    called_again,
    choose_hosts,
    host_catalog,
    host_key_policy,
    read_catalogs,
    several_hosts,
)
from rigops.cli.options import common, host_arguments, is_verbose, json_option, words
from rigops.cli.output import has_terminal, print_declined, print_json, text_width
from rigops.cli.page_file import html_option, write_page
from rigops.cli.terminal import Terminal
from rigops.errors import usage_error
from rigops.hosts.access import Chosen, HostAccess
from rigops.hosts.proving import ProofOptions, prove_hosts
from rigops.hostside.p2p.verdict import exit_code
from rigops.preflight.chosen_pairs import parse_pairs
from rigops.preflight.found import overall
from rigops.preflight.headline import document
from rigops.preflight.inside import check_name
from rigops.preflight.run import LEVELS
from rigops.report.closing import MOST_IN_FULL, closing_lines
from rigops.report.preflight import environment_lines, preflight_lines, preflight_rows
from rigops.report.terminal import print_lines, print_text, visible

_QUESTION = (
    "Copies between GPUs can lock up a machine with broken P2P until it is reset.\nTry them on {}?"
)


@click.command("preflight")
@host_arguments("[HOST]…")
@click.option(
    "--level",
    type=click.Choice(LEVELS),
    default="p2p",
    show_default=True,
    help="quick: query the driver only. p2p: also copy, and check every byte.",
)
@click.option(
    "--pairs",
    "pair_words",
    multiple=True,
    callback=words,
    metavar="A:B",
    help="Try only these, by PCI address or number (repeatable). No proof of the host.",
)
@click.option(
    "--in",
    "container",
    metavar="CONTAINER",
    help="Run in this container of the host (name or id), and compare. No proof of the host.",
)
@click.option("--yes", is_flag=True, help="Do not ask before copying.")
@click.option(
    "--env",
    "as_environment",
    is_flag=True,
    help="Print what to set for NCCL and vLLM, as lines for a shell.",
)
@html_option
@accept_host_key_option
@json_option
@common
def command(
    *,
    hosts: tuple[str, ...],
    inventory_path: Path | None,
    level: str,
    pair_words: tuple[str, ...],
    container: str | None,
    yes: bool,
    as_environment: bool,
    html_path: Path | None,
    accepted_keys: tuple[str, ...],
    as_json: bool,
) -> int:
    """Test copies between every pair of GPUs.

    HOST is a name, group or glob of the inventory, an ssh alias or user@host:port. Without HOST:
    every host of the inventory. Needs the driver and python3 on the host and runs as the login
    user. Where rigops keeps records on the host, a failure revokes the proof there until a
    preflight has passed.

    \b
    Examples:
      rigops preflight threadripper
      rigops preflight --level quick
      rigops preflight rig --html proof.html   also a page with a heat map of the rates
      rigops preflight threadripper --pairs 0:2,1:2
      rigops preflight threadripper --in vllm
      eval "$(rigops preflight @local --yes --env)"
      rigops preflight -i inventory.py --yes --json
    """
    asked = ProofOptions(
        access=HostAccess(host_key_policy(accepted_keys)),
        catalog=host_catalog,
        level=level,
        pairs=parse_pairs(pair_words),
        container=check_name(container) if container is not None else "",
    )
    chosen = choose_hosts(hosts, inventory_path)
    read_catalogs(host.spec for host in chosen)
    if asked.pairs and len(chosen) != 1:
        raise several_hosts("--pairs", chosen)
    if asked.container and len(chosen) != 1:
        raise several_hosts("--in", chosen)
    if as_environment and asked.pairs:
        raise usage_error(
            message="what to set follows from all pairs",
            key="--env",
            fix="leave out --pairs",
        )
    if as_environment and not as_json and len(chosen) != 1:
        raise several_hosts("--env", chosen)
    if level != "quick" and not yes and not _confirmed(chosen):
        return EXIT_DECLINED
    found = prove_hosts(chosen, asked, Terminal())
    if html_path is not None:
        from rigops.report.html.preflight import preflight_page

        write_page(html_path, preflight_page(found))
    if as_json:
        print_json(document(found))
    elif as_environment:
        print_text("\n".join(environment_lines(found[0])))
    else:
        width = text_width()
        is_brief = len(found) > MOST_IN_FULL and not is_verbose()
        print_lines(*preflight_lines(found, width, is_brief=is_brief))
        closing = closing_lines(preflight_rows(found), width, called_again(inventory_path))
        print_lines(*([""] if len(closing) > 1 and not is_brief else []), *closing)
    return exit_code(overall(found))


def _confirmed(chosen: Sequence[Chosen]) -> bool:
    if not has_terminal():
        print_declined(
            "no terminal to confirm on. Copies can lock up a machine with broken P2P",
            "pass --yes, or --level quick to copy nothing",
        )
        return False
    names = ", ".join(host.name for host in chosen)
    return click.confirm(_QUESTION.format(visible(names)), err=True)
