"""The command that prints what is known about drivers."""

from __future__ import annotations

from pathlib import Path
from shutil import get_terminal_size
from typing import TYPE_CHECKING

import click
from click.shell_completion import CompletionItem

from rigops.catalog import Catalog, driver_rows, find_gpu, load
from rigops.cli.options import (
    common,
    default_inventory,
    inventory_option,
    json_option,
    read_inventory,
)
from rigops.cli.output import print_json
from rigops.errors import Problem, UsageError
from rigops.report.drivers import drivers_text

if TYPE_CHECKING:
    from rigops.catalog.model import Gpu

WIDEST = 100


def _gpu_names(ctx: click.Context, _: click.Parameter, typed: str) -> list[CompletionItem]:
    del ctx
    return [CompletionItem(gpu.name) for gpu in load().gpus if typed.lower() in gpu.name.lower()]


@click.command("drivers")
@click.option(
    "--gpu",
    "gpu_name",
    metavar="NAME",
    help="Only what concerns this card: a model, a part of its name, or a PCI id.",
    shell_complete=_gpu_names,
)
@inventory_option
@json_option
@common
def command(gpu_name: str | None, inventory_path: Path | None, as_json: bool) -> None:
    """Tell which NVIDIA drivers are good, bad or risky, why, since when, and who reported it.

    Entries that the inventory adds with the key `catalog` are included.

    \b
    Examples:
      rigops drivers
      rigops drivers --gpu 3090
      rigops drivers --gpu V100 --json
    """
    catalog = load(_additions(inventory_path))
    gpus = _gpus(catalog, gpu_name) if gpu_name is not None else ()
    if as_json:
        rows = dict.fromkeys(row for gpu in gpus or (None,) for row in driver_rows(catalog, gpu))
        document = {"schema": "rigops.drivers/1", "drivers": [row.as_json() for row in rows]}
        print_json(document)
    else:
        click.echo(drivers_text(catalog, gpus, min(get_terminal_size().columns, WIDEST)))


def _additions(inventory_path: Path | None) -> Path | None:
    """The catalogue file that the inventory names; without an inventory there is none."""
    if inventory_path is None and not default_inventory().exists():
        return None
    inventory = read_inventory(inventory_path)
    named = {
        inventory.path.parent / Path(host.spec.catalog).expanduser()
        for host in inventory.hosts
        if host.spec.catalog
    }
    if len(named) > 1:
        raise UsageError(
            Problem(
                message="the hosts of this inventory name different catalogues",
                file=str(inventory.path),
                key="catalog",
                value=", ".join(sorted(map(str, named))),
                cure="name one file for all of them, in group_data/all.py",
            )
        )
    return named.pop() if named else None


def _gpus(catalog: Catalog, name: str) -> tuple[Gpu, ...]:
    match = find_gpu(catalog, name)
    if match.found:
        return match.found
    raise UsageError(
        Problem(
            message=f"no such card in the catalogue: {name!r}",
            key="--gpu",
            accepted=", ".join(gpu.name for gpu in catalog.gpus),
            cure=f"did you mean {match.suggestions[0]!r}?" if match.suggestions else "",
        )
    )
