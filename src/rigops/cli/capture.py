"""The command that captures hosts, and says whether their disks may be wiped."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from rigops.cli.hosts import (
    AskAccess,
    choose_hosts,
    host_catalog,
    host_options,
    locked_hosts,
    read_catalogs,
)
from rigops.cli.options import host_arguments, is_verbose
from rigops.cli.output import print_json, text_width
from rigops.cli.terminal import Terminal
from rigops.errors import usage_error
from rigops.hosts.access import Chosen
from rigops.report.terminal import print_lines, print_text

if TYPE_CHECKING:
    from rigops.capture.document import Capture, NotCaptured


@click.command("capture")
@host_arguments("HOST…", required=True)
@click.option(
    "--max-age",
    "most_days",
    type=click.IntRange(min=1),
    default=2,
    show_default=True,
    metavar="DAYS",
    help="How old the newest backup, and its last check or drill, may be.",
)
@click.option(
    "--accept-no-driver",
    is_flag=True,
    help="Safe also where a driver runs and none is declared: a reinstall brings none.",
)
@click.option(
    "--snippet",
    type=click.Choice(["nixos", "arch"]),
    help="Print what the tools of this distribution need to make the same machine, and end.",
)
@click.option(
    "--yes", is_flag=True, help="Run passphrase_command, and try its passphrase, without asking."
)
@host_options
def command(
    *,
    hosts: tuple[str, ...],
    inventory_path: Path | None,
    most_days: int,
    accept_no_driver: bool,
    snippet: str | None,
    yes: bool,
    access: AskAccess,
    as_json: bool,
) -> int:
    """Capture HOST before a reinstall; say whether its disk is safe to wipe, or what is missing.

    Nothing on the host is changed. Facts for a reinstall, and all that was collected, are
    stored in the vault of this machine, for you alone to read. The passphrase of borg's repository
    is tried as this machine has it, by the host's borg: it goes there by a pipe, and is stored
    nowhere. Not safe: exit 1. Whether it is safe is unknown: exit 3.

    \b
    Examples:
      rigops capture threadripper
      rigops capture threadripper -v              every requirement, with evidence
      rigops capture threadripper --yes --json    for a script
      rigops backup threadripper --drill          what is most often missing
      rigops capture threadripper --snippet nixos
    """
    chosen = choose_hosts(hosts, inventory_path)
    for one in chosen:
        if one.spec is None:
            raise usage_error(
                message="not in the inventory: what it should be again is unknown",
                key="HOST",
                value=one.name,
                fix="name the inventory with -i, or run rigops init",
            )
    read_catalogs(one.spec for one in chosen)
    locked = locked_hosts(chosen, inventory_path)
    from rigops.capture.document import document, exit_code, overall
    from rigops.capture.flow import CaptureOptions, capture_hosts
    from rigops.report.capture import capture_lines

    if snippet and as_json:
        raise usage_error(message="a snippet is no JSON", key="--snippet", fix="leave --json out")
    found = capture_hosts(
        chosen,
        CaptureOptions(
            access=access(),
            catalog=host_catalog,
            locked=locked,
            most_days=most_days,
            is_confirmed=yes,
            accepts_no_driver=accept_no_driver,
            is_snippet=snippet is not None,
        ),
        Terminal(),
    )
    if snippet:
        return _print_snippets(snippet, chosen, found)
    if as_json:
        print_json(document(found))
        return exit_code(overall(found))
    for number, captured in enumerate(found):
        if number:
            print_lines("")
        print_lines(*capture_lines(captured, text_width(), verbose=is_verbose()))
    return exit_code(overall(found))


def _print_snippets(
    kind: str, chosen: Sequence[Chosen], found: Sequence[Capture | NotCaptured]
) -> int:
    from rigops.capture.document import Capture
    from rigops.capture.snippet import snippet
    from rigops.report.capture import capture_lines

    code = 0
    for host, one in zip(chosen, found, strict=True):
        if isinstance(one, Capture) and host.spec is not None:
            print_text(snippet(kind, one, host.spec))
        else:
            print_lines(*capture_lines(one, text_width(), verbose=False), err=True)
            code = 3
    return code
