"""The command that checks hosts; read-only."""

from __future__ import annotations

import shlex
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rigops.cli.collected_hosts import CollectedHost, ProbeOptions, internal_error, probe_hosts
from rigops.cli.driver_choice import chooser, locked_hosts, unasked
from rigops.cli.hosts import (
    accept_host_key_option,
    ask_sudo_password_option,
    choose_hosts,
    host_catalog,
    host_key_policy,
    sudo_password,
)
from rigops.cli.options import (
    common,
    default_inventory,
    existing_inventory,
    inventory_option,
    is_verbose,
    json_option,
    paths,
    words,
)
from rigops.cli.output import print_json, text_width, warn
from rigops.concerns.nvidia_driver import from_bundle
from rigops.concerns.nvidia_driver.concern import NVIDIA_DRIVER
from rigops.doctor import notes
from rigops.doctor.host_report import HostReport, document, exit_code, summary
from rigops.doctor.redaction_check import find_change
from rigops.doctor.registry import CHECKS, examine, sections_for
from rigops.errors import usage_error
from rigops.inventory.spec.names import did_you_mean
from rigops.probe.bundles.reading import MOST_PASTED, read_all, read_content
from rigops.probe.bundles.redaction import Redaction
from rigops.probe.bundles.saving import refuse_to_overwrite, save, save_all
from rigops.probe.registry import SECTIONS
from rigops.probe.script import script
from rigops.probe.snapshot import HostSnapshot
from rigops.report.doctor import NextSteps, doctor_lines
from rigops.report.terminal import print_lines, print_text, styled
from rigops.report.words import wrapped

if TYPE_CHECKING:
    from rigops.catalog import Catalog
    from rigops.doctor.check import Check
    from rigops.inventory import Inventory
    from rigops.inventory.spec import RigSpec
    from rigops.probe.bundle import Bundle
    from rigops.probe.section import Section
    from rigops.record.lockfile import LockedHost

_STANDARD_INPUT = Path("-")

Examination = tuple[CollectedHost, HostReport]


@click.command("doctor")
@click.argument("hosts", nargs=-1, metavar="[HOST]…")
@inventory_option
@click.option(
    "--from",
    "bundles",
    multiple=True,
    callback=paths,
    metavar="FILE",
    help="Check a saved bundle (directory or .tar.gz), an nvidia-bug-report.log[.gz] or copied "
    "outputs; - reads standard input.",
)
@click.option(
    "--save",
    "save_to",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Save the output of the hosts: a .tar.gz, or a directory.",
)
@click.option("--raw", is_flag=True, help="With --save: keep names, addresses and serials.")
@click.option(
    "--only",
    multiple=True,
    callback=words,
    metavar="ID",
    help="Run only these checks, and collect only what they need.",
)
@click.option("--skip", multiple=True, callback=words, metavar="ID", help="Skip these checks.")
@click.option("--strict", is_flag=True, help="Exit 1 for warnings too.")
@click.option("--no-root", is_flag=True, help="Do not use sudo.")
@click.option("--explain", "explained", metavar="ID", help="Show what a check reads, and exit.")
@click.option("--print-probe", is_flag=True, help="Print the script that hosts run, and exit.")
@ask_sudo_password_option
@accept_host_key_option
@json_option
@common
def command(
    *,
    hosts: tuple[str, ...],
    inventory_path: Path | None,
    bundles: tuple[Path, ...],
    save_to: Path | None,
    raw: bool,
    only: tuple[str, ...],
    skip: tuple[str, ...],
    strict: bool,
    no_root: bool,
    explained: str | None,
    print_probe: bool,
    asks_sudo_password: bool,
    accepted_keys: tuple[str, ...],
    as_json: bool,
) -> None:
    """Check hosts; show findings with evidence and fixes.

    Each host runs one read-only script. HOST is an inventory name, an ssh alias or
    user@host:port, or @local for this machine. Without HOST: every host of the inventory, or
    this machine where there is none.
    --save stores the output without names and serials; --from checks it again, anywhere. --from
    also takes what people paste: outputs of nvidia-smi, dmesg, journalctl, lspci, NCCL, apt and
    others, several in one FILE, in any order; FILE may be a directory of them.

    \b
    Examples:
      rigops doctor                            every host of ./inventory.py
      rigops doctor @local                     this machine
      rigops doctor me@192.168.1.20            a host outside the inventory
      rigops doctor rig --save rig.tar.gz      also save the output, to share it
      rigops doctor --from rig.tar.gz          check a saved bundle
      rigops doctor --from nvidia-bug-report.log.gz
      rigops doctor --from post.txt            outputs copied from a terminal or a forum
      rigops doctor --print-probe >probe.sh    on the host: sudo sh probe.sh >answer
      rigops doctor --explain drv.pin          what a check reads, and why
    """
    if explained is not None:
        check = _check(explained, "--explain")
        print_lines(f"{styled(check.id, bold=True)}  {check.title}", "")
        print_lines(*wrapped(check.explanation, text_width(), "  "))
        return
    if print_probe:
        asked = (*_sections(_chosen_checks(only, skip)), *from_bundle.sections(None))
        print_text(script(tuple(dict.fromkeys(asked)), root=not no_root))
        return
    if raw and save_to is None:
        raise usage_error(message="needs --save", key="--raw", fix="add --save FILE")
    if save_to is not None:
        refuse_to_overwrite(save_to)  # before the hosts are probed
    checks = _chosen_checks(only, skip)
    if bundles:
        judge = _judging(checks, inventory_path, {})
        collected = _hosts_from_bundles(bundles, hosts, inventory_path)
        for host in collected:  # a broken catalog is a usage error, not a host's
            host_catalog(host.spec, inventory_path)
        examined = [judge(one)[0] for one in collected]
    else:
        policy = host_key_policy(accepted_keys)
        chosen = choose_hosts(hosts, inventory_path, needs_inventory=False)
        for one in chosen:  # before any is probed
            host_catalog(one.spec, inventory_path)
        judge = _judging(
            checks, inventory_path, locked_hosts(chosen, inventory_path or default_inventory())
        )
        options = ProbeOptions(
            policy=policy,
            root=not no_root,
            sudo_password=sudo_password(asked=asks_sudo_password and not no_root),
            sections=lambda _: SECTIONS if save_to else _sections(checks),
            more=_asking_for_a_driver(checks, inventory_path),
        )
        examined = probe_hosts(chosen, options, judge)
    if save_to is not None:
        _save_bundles([one.bundle for one, _ in examined if one.bundle], save_to, redacted=not raw)
    reports = [report for _, report in examined]
    if as_json:
        print_json(document(reports))
    else:
        steps = _next_steps(bundles, inventory_path, [one.spec for one, _ in examined])
        print_lines(*doctor_lines(reports, text_width(), steps, verbose=is_verbose()))
    statuses = (report.status for report in reports)
    click.get_current_context().exit(exit_code(statuses, strict=strict))


def _asking_for_a_driver(
    checks: Sequence[Check], inventory_path: Path | None
) -> Callable[[Bundle, RigSpec | None], Sequence[Section[Any]]]:
    """Only where the driver is in question: apt takes seconds for its lists."""

    def more(bundle: Bundle, spec: RigSpec | None) -> Sequence[Section[Any]]:
        catalog = host_catalog(spec, inventory_path)
        findings = examine(HostSnapshot(bundle), spec, catalog, checks=checks)
        in_question = any(one.fix and one.fix.concern == NVIDIA_DRIVER.name for one in findings)
        return unasked(bundle, spec) if in_question else ()

    return more


def _judging(
    checks: Sequence[Check], inventory_path: Path | None, locked: Mapping[str, LockedHost]
) -> Callable[[CollectedHost], tuple[Examination, str]]:
    def judge(collected: CollectedHost) -> tuple[Examination, str]:
        catalog = host_catalog(collected.spec, inventory_path)
        try:
            report = _report(collected, checks, catalog, locked.get(collected.host))
        except Exception as error:  # noqa: BLE001 - logged and reported
            report = HostReport(
                host=collected.host,
                source=collected.source,
                collected_at=None,
                duration_ms=collected.duration_ms,
                error=internal_error(collected.host, error),
            )
        return (collected, report), report.status

    return judge


def _report(
    collected: CollectedHost,
    checks: Sequence[Check],
    catalog: Catalog,
    locked: LockedHost | None,
) -> HostReport:
    began, bundle = time.monotonic(), collected.bundle
    report = HostReport(
        host=collected.host,
        source=collected.source,
        collected_at=bundle.collected_at if bundle else None,
        duration_ms=collected.duration_ms,
        error=collected.error,
        notes=collected.notes,
    )
    if bundle is None:
        return report
    snapshot = HostSnapshot(bundle)
    choose_driver = chooser(bundle, catalog, collected.spec, locked)
    findings = examine(
        snapshot, collected.spec, catalog, checks=checks, choose_driver=choose_driver
    )
    return replace(
        report,
        duration_ms=collected.duration_ms + round((time.monotonic() - began) * 1000),
        facts=summary(snapshot, catalog),
        findings=tuple(findings),
        notes=(*collected.notes, *notes.of_paste(bundle, findings, checks)),
        unparsed=notes.unparsed(snapshot),
    )


def _chosen_checks(only: Sequence[str], skip: Sequence[str]) -> list[Check]:
    wanted = {_check(word, "--only").id for word in only}
    unwanted = {_check(word, "--skip").id for word in skip}
    return [
        check for check in CHECKS if (not wanted or check.id in wanted) and check.id not in unwanted
    ]


def _sections(checks: Sequence[Check]) -> Sequence[Section[Any]]:
    """All sections for all checks: also what no check needs is reported if it is unparsed."""
    return SECTIONS if len(checks) == len(CHECKS) else sections_for(checks)


def _check(word: str, option: str) -> Check:
    for check in CHECKS:
        if check.id == word:
            return check
    ids = [check.id for check in CHECKS]
    raise usage_error(
        message="no such check",
        key=option,
        value=word,
        accepted=", ".join(ids),
        fix=did_you_mean(word, ids),
    )


def _next_steps(
    bundles: Sequence[Path], inventory_path: Path | None, specs: Sequence[RigSpec | None]
) -> NextSteps:
    inventory = ("-i", str(inventory_path)) if inventory_path else ()
    read = ["--from", str(bundles[0]) if len(bundles) == 1 else "BUNDLE"] if bundles else []
    again = shlex.join(["rigops", "doctor", *inventory, *read])
    if any(specs):
        return NextSteps(again, shlex.join(["rigops", "plan", *inventory[1:]]))
    return NextSteps(again, "" if bundles else "rigops init", before_plan="")


def _hosts_from_bundles(
    paths: Sequence[Path], hosts: Sequence[str], inventory_path: Path | None
) -> list[CollectedHost]:
    """With one bundle, HOST names the declarations to use; with several, the bundles to read.

    A saved bundle holds its host's real name only if it was saved with --raw.
    """
    found = [bundle for path in paths for bundle in _read(path)]
    inventory = existing_inventory(inventory_path)
    if len(hosts) == 1 and len(found) == 1:
        return [_collected(found[0], _declared(inventory, hosts[0], required=True))]
    named = {bundle.host for bundle in found}
    for host in hosts:
        if host not in named:
            raise usage_error(
                message="no bundle has this host",
                key="HOST",
                value=host,
                accepted=", ".join(sorted(named)),
            )
    return [
        _collected(bundle, _declared(inventory, bundle.host, required=False))
        for bundle in found
        if not hosts or bundle.host in hosts
    ]


def _read(path: Path) -> list[Bundle]:
    if path != _STANDARD_INPUT:
        return read_all(path)
    content = sys.stdin.buffer.read(MOST_PASTED + 1)
    return read_content(content, place="standard input", host="paste")


def _save_bundles(bundles: Sequence[Bundle], path: Path, *, redacted: bool) -> None:
    if not bundles:
        warn([f"no host was reached; {path} not written"])
        return
    if redacted:
        bundles = _without_names(bundles, path)
    saved = save(bundles[0], path) if len(bundles) == 1 else save_all(bundles, path)
    replaced = "replaced; read it before you publish it" if redacted else "not replaced"
    print_lines(f"Saved {saved}: names, addresses and serials {replaced}.", err=True)


def _without_names(bundles: Sequence[Bundle], path: Path) -> list[Bundle]:
    """Refuses where whoever reads them would find something else than there is."""
    redaction = Redaction(bundles)
    redacted = [redaction.bundle(one) for one in bundles]
    for original, one in zip(bundles, redacted, strict=True):
        if change := find_change(original, one, redaction, host_catalog(None, None)):
            check_id, line = change
            raise usage_error(
                message=f"not written: without names, {check_id} finds something else by this "
                f"line of {line.section}: {line.line.strip()!r}",
                file=str(path),
                host=original.host,
                fix="Add --raw to save it with all names, and report that line as a bug of rigops.",
            )
    return redacted


def _collected(bundle: Bundle, spec: RigSpec | None) -> CollectedHost:
    about = tuple(notes.of_bundle(bundle))
    return CollectedHost(host=bundle.host, source="bundle", spec=spec, bundle=bundle, notes=about)


def _declared(inventory: Inventory | None, name: str, *, required: bool) -> RigSpec | None:
    host = inventory.host(name) if inventory else None
    if host is None and required:
        raise usage_error(
            message="not in the inventory",
            key="HOST",
            value=name,
            fix=(inventory.nearest(name) if inventory else "") or "name the inventory with -i",
        )
    return host.spec if host else None
