"""The command that brings hosts to what is declared."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from rigops.cli.converging import (
    EXIT_DECLINED,
    EXIT_INTERRUPTED,
    agreed,
    asks,
    chosen,
    consent_options,
    converging,
    failed,
    host_options,
    inventory_options,
    reboots,
    report,
    tell_proofs,
    write_lock,
)
from rigops.converge.agreement import Agreement
from rigops.converge.result import exit_code
from rigops.record import journal
from rigops.report.plan import plan_text
from rigops.report.words import plain

if TYPE_CHECKING:
    from pathlib import Path

    from rigops.converge.agreement import PreflightWhen
    from rigops.converge.result import HostResult
    from rigops.converge.run import Apply


@click.command("apply")
@inventory_options
@consent_options(reboot_help="ask without a terminal is never; never leaves the debt visible.")
@click.option(
    "--serial",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    help="How many hosts are rebooted at once, after the first has come through alone.",
)
@click.option(
    "--prune", is_flag=True, help="With --yes: take back what is no longer declared at all."
)
@click.option(
    "--accept-no-trial",
    is_flag=True,
    help="Make new kernel arguments permanent at once where no boot can try them first.",
)
@click.option(
    "--upgrade",
    is_flag=True,
    help="Take newer versions of what is declared, where an older one is installed.",
)
@click.option(
    "--remove-foreign-driver",
    is_flag=True,
    help="Let a driver that NVIDIA's own installer put there be uninstalled by it.",
)
@click.option(
    "--force-reboot-wedged",
    is_flag=True,
    help="Force a host down whose driver hangs, if it does not go down by itself.",
)
@click.option(
    "--preflight",
    type=click.Choice(("auto", "always", "never")),
    default="auto",
    show_default=True,
    help="Prove P2P afterwards; auto does it where the last proof no longer speaks for the host.",
)
@host_options
def command(
    *,
    inventory_argument: Path | None,
    inventory_path: Path | None,
    limit: tuple[str, ...],
    only: tuple[str, ...],
    skip: tuple[str, ...],
    yes: bool,
    reboot: str,
    serial: int,
    prune: bool,
    allow_busy: bool,
    accept_no_trial: bool,
    upgrade: bool,
    remove_foreign_driver: bool,
    force_reboot_wedged: bool,
    preflight: PreflightWhen,
    asks_sudo_password: bool,
    accepted_keys: tuple[str, ...],
    as_json: bool,
) -> int:
    """Make the hosts of INVENTORY what they are declared to be, and prove that P2P works.

    Plans, asks, changes, reboots where needed, looks again and runs preflight. What is not declared
    is not touched. Run it again after anything went wrong: it goes on from the truth on the host.

    \b
    Examples:
      rigops apply inventory.py
      rigops apply --limit threadripper --reboot auto
      rigops apply --only kernel_args --yes --reboot never
      rigops apply --yes --reboot auto --serial 4 --json
    """
    hosts, selection, digest = chosen(
        inventory_argument, inventory_path, limit=limit, only=only, skip=skip
    )
    interrupted = False
    told: frozenset[str] = frozenset()
    with converging(
        "applying",
        hosts,
        selection,
        inventory_digest=digest,
        accepted_keys=accepted_keys,
        asks_sudo_password=asks_sudo_password,
        allow_busy=allow_busy,
        upgrade=upgrade,
        remove_foreign_driver=remove_foreign_driver,
    ) as (run, progress):
        try:
            run.plan()
            with progress.silent():
                told = _show(run)
                to_mend = _repairs(run, yes=yes)
            if to_mend:
                run.mend(to_mend)
                with progress.silent():
                    told = _show(run)
            with progress.silent():
                if not _confirmed(run, yes=yes):
                    if as_json:
                        report(run.results, as_json=True)
                    return EXIT_DECLINED
                agreement = Agreement(
                    removals=_removals(run, yes=yes, prune=prune),
                    untried=accept_no_trial or _without_trial(run, yes=yes),
                    reboots=reboots(run, reboot),
                    busy=allow_busy,
                    wedged=force_reboot_wedged,
                    preflight=preflight,
                    at_once=serial,
                )
            run.agree(agreement)
            run.carry_out(agreement)
        except KeyboardInterrupt:
            interrupted = True
    _note(run)
    write_lock(run)
    if interrupted:
        click.echo("\nInterrupted. This is where each host stands:", err=True)
    tell_proofs(run, as_json=as_json)
    report(run.results, as_json=as_json, told=told)
    return EXIT_INTERRUPTED if interrupted else exit_code(run.results)


def _show(run: Apply) -> frozenset[str]:
    """The hosts whose error is told by that."""
    click.echo(plan_text(run.results), err=True)
    return failed(run)


def _repairs(run: Apply, *, yes: bool) -> frozenset[str]:
    """Hosts where the package manager is first to finish what it began: asked apart from the plan.

    Where nobody is asked, the cure by hand stands in the plan.
    """
    if yes or not asks():
        return frozenset()
    return frozenset(
        result.host
        for result in run.results
        if any(not repair.agreed for repair in result.repairs) and _may_mend(result)
    )


def _without_trial(run: Apply, *, yes: bool) -> bool:
    """New kernel arguments that no boot can try first are asked for apart, too."""
    hosts = [result.host for result in run.results if result.untried]
    if not hosts or yes or not asks():
        return False
    question = (
        f"{', '.join(hosts)}: no boot can try the new kernel arguments first. Make them permanent "
        "at once?"
    )
    return click.confirm(question, err=True)


def _may_mend(result: HostResult) -> bool:
    broken = "; ".join(dict.fromkeys(repair.broken for repair in result.repairs))
    commands = ", ".join(dict.fromkeys(f"`{repair.command}`" for repair in result.repairs))
    question = f"{result.host}: {plain(broken)}. Finish what it began first ({commands})?"
    return click.confirm(question, err=True)


def _confirmed(run: Apply, *, yes: bool) -> bool:
    pending = [result for result in run.results if result.error is None and result.pending]
    return yes or not pending or agreed("Change these hosts?")


def _removals(run: Apply, *, yes: bool, prune: bool) -> bool:
    """A group file that was lost must not undo what it declared: asked apart from the plan."""
    going = [
        f"{result.host}: {concern} ({', '.join(paths)})"
        for result in run.results
        for concern, paths in result.undeclared.items()
    ]
    if not going or prune or yes or not asks():
        return bool(going) and prune
    click.echo("No longer declared at all:\n  " + "\n  ".join(going), err=True)
    return click.confirm("Take these back?", err=True)


def _note(run: Apply) -> None:
    """Hosts that were reached, on this machine too: it may be all that is left of them."""
    for rig in run.rigs:
        if rig.result.outcome not in {"not_run", "unreachable"}:
            journal.append(rig.journal_entry())
