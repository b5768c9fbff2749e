"""The command that writes a first inventory."""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Sequence
from datetime import datetime, timezone
from pathlib import Path

import click

from rigops.catalog import Catalog, load
from rigops.cli.failure import EXIT_UNREACHED
from rigops.cli.hosts import AskAccess, access_options
from rigops.cli.options import DEFAULT_INVENTORY, common, words
from rigops.cli.output import text_width
from rigops.cli.terminal import Terminal
from rigops.concerns.nvidia_driver import from_bundle
from rigops.concerns.nvidia_driver.from_bundle import chooser
from rigops.concerns.snapshots.file_systems import SECTION as FILE_SYSTEMS
from rigops.doctor.proposal import ProposedKeys, accept, propose
from rigops.hosts.access import Chosen
from rigops.hosts.probing import ProbeOptions, probe_hosts
from rigops.probe.bundle import Bundle
from rigops.probe.registry import SECTIONS
from rigops.probe.snapshot import HostSnapshot
from rigops.report.inventory import (
    host_text,
    in_order,
    inventory_text,
    unreached_lines,
    written_lines,
)
from rigops.report.terminal import print_lines, print_text
from rigops.transport import Target

_NOT_NAME = re.compile(r"[^A-Za-z0-9._-]+")


@click.command("init")
@click.argument(
    "folder",
    metavar="[DIR]",
    default=".",
    type=click.Path(path_type=Path, file_okay=False, writable=True),
)
@click.option(
    "--host",
    "targets",
    multiple=True,
    callback=words,
    metavar="TARGET",
    help="Host to probe: an ssh alias or user@host:port (repeatable) [default: this machine].",
)
@click.option("--accept", "accepts", is_flag=True, help="Declare every suggestion.")
@access_options
@common
def command(
    *,
    folder: Path,
    targets: tuple[str, ...],
    accepts: bool,
    access: AskAccess,
) -> None:
    """Probe hosts and write a first inventory, DIR/inventory.py.

    Keys declare what a host already has, so `rigops apply` has nothing to change. Suggestions
    are comments, each with its reason; with --accept they are declared, so `rigops plan` shows
    what they change. An existing file is not overwritten; the entries are printed instead.

    \b
    Examples:
      rigops init                                     this machine, ./inventory.py
      rigops init rigs --host me@192.168.1.20         one host, rigs/inventory.py
      rigops init --host threadripper --host t180     two aliases of ~/.ssh/config
      rigops init --accept --host threadripper        with what doctor would have declared
    """  # fmt: skip
    names = dict.fromkeys(targets or ("@local",))
    chosen = [Chosen(word, Target.parse(word), None) for word in names]
    sections = tuple(dict.fromkeys((*SECTIONS, *from_bundle.sections(None), FILE_SYSTEMS)))
    collected = probe_hosts(
        chosen,
        ProbeOptions(access=access(), sections=lambda _: sections),
        lambda one: (one, "not reached" if one.error else "collected"),
        Terminal(),
    )
    catalog = load()
    reached = {one.name: one.target for one in chosen}
    taken: set[str] = set()
    proposed = {one.host: _proposed(one.bundle, catalog) for one in collected if one.bundle}
    if accepts:
        proposed = {host: accept(entries) for host, entries in proposed.items()}
    print_lines(*unreached_lines(collected), err=True)
    if proposed:
        texts = [
            host_text(*_named(reached[host], taken), entries) for host, entries in proposed.items()
        ]
        written = [one for entries in proposed.values() for one in in_order(entries)]
        _write(folder / DEFAULT_INVENTORY, texts, written, accepted=accepts)
    click.get_current_context().exit(EXIT_UNREACHED if any(one.error for one in collected) else 0)


def _named(target: Target, taken: set[str]) -> tuple[str, dict[str, object]]:
    """A name for the inventory, and the ssh keys where ssh needs more than the name."""
    if target.local:
        return "@local", {}
    reached: dict[str, object] = {}
    if target.user:
        reached["ssh_user"] = target.user
    if target.port:
        reached["ssh_port"] = target.port
    name = _NOT_NAME.sub("-", target.alias).strip("-") or "rig"
    if name in taken:
        name = next(f"{name}-{n}" for n in range(2, len(taken) + 3) if f"{name}-{n}" not in taken)
    taken.add(name)
    return name, {"ssh_hostname": target.alias, **reached} if name != target.alias else reached


def _proposed(bundle: Bundle, catalog: Catalog) -> Sequence[ProposedKeys]:
    return propose(HostSnapshot(bundle), catalog, chooser(bundle, catalog, None, None))


def _write(
    path: Path, hosts: Sequence[str], entries: Sequence[ProposedKeys], *, accepted: bool
) -> None:
    text = inventory_text(hosts, datetime.now(timezone.utc).date().isoformat())
    is_default = path == Path(DEFAULT_INVENTORY)
    plan = shlex.join(["rigops", "plan", *([] if is_default else [str(path)])])
    fix = shlex.join(["rigops", "fix", *([] if is_default else ["-i", str(path)])])
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        print_lines(f"{path}: already exists; not overwritten. Entries to paste:", err=True)
        print_text("\n".join(hosts))
        print_lines(f"To declare what doctor finds in hosts that it has: {fix}", err=True)
        return
    print_lines(
        *written_lines(path, text, entries, text_width(sys.stderr), accepted=accepted), err=True
    )
    if any(one.keys and not one.holds for one in entries):
        print_lines(f"Take the # off those that you want, or: {fix}", err=True)
    print_lines(f"Next: {plan}", err=True)
