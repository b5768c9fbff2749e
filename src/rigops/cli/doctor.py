"""The command that checks hosts; read-only."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime, timezone
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from rigops.cli.acknowledging import Decision, decision_options
from rigops.cli.hosts import (
    AskAccess,
    called_again,
    choose_hosts,
    host_catalog,
    host_options,
    locked_hosts,
    read_catalogs,
)
from rigops.cli.options import host_arguments, is_verbose, paths, words
from rigops.cli.output import print_json, text_width
from rigops.cli.page_file import html_option
from rigops.cli.terminal import Terminal
from rigops.errors import usage_error
from rigops.hosts.access import Chosen
from rigops.report.terminal import print_lines, print_text, styled
from rigops.report.words import wrapped
from rigops.transport import import_ssh

if TYPE_CHECKING:
    from rigops.cli.examiner import Examination, Examiner
    from rigops.hosts.probing import CollectedHost
    from rigops.inventory.spec import RigSpec
    from rigops.report.doctor import NextSteps

_SAVED: Final = (".gz", ".tgz", ".log", ".txt")


@click.command("doctor")
@host_arguments("[HOST]…")
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
@html_option
@click.option(
    "--markdown",
    "as_markdown",
    is_flag=True,
    help="Print a summary for a forum or an issue, without names, addresses and serials.",
)
@click.option(
    "--save-baseline",
    "saves_baseline",
    is_flag=True,
    help="Store how the host is now; later runs show what has changed.",
)
@decision_options
@click.option(
    "--watch",
    "watch_s",
    type=click.IntRange(1, 3600),
    metavar="SECONDS",
    help="Show temperatures, power, clocks and new errors again and again, until Ctrl-C.",
)
@click.option(
    "--explain",
    "explained",
    metavar="ID",
    help="Explain a check or a story, and exit.",
)
@click.option("--print-probe", is_flag=True, help="Print the script that hosts run, and exit.")
@host_options
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
    html_path: Path | None,
    as_markdown: bool,
    saves_baseline: bool,
    decision: Decision | None,
    watch_s: int | None,
    explained: str | None,
    print_probe: bool,
    access: AskAccess,
    as_json: bool,
) -> None:
    """Check hosts; show findings with evidence and fixes.

    Each host runs one read-only script. HOST is a name, group or glob of the inventory, an ssh
    alias or user@host:port, or @local for this machine. Without HOST: every host of the inventory,
    or this machine where there is none.
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
      rigops doctor --html rig.html            also a page with drawings, to look at or show
      rigops doctor rig --markdown             a summary to post
      rigops doctor rig --save-baseline        the next runs say what has changed
      rigops doctor rig --ack pci.width --because "shares its lanes with the M.2"
      rigops doctor rig --watch 2              temperatures and new errors while a job runs
      rigops doctor --print-probe >probe.sh    on the host: sudo sh probe.sh >answer
      rigops doctor --explain drv.pin          what a check reads, and why
    """
    if explained is not None:
        _explain(explained)
        return

    _refuse_bundles((*hosts, *([str(inventory_path)] if inventory_path else [])))
    examiner = partial(_examiner, only, skip)
    if print_probe:
        from rigops.concerns.nvidia_driver import from_bundle
        from rigops.probe.script import script

        asked = (*examiner().sections, *from_bundle.sections(None))
        print_text(script(tuple(dict.fromkeys(asked)), root=not no_root))
        return
    _refuse_together()
    _refuse_saving(save_to, raw=raw)
    if watch_s is not None:
        chosen = choose_hosts(hosts, inventory_path, needs_inventory=False)
        from rigops.cli.watch import watch

        code = watch(
            chosen,
            access(root=not no_root),
            watch_s,
            root=not no_root,
            as_json=as_json,
            strict=strict,
        )
        click.get_current_context().exit(code)
    if only or skip:
        examiner()  # refuses what is no check
    if decision:
        decision.refuse_options(as_json=as_json, others=bool(bundles or saves_baseline))
    if bundles:
        examined = _examine_bundles(
            bundles, hosts, examiner, inventory_path, saves_baseline=saves_baseline
        )
    else:
        chosen = choose_hosts(hosts, inventory_path, needs_inventory=False)
        probe = partial(
            _probe,
            chosen,
            examiner,
            inventory_path,
            access,
            root=not no_root,
            all_sections=save_to is not None or saves_baseline or not (only or skip),
        )
        if decision:
            decision.carry_out(chosen, probe)
            return
        examined = probe()
    if save_to is not None:
        from rigops.cli.bundle_io import save_bundles

        save_bundles([one.bundle for one, _ in examined if one.bundle], save_to, redacted=not raw)
    are_stored = not saves_baseline or _save_baselines(examined)
    if html_path is not None:
        _write_page(html_path, examined)
    _print_reports(examined, bundles, inventory_path, as_json=as_json, as_markdown=as_markdown)
    from rigops.doctor.host_report import exit_code

    code = exit_code((report.status for _, report in examined), strict=strict)
    click.get_current_context().exit(code if are_stored else 1)


def _explain(word: str) -> None:
    from rigops.catalog import load
    from rigops.cli.examiner import find_check

    stories = load().stories
    story = next((one for one in stories if one.id == word), None)
    if story is not None:
        print_lines(f"{styled(story.id, bold=True)}  {story.title}")
        for paragraph in story.page:
            print_lines("", *wrapped(paragraph, text_width(), "  "))
        return
    check = find_check(word, "--explain", [one.id for one in stories])
    print_lines(f"{styled(check.id, bold=True)}  {check.title}", "")
    print_lines(*wrapped(check.explanation, text_width(), "  "))


def _refuse_saving(path: Path | None, *, raw: bool) -> None:
    """Before the hosts are probed."""
    if path is not None:
        from rigops.probe.bundles.saving import refuse_to_overwrite

        refuse_to_overwrite(path)
    elif raw:
        raise usage_error(message="needs --save", key="--raw", fix="add --save FILE")


def _refuse_together() -> None:
    """--watch shows what it sees, and stores nothing."""
    given = {one.name: one.opts[-1] for one in command.params if one.name}
    params = click.get_current_context().params
    exclusive = {
        "as_json": ("as_markdown",),
        "watch_s": (
            *("bundles", "save_to", "only", "skip", "html_path", "as_markdown"),
            *("saves_baseline", "acknowledges", "retracts"),
        ),
    }
    for name, others in exclusive.items():
        for other in others:
            if params[name] and params[other]:
                raise usage_error(
                    message=f"not with {given[name]}",
                    key=given[other],
                    fix="leave out one of them",
                )


def _refuse_bundles(words: Sequence[str]) -> None:
    """Those that are meant for --from."""
    for word in words:
        if word.endswith(_SAVED) or (word.endswith("/") and Path(word).is_dir()):
            raise usage_error(
                message="saved output is no host",
                key="HOST",
                value=word,
                fix=f"rigops doctor --from {word}",
            )


@cache
def _examiner(only: tuple[str, ...], skip: tuple[str, ...]) -> Examiner:
    from rigops.hosts.probing import IMPORTING

    with IMPORTING:
        from rigops.cli.examiner import Examiner

    return Examiner(only, skip)


def _read_catalogs(specs: Sequence[RigSpec | None], examiner: Callable[[], Examiner]) -> None:
    """A broken one is a usage error, and so is one whose known lines are of no check."""
    read_catalogs(specs)
    for catalog in {host_catalog(spec) for spec in specs}:
        if catalog.file_of_own_lines:
            examiner().refuse_lines_of_no_check(catalog)


def _probe(
    chosen: Sequence[Chosen],
    examiner: Callable[[], Examiner],
    inventory_path: Path | None,
    access: AskAccess,
    *,
    root: bool,
    all_sections: bool,
) -> list[Examination]:
    """The checks are imported while the hosts answer, which takes about as long."""
    from rigops.hosts.probing import IMPORTING, ProbeOptions, probe_hosts

    _read_catalogs([one.spec for one in chosen], examiner)
    locked = locked_hosts(chosen, inventory_path)
    options = ProbeOptions(
        access=access(root=root),
        root=root,
        more=lambda *answer: examiner().ask_for_a_driver(*answer),
    )
    if not all_sections:
        options = replace(options, sections=lambda _: examiner().sections)

    def judge(one: CollectedHost) -> tuple[Examination, str]:
        collected, report = examiner().judge(one, locked.get(one.host))
        return (collected, report), report.status

    def import_the_rest() -> None:
        """In the order in which it is waited for."""
        if not all(one.target.local for one in chosen):
            import_ssh()
        with IMPORTING:
            import rigops.probe.registry
        with IMPORTING:
            import rigops.report.doctor  # noqa: F401 - imported while the host answers
        examiner().prepare(one.spec for one in chosen)

    return probe_hosts(chosen, options, judge, Terminal(), import_the_rest)


def _examine_bundles(
    bundles: Sequence[Path],
    hosts: Sequence[str],
    examiner: Callable[[], Examiner],
    inventory_path: Path | None,
    *,
    saves_baseline: bool,
) -> list[Examination]:
    from rigops.cli.bundle_io import hosts_from_bundles

    if saves_baseline and not hosts:
        raise usage_error(
            message="a baseline is of a host that is named",
            key="--save-baseline",
            fix="rigops doctor HOST --from FILE --save-baseline",
        )
    collected = hosts_from_bundles(bundles, hosts, inventory_path)
    _read_catalogs([one.spec for one in collected], examiner)
    return [examiner().judge(one, None) for one in collected]


def _save_baselines(examined: Sequence[Examination]) -> bool:
    """Of the hosts that were reached. Whether all of them were stored."""
    from rigops.hosts.baselines import store
    from rigops.probe.snapshot import HostSnapshot

    done = [
        store(
            HostSnapshot(one.bundle),
            one.spec,
            host_catalog(one.spec),
            host=one.known_as,
            by="doctor",
            is_asked=True,
        )
        for one, _ in examined
        if one.bundle
    ]
    print_lines(*(one.text for one in done), err=True)
    return all(one.is_stored for one in done)


def _write_page(path: Path, examined: Sequence[Examination]) -> None:
    from rigops.cli.page_file import write_page
    from rigops.doctor.examined import Examined
    from rigops.inventory.spec import RigSpec
    from rigops.probe.snapshot import HostSnapshot
    from rigops.report.html.doctor import ExaminedHost, doctor_page

    hosts = []
    for one, report in examined:
        catalog = host_catalog(one.spec)
        seen = None
        if one.bundle:
            snapshot, spec = HostSnapshot(one.bundle), one.spec or RigSpec()
            seen = Examined(snapshot, spec, catalog, neighbors=one.neighbors)
        hosts.append(ExaminedHost(report, seen))
    write_page(path, doctor_page(hosts))


def _print_reports(
    examined: Sequence[Examination],
    bundles: Sequence[Path],
    inventory_path: Path | None,
    *,
    as_json: bool,
    as_markdown: bool,
) -> None:
    from rigops.doctor.host_report import document

    if as_json:
        print_json(document([report for _, report in examined]))
    elif as_markdown:
        _print_markdown(examined)
    else:
        _print_findings(examined, bundles, inventory_path)


def _print_findings(
    examined: Sequence[Examination], bundles: Sequence[Path], inventory_path: Path | None
) -> None:
    from rigops.report.catalog_age import old_catalog_note
    from rigops.report.doctor import doctor_lines

    specs, width = [one.spec for one, _ in examined], text_width()
    catalogs = {host_catalog(spec) for spec in specs}
    oldest = min(catalogs, key=lambda one: one.as_of)
    notes = old_catalog_note(oldest, datetime.now(timezone.utc).date(), width)
    steps = _next_steps(bundles, inventory_path, specs)
    reports = [report for _, report in examined]
    print_lines(*doctor_lines(reports, width, steps, notes=notes, verbose=is_verbose()))


def _print_markdown(examined: Sequence[Examination]) -> None:
    from rigops.doctor.without_names import without_names
    from rigops.probe.bundle import Bundle
    from rigops.probe.bundles.redaction import Redaction
    from rigops.report.markdown import doctor_markdown

    others = (other.host for one, _ in examined for other in one.neighbors)
    named = dict.fromkeys([*(one.host for one, _ in examined), *others])
    bundles = [one.bundle for one, _ in examined if one.bundle]
    bundles += [Bundle(name, None, root=False, sections={}) for name in named]
    redaction = Redaction(bundles)
    print_text(doctor_markdown([without_names(report, redaction) for _, report in examined]))


def _next_steps(
    bundles: Sequence[Path], inventory_path: Path | None, specs: Sequence[RigSpec | None]
) -> NextSteps:
    from rigops.report.doctor import NextSteps

    read = ["--from", str(bundles[0]) if len(bundles) == 1 else "BUNDLE"] if bundles else []
    again = replace(called_again(inventory_path), bundles=tuple(read))
    if any(specs):
        return NextSteps(again)
    return NextSteps(again, "" if bundles else "rigops init")
