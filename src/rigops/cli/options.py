"""Options that many commands share."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

import click

from rigops.errors import usage_error
from rigops.report.terminal import visible

if TYPE_CHECKING:
    from rigops.inventory import Inventory

Command = TypeVar("Command", bound="Callable[..., Any]")

DEFAULT_INVENTORY = "inventory.py"
_VERBOSE = "rigops.verbose"


class _OneLine(logging.Formatter):
    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - logging's
        return visible(super().formatMessage(record))


def _color(ctx: click.Context, _: click.Parameter, off: bool) -> None:
    if off or os.environ.get("NO_COLOR"):
        ctx.color = False


def _verbose(ctx: click.Context, _: click.Parameter, on: bool) -> None:
    ctx.meta[_VERBOSE] = on
    if on:
        handler = logging.StreamHandler(sys.stderr)
        handler.setFormatter(_OneLine("%(message)s"))
        logging.basicConfig(handlers=[handler])
        logging.getLogger("rigops").setLevel(logging.INFO)


def is_verbose() -> bool:
    return bool(click.get_current_context().meta.get(_VERBOSE))


def combined(*options: Callable[[Any], Any]) -> Callable[[Command], Command]:
    """One decorator of several options, in the order of --help."""

    def decorate(function: Command) -> Command:
        for option in reversed(options):
            function = option(function)
        return function

    return decorate


common = combined(
    click.option(
        "-v", "--verbose", is_flag=True, expose_value=False, callback=_verbose, is_eager=True,
        help="Show all details; log what is read; show tracebacks.",
    ),
    click.option(
        "--no-color", is_flag=True, expose_value=False, callback=_color, is_eager=True,
        help="Print no colors (like NO_COLOR).",
    ),
)  # fmt: skip

engine_option = click.option(
    "--engine",
    type=click.Choice(["btrfs", "borg"]),
    help="Only this one [default: all that the host has].",
)

inventory_option = click.option(
    "-i",
    "--inventory",
    "inventory_path",
    type=click.Path(path_type=Path),
    help=f"Inventory file [default: $RIGOPS_INVENTORY, else ./{DEFAULT_INVENTORY}].",
)


def host_arguments(metavar: str, *, required: bool = False) -> Callable[[Command], Command]:
    """The words of a command, which gets them as `hosts`, and --inventory as `inventory_path`.

    A word that is a file, or is written like one, is the inventory.
    """

    def decorate(function: Command) -> Command:
        @wraps(function)
        def with_hosts(
            *, hosts: tuple[str, ...], inventory_path: Path | None, **others: object
        ) -> object:
            files = [word for word in hosts if _is_file(word)]
            inventories = {*map(Path, files), *filter(None, [inventory_path])}
            if len(inventories) > 1:
                named = " and ".join(sorted(map(str, inventories)))
                raise usage_error(message=f"two inventories: {named}", fix="name one of them")
            others["hosts"] = tuple(word for word in hosts if word not in files)
            return function(inventory_path=next(iter(inventories), None), **others)

        argument = click.argument("hosts", nargs=-1, metavar=metavar, required=required)
        return argument(inventory_option(cast("Command", with_hosts)))

    return decorate


def _is_file(word: str) -> bool:
    if word.startswith("@"):
        return False
    with suppress(OSError, ValueError):  # no name that a file can have
        return word.endswith(".py") or "/" in word or Path(word).is_file()
    return False


json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")


def words(_: click.Context, __: click.Parameter, given: Sequence[str]) -> tuple[str, ...]:
    """For options that take several values: repeated, or with commas."""
    return tuple(word for one in given for word in one.split(",") if word)


def paths(_: click.Context, __: click.Parameter, given: Sequence[str]) -> tuple[Path, ...]:
    """Like `words`, but a value that is an existing path is not split."""
    return tuple(
        Path(word)
        for one in given
        for word in ((one,) if Path(one).exists() else one.split(","))
        if word
    )


def default_inventory() -> Path:
    return Path(os.environ.get("RIGOPS_INVENTORY") or DEFAULT_INVENTORY)


def read_inventory(path: Path | None) -> Inventory:
    """Without a path: the default inventory, which has to exist."""
    from rigops.cli.output import warn
    from rigops.concerns import registry
    from rigops.inventory import load

    inventory = load(path if path is not None else default_inventory(), registry.keys())
    warn(inventory.warnings)
    return inventory


def existing_inventory(path: Path | None) -> Inventory | None:
    """None without a path and without a default inventory."""
    return read_inventory(path) if path is not None or default_inventory().exists() else None
