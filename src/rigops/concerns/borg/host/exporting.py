"""The repository's key, for a vault elsewhere: encrypted by the passphrase."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from rigops.backup.host.errors import HostError
from rigops.concerns.borg.host.borg_meanings import BorgError
from rigops.concerns.borg.host.borg_settings import demand_borg_settings
from rigops.concerns.borg.host.repository import explain_refusal, list_repository, open_borg

if TYPE_CHECKING:
    import argparse

    from rigops.backup.host.output import Output

_KEY_HEADING = "BORG_KEY "


def add_export_key(commands: Any) -> None:
    parser = commands.add_parser("export-key", help="print the repository's key, for a vault")
    parser.set_defaults(carry_out=export_key)


def export_key(options: argparse.Namespace, output: Output) -> int:
    settings = demand_borg_settings()
    borg = open_borg(settings, options)
    try:
        listing = list_repository(borg)
        key = borg.ask("key", "export", borg.repository, "-").text
        paper = borg.ask("key", "export", "--paper", borg.repository).text
    except BorgError as error:
        raise explain_refusal(borg, error) from error
    if not key.startswith(f"{_KEY_HEADING}{listing.number}"):
        raise HostError(f"{settings.repository}: borg exported no key", "see `borg key export`")
    if not output.as_json:
        sys.stdout.write(key)
    output.result({"id": listing.number, "key": key, "paper": paper})
    return 0
