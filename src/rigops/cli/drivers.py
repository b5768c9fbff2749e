"""The command that shows what is known of drivers, and which of them hosts could run."""

from __future__ import annotations

import re
from datetime import datetime, timezone
from pathlib import Path

import click
from click.shell_completion import CompletionItem
from packaging.version import Version

from rigops.catalog import Catalog, driver_rows, find_gpu, find_unlisted, load, similar_names
from rigops.catalog.model import DrivenGpu
from rigops.cli.hosts import AskAccess, host_options
from rigops.cli.options import existing_inventory, inventory_option, is_verbose, words
from rigops.cli.output import print_json, text_width
from rigops.errors import usage_error
from rigops.report.drivers import SCHEMA, Wanted, drivers_lines
from rigops.report.terminal import print_lines


def _gpu_names(ctx: click.Context, _: click.Parameter, typed: str) -> list[CompletionItem]:
    del ctx
    return [CompletionItem(gpu.name) for gpu in load().gpus if typed.lower() in gpu.name.lower()]


def _cuda(_: click.Context, __: click.Parameter, value: str | None) -> Version | None:
    if value is None:
        return None
    shape = re.fullmatch(r"cuda[ -]?([0-9]{1,2}(?:\.[0-9])?)", value.lower())
    if shape is None:
        raise usage_error(
            message="no CUDA", key="--for", value=value, accepted="cuda12, cuda12.8, cuda13, …"
        )
    return Version(shape[1])


@click.command("drivers")
@click.option(
    "--gpu",
    "gpu_name",
    metavar="NAME",
    help="Only for this card: a model, a part of its name, or a PCI id.",
    shell_complete=_gpu_names,
)
@click.option(
    "--host",
    "hosts",
    multiple=True,
    callback=words,
    metavar="HOST",
    help="Show which drivers this host could run, and from where (repeatable).",
)
@click.option(
    "--for",
    "cuda",
    metavar="CUDA",
    callback=_cuda,
    help="Only drivers that run programs of this CUDA, such as cuda13 or cuda12.8.",
)
@inventory_option
@host_options
def command(
    *,
    gpu_name: str | None,
    hosts: tuple[str, ...],
    cuda: Version | None,
    inventory_path: Path | None,
    access: AskAccess,
    as_json: bool,
) -> int:
    """Show which NVIDIA drivers are known good or bad for a GPU; with -v the evidence.

    Entries that the inventory adds with the key `catalog` are included.

    With --host: which of them that host could install, from its own package sources and from the
    vault, and which one is recommended, with the lines that declare it. The host is not changed.
    HOST is a name of the inventory, an ssh alias or user@host:port.

    \b
    Examples:
      rigops drivers
      rigops drivers --gpu 3090
      rigops drivers --gpu 3090 --for cuda13
      rigops drivers --gpu V100 --json
      rigops drivers --host threadripper
    """
    if not hosts:
        catalog = load(_additions(inventory_path))
        gpus = _gpus(catalog, gpu_name) if gpu_name is not None else ()
        if as_json:
            # Cards share rows.
            rows = {row: None for gpu in gpus or (None,) for row in driver_rows(catalog, gpu, cuda)}
            print_json({"schema": SCHEMA, "drivers": [row.as_json() for row in rows]})
        else:
            wanted = Wanted(gpus, cuda, datetime.now(timezone.utc).date())
            lines = drivers_lines(catalog, wanted, text_width(), has_evidence=is_verbose())
            print_lines(*lines)
        return 0
    for key, given in (("--gpu", gpu_name), ("--for", cuda)):
        if given is not None:
            raise usage_error(message="goes without --host", key=key, fix="leave it out")
    from rigops.cli.host_drivers import show_hosts  # slow to import

    return show_hosts(hosts, inventory_path, access, as_json=as_json)


def _additions(inventory_path: Path | None) -> Path | None:
    """The catalog file that the inventory names; without an inventory there is none."""
    inventory = existing_inventory(inventory_path)
    if inventory is None:
        return None
    named = {Path(host.spec.catalog) for host in inventory.hosts if host.spec.catalog}
    if len(named) > 1:
        raise usage_error(
            message="the hosts of this inventory name different catalogs",
            file=str(inventory.path),
            key="catalog",
            value=", ".join(sorted(map(str, named))),
            fix="name one file for all of them, in group_data/all.py",
        )
    return named.pop() if named else None


def _gpus(catalog: Catalog, name: str) -> tuple[DrivenGpu, ...]:
    match = find_gpu(catalog, name)
    if match.found:
        return match.found
    pci_id = re.fullmatch(r"10de:([0-9a-f]{4})", name.strip().lower())
    unlisted = find_unlisted(catalog, int(pci_id[1], 16)) if pci_id else None
    if unlisted:
        return (unlisted,)
    raise usage_error(
        message=f"no such card in the catalog: {name!r}",
        key="--gpu",
        accepted=f"a card of the catalog, such as {', '.join(similar_names(catalog, name))}; or "
        "its PCI id, 10de:2204",
    )
