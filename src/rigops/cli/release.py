"""The command that takes rigops off a host."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from rigops.cli.converging import (
    EXIT_DECLINED,
    EXIT_INTERRUPTED,
    consent_options,
    converging,
    host_options,
    reboots,
    report,
)
from rigops.cli.hosts import choose_hosts
from rigops.cli.options import inventory_option
from rigops.cli.taking_back import take_back
from rigops.converge.agreement import Agreement
from rigops.converge.concerns import Selection
from rigops.converge.result import exit_code
from rigops.converge.wanted import Wanted
from rigops.record import journal
from rigops.spec import RigSpec

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from rigops.converge.run import Apply

_WORDS = {
    "converged": "is released: nothing of rigops was there",
    "changed": "is released: what rigops did there is undone, and the host forgotten",
    "reboot_owed": "is undone but for a reboot, and not forgotten yet: run this again after it",
}


@click.command("release")
@click.argument("hosts", nargs=-1, required=True, metavar="HOST…")
@inventory_option
@consent_options(
    reboot_help="Where what was undone needs one; without it the host is not forgotten yet."
)
@host_options
def command(
    *,
    hosts: tuple[str, ...],
    inventory_path: Path | None,
    yes: bool,
    reboot: str,
    allow_busy: bool,
    asks_sudo_password: bool,
    accepted_keys: tuple[str, ...],
    as_json: bool,
) -> int:
    """Undo everything that rigops owns on each HOST, and forget the host.

    Shows what goes, asks, and takes it back: what was there before rigops came is put in place
    again. What somebody changed since is left alone and named. The journal of the host is kept on
    this machine.

    \b
    Examples:
      rigops release threadripper
      rigops release old-rig --yes --reboot auto
    """
    chosen = choose_hosts(hosts, inventory_path, without_words="inventory")
    with converging(
        "releasing",
        [Wanted(host.name, host.target, {}, RigSpec()) for host in chosen],
        Selection(),
        inventory_digest="",
        accepted_keys=accepted_keys,
        asks_sudo_password=asks_sudo_password,
        allow_busy=allow_busy,
    ) as (run, progress):
        ending = take_back(
            run,
            progress,
            question=lambda: _question(run),
            yes=yes,
            agreement=lambda: Agreement(
                removals=True, reboots=reboots(run, reboot), busy=allow_busy, preflight="never"
            ),
            then=lambda: _forget(run),
        )
    if ending.is_declined:
        if as_json:
            report(run.results, as_json=True)
        return EXIT_DECLINED
    report(run.results, as_json=as_json, words=_WORDS, told=ending.told)
    return EXIT_INTERRUPTED if ending.is_interrupted else exit_code(run.results)


def _question(run: Apply) -> str:
    names = ", ".join(one.host for one in run.results if one.error is None)
    return f"Take all of this back, and forget {names}?" if names else ""


def _forget(run: Apply) -> None:
    for host, lines in run.forget().items():
        _keep(host, lines)


def _keep(host: str, lines: Sequence[bytes]) -> None:
    """What the host remembered and this machine does not."""
    known = {(run.at, run.inventory_digest) for run in journal.read(host=host).runs}
    for run in reversed(journal.parse(lines).runs):
        if (run.at, run.inventory_digest) not in known:
            journal.append(run)
