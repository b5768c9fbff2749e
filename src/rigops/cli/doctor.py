"""The command that examines hosts: it reads, and changes nothing."""

from __future__ import annotations

import logging
import time
from dataclasses import replace
from datetime import datetime, timezone
from functools import cache
from pathlib import Path
from shutil import get_terminal_size
from typing import TYPE_CHECKING

import click

from rigops.catalog import load
from rigops.cli.fleet import for_each
from rigops.cli.hosts import accept_host_key_option, choose_hosts, host_key_policy
from rigops.cli.options import common, default_inventory, inventory_option, json_option, words
from rigops.cli.output import print_json
from rigops.cli.progress import Progress
from rigops.doctor.host_report import HostError, HostReport, document
from rigops.doctor.judge import exit_code
from rigops.doctor.registry import CHECKS, examine
from rigops.doctor.summary import summary
from rigops.errors import Problem, RigopsError, UsageError
from rigops.probe import facts
from rigops.probe.collect import ProbeError, collect
from rigops.probe.script import script
from rigops.probe.sections import SECTIONS
from rigops.report.doctor import doctor_text
from rigops.spec.names import did_you_mean
from rigops.transport import TransportError, connect

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rigops.catalog import Catalog
    from rigops.cli.hosts import Chosen
    from rigops.doctor.check import Check
    from rigops.doctor.host_report import Source
    from rigops.probe.bundle import Bundle
    from rigops.transport import HostKeyPolicy, UnknownKey

log = logging.getLogger(__name__)

WIDEST = 100
REPORT_IT = "this is a fault of rigops: please report it, with what -v prints"


@click.command("doctor")
@click.argument("hosts", nargs=-1, metavar="[HOST]…")
@inventory_option
@click.option("--only", multiple=True, callback=words, metavar="ID", help="Only these checks.")
@click.option("--skip", multiple=True, callback=words, metavar="ID", help="All checks but these.")
@click.option("--strict", is_flag=True, help="Exit 1 for warnings too.")
@click.option("--no-root", is_flag=True, help="Do without sudo.")
@click.option("--explain", "explained", metavar="ID", help="Tell what a check looks at, and stop.")
@click.option("--print-probe", is_flag=True, help="Print the script that hosts run, and stop.")
@accept_host_key_option
@json_option
@common
def command(
    *,
    hosts: tuple[str, ...],
    inventory_path: Path | None,
    only: tuple[str, ...],
    skip: tuple[str, ...],
    strict: bool,
    no_root: bool,
    explained: str | None,
    print_probe: bool,
    accepted_keys: tuple[str, ...],
    as_json: bool,
) -> None:
    """Examine hosts and tell what is wrong with them, with the evidence and the way out.

    Each host runs one script, which changes nothing and leaves nothing behind. HOST is a name of
    the inventory, an alias of the ssh configuration, or user@host:port. Without HOST: this
    machine, or every host of an inventory that is named with -i.

    \b
    Examples:
      rigops doctor                     this machine
      rigops doctor me@192.168.1.20     a host that no inventory knows
      rigops doctor -i inventory.py     every host of the inventory
      rigops doctor --explain drv.pin   what a check looks at
    """
    if explained is not None:
        click.echo(_explanation(_check(explained, "--explain")))
    elif print_probe:
        click.echo(script(SECTIONS, root=not no_root), nl=False)
    else:
        checks = _chosen_checks(only, skip)
        chosen = choose_hosts(hosts, inventory_path, without_words="local")
        folder = (inventory_path or default_inventory()).parent
        # Before any host is asked: a broken catalogue is a fault of the command, not of a host.
        catalogs = [_catalog(_additions(one, folder)) for one in chosen]
        reports = _examine(
            list(zip(chosen, catalogs, strict=True)),
            checks=checks,
            root=not no_root,
            policy=host_key_policy(accepted_keys),
        )
        if as_json:
            print_json(document(reports))
        else:
            click.echo(doctor_text(reports, min(get_terminal_size().columns, WIDEST)))
        click.get_current_context().exit(
            exit_code((report.status for report in reports), strict=strict)
        )


def _examine(
    hosts: Sequence[tuple[Chosen, Catalog]],
    *,
    checks: Sequence[Check],
    root: bool,
    policy: HostKeyPolicy,
) -> list[HostReport]:
    with Progress("examining") as progress:
        careful = replace(policy, ask=_undisturbed(progress, policy.ask))

        def work(one: tuple[Chosen, Catalog]) -> HostReport:
            host, catalog = one
            progress.begin(host.name)
            report = _report(host, catalog, checks=checks, root=root, policy=careful)
            progress.end(host.name, report.status)
            return report

        try:
            return for_each(hosts, work)
        except KeyboardInterrupt:
            names = ", ".join(progress.unfinished)
            click.echo(f"\nNot examined to the end: {names}. Nothing was changed.", err=True)
            raise


def _undisturbed(
    progress: Progress, ask: Callable[[UnknownKey], bool] | None
) -> Callable[[UnknownKey], bool] | None:
    if ask is None:
        return None

    def asking(key: UnknownKey) -> bool:
        with progress.silent():
            return ask(key)

    return asking


def _report(
    host: Chosen, catalog: Catalog, *, checks: Sequence[Check], root: bool, policy: HostKeyPolicy
) -> HostReport:
    began, collected_at = time.monotonic(), _now()
    source: Source = "local" if host.target.local else "ssh"

    def report(bundle: Bundle | None, error: HostError | None) -> HostReport:
        known = facts.read(bundle) if bundle else None
        return HostReport(
            host=host.name,
            source=source,
            collected_at=collected_at if bundle else None,
            duration_ms=round((time.monotonic() - began) * 1000),
            facts=summary(known, catalog) if known else {},
            findings=tuple(examine(known, host.spec, catalog, checks=checks)) if known else (),
            error=error,
        )

    try:
        with connect(host.target, host_keys=policy) as connection:
            bundle = collect(
                connection, SECTIONS, host=host.name, root=root, collected_at=collected_at
            )
    except TransportError as error:
        return report(None, _host_error(error.kind, error))
    except ProbeError as error:
        return report(None, _host_error("auth", error))
    except UsageError:
        raise
    except Exception as error:  # whatever it is, it is this host's alone
        log.info("%s", host.name, exc_info=error)
        return report(None, HostError("fault", f"{type(error).__name__}: {error}", REPORT_IT))
    return report(bundle, None)


def _host_error(kind: str, error: RigopsError) -> HostError:
    return HostError(kind, str(error), " ".join(problem.cure for problem in error.problems))


def _now() -> str:
    return datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def _additions(host: Chosen, folder: Path) -> Path | None:
    named = host.spec.catalog if host.spec else None
    return folder / Path(named).expanduser() if named else None


@cache
def _catalog(additions: Path | None) -> Catalog:
    return load(additions)


def _chosen_checks(only: Sequence[str], skip: Sequence[str]) -> list[Check]:
    wanted = {_check(word, "--only").id for word in only}
    unwanted = {_check(word, "--skip").id for word in skip}
    return [
        check for check in CHECKS if (not wanted or check.id in wanted) and check.id not in unwanted
    ]


def _check(word: str, option: str) -> Check:
    for check in CHECKS:
        if check.id == word:
            return check
    ids = [check.id for check in CHECKS]
    raise UsageError(
        Problem(
            message="there is no such check",
            key=option,
            value=word,
            accepted=", ".join(ids),
            cure=did_you_mean(word, ids),
        )
    )


def _explanation(check: Check) -> str:
    width = min(get_terminal_size().columns, WIDEST)
    return f"{click.style(check.id, bold=True)}  {check.title}\n\n" + click.wrap_text(
        check.explanation, width, initial_indent="  ", subsequent_indent="  "
    )
