"""The command that proves peer-to-peer between the GPUs of a host."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from rigops.cli.hosts import (
    accept_host_key_option,
    choose_hosts,
    host_catalog,
    host_key_policy,
    read_catalogs,
)
from rigops.cli.options import common, inventory_option, json_option, words
from rigops.cli.output import has_terminal, print_json, text_width, warn
from rigops.cli.progress import Progress
from rigops.dataclass import dataclass
from rigops.errors import HostError, RigopsError, UsageError, usage_error
from rigops.hosts.access import HostAccess
from rigops.hosts.parallel import for_each
from rigops.hostside.p2p.verdict import SKIPPED, UNKNOWN, exit_code
from rigops.preflight.chosen_pairs import parse_pairs
from rigops.preflight.document import document
from rigops.preflight.found import HostFound, overall
from rigops.preflight.results import begun, failure, only_over, pairs_of, passed
from rigops.preflight.run import LEVELS, prove
from rigops.preflight.siblings import last_rates
from rigops.probe.sections.rigops_state import STATE
from rigops.record import journal
from rigops.record.journal import Preflight, Run
from rigops.record.proof_shell import recording
from rigops.report.preflight import preflight_lines
from rigops.report.preflight_env import environment_lines
from rigops.report.terminal import print_lines, print_text, visible
from rigops.transport import TransportError, connect
from rigops.transport.errors import clean
from rigops.transport.privilege import WITHOUT_PASSWORD

if TYPE_CHECKING:
    from rigops.hosts.chosen import Chosen
    from rigops.preflight.found import PairFound
    from rigops.preflight.siblings import LastRates
    from rigops.record.failed_proof import FailedProof
    from rigops.transport import Connection

EXIT_DECLINED = 130
_RECORD_S: Final = 60.0
_WHERE_MANAGED: Final = f'test -d {STATE} || exit 0; exec "$@"'
_QUESTION = (
    "Copies between GPUs can lock up a machine with broken P2P until it is reset.\nTry them on {}?"
)


@dataclass(frozen=True)
class _Asked:
    level: str
    pairs: tuple[tuple[str, str], ...]
    inventory: Path | None


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
@click.option(
    "--pairs",
    "pair_words",
    multiple=True,
    callback=words,
    metavar="A:B",
    help="Try only these, by PCI address or number (repeatable). No proof of the host.",
)
@click.option("--yes", is_flag=True, help="Do not ask before copying.")
@click.option(
    "--env",
    "as_environment",
    is_flag=True,
    help="Print what to set for NCCL and vLLM, as lines for a shell.",
)
@accept_host_key_option
@json_option
@common
def command(
    *,
    hosts: tuple[str, ...],
    inventory_path: Path | None,
    level: str,
    pair_words: tuple[str, ...],
    yes: bool,
    as_environment: bool,
    accepted_keys: tuple[str, ...],
    as_json: bool,
) -> int:
    """Test copies between every pair of GPUs.

    HOST is an inventory name, an ssh alias or user@host:port. Without HOST: every host of the
    inventory. Needs the driver and python3 on the host and runs as the login user. Where rigops
    keeps records on the host, a failure revokes the proof there until a preflight has passed.

    \b
    Examples:
      rigops preflight threadripper
      rigops preflight --level quick
      rigops preflight threadripper --pairs 0:2,1:2
      eval "$(rigops preflight @local --yes --env)"
      rigops preflight -i inventory.py --yes --json
    """
    asked = _Asked(level, parse_pairs(pair_words), inventory_path)
    chosen = choose_hosts(hosts, inventory_path)
    read_catalogs((host.spec for host in chosen), inventory_path)
    if asked.pairs and len(chosen) != 1:
        raise _several_hosts("--pairs", chosen)
    if as_environment and asked.pairs:
        raise usage_error(
            message="what to set follows from all pairs",
            key="--env",
            fix="leave out --pairs",
        )
    if as_environment and not as_json and len(chosen) != 1:
        raise _several_hosts("--env", chosen)
    if level != "quick" and not yes and not _confirmed(chosen):
        return EXIT_DECLINED
    with Progress("connecting") as progress:
        access = HostAccess(host_key_policy(accepted_keys)).asking(progress.silent)
        found = for_each(chosen, lambda host: _prove(host, access, asked, progress))
    if as_json:
        print_json(document(found))
    elif as_environment:
        print_text("\n".join(environment_lines(found[0])))
    else:
        print_lines(*preflight_lines(found, text_width()))
    return exit_code(overall(found))


def _last_rates(host: str) -> LastRates | None:
    """Of this machine's records."""
    with suppress(RigopsError):
        return last_rates(journal.read(host=host).runs)
    return None


def _several_hosts(option: str, chosen: Sequence[Chosen]) -> UsageError:
    return usage_error(
        message=f"takes one host, and {len(chosen)} are chosen", key=option, fix="name one host"
    )


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


def _prove(
    chosen: Chosen,
    access: HostAccess,
    asked: _Asked,
    progress: Progress,
) -> HostFound:
    level = asked.level
    started, began = journal.now(), time.monotonic()
    recorded: list[FailedProof] = []
    progress.begin(chosen.name)

    def reach() -> Connection:
        return connect(chosen.target, host_keys=access.host_keys)

    def begin(at_stake: Sequence[PairFound]) -> None:
        recorded.append(begun(at_stake, started, {}))
        _warn(_record_there(chosen.name, connection, recording(failed=recorded[0])), progress)

    try:
        with reach() as connection:
            found = prove(
                chosen.name,
                connection,
                chosen.spec,
                level=level,
                pairs=asked.pairs,
                last=_last_rates(chosen.name),
                catalog=host_catalog(chosen.spec, asked.inventory),
                reconnect=reach,
                progress=partial(progress.say, chosen.name),
                before_copies=begin,
            )
            found = replace(found, at=started)
            if level != "quick" and found.status != SKIPPED:
                seconds = round(time.monotonic() - began, 3)
                run = _run_of(found, started, seconds)
                begun_now = recorded[0] if recorded else None
                _warn(_record(run, found, begun_now, connection, reach), progress)
            return found
    except TransportError as error:
        why = HostError(error.kind, str(error))
        return HostFound(host=chosen.name, status=UNKNOWN, at=started, error=why)
    finally:
        progress.say(chosen.name, "")


def _warn(troubles: Sequence[str], progress: Progress) -> None:
    if troubles:
        with progress.silent():
            warn(troubles)


def _run_of(found: HostFound, at: str, seconds: float) -> Run:
    return Run(
        host=found.host,
        at=at,
        inventory_digest="",
        outcome="proven" if passed(found) else "not_proven",
        seconds=seconds,
        versions={},
        preflight=Preflight(found.status, found.level or "", pairs_of(found)),
        command="preflight",
    )


def _record(
    run: Run,
    found: HostFound,
    begun_now: FailedProof | None,
    connection: Connection,
    reach: Callable[[], Connection],
) -> Sequence[str]:
    """Here, and on a host that rigops keeps records on. Gives what could not be recorded."""
    command = recording(
        json.dumps(run.as_json()),
        failed=failure(found, run.at, run.versions),
        only_over=only_over(found, begun_now),
        has_passed=passed(found),
    )
    try:
        journal.append(run)
        if found.error is None:
            return _record_there(run.host, connection, command)
        with reach() as again:
            return _record_there(run.host, again, command)
    except RigopsError as error:
        return [f"{run.host}: the result is not recorded everywhere: {error}"]


def _record_there(host: str, connection: Connection, command: Sequence[str]) -> Sequence[str]:
    words = ("sh", "-c", _WHERE_MANAGED, "rigops", *WITHOUT_PASSWORD.argv, *command)
    done = connection.run(words, deadline_s=_RECORD_S)
    if done.exit_code == 0:
        return []
    said = clean(done.stderr) or f"exit status {done.exit_code}"
    text = f"{host}: not recorded on the host ({said}), so doctor and apply know nothing of it"
    return [f"{text}: log in as root, or allow sudo without a password"]
