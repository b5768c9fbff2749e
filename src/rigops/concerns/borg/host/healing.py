"""Makes archives that an older borg renamed readable for this one, which signs them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from rigops.backup.host.errors import HostError
from rigops.concerns.borg.host.borg_meanings import ABSENT, UNREACHABLE, BorgError
from rigops.concerns.borg.host.borg_run_lock import only_borg_run
from rigops.concerns.borg.host.borg_settings import demand_borg_settings
from rigops.concerns.borg.host.borg_state import known_repository, read_borg_state, write_borg_state
from rigops.concerns.borg.host.borg_versions import ARCHIVE_TAM
from rigops.concerns.borg.host.repository import (
    explain_refusal,
    list_repository,
    open_borg,
    repository_state,
)

if TYPE_CHECKING:
    import argparse

    from rigops.backup.host.output import Output
    from rigops.concerns.borg.host.borg_process import Borg

_UNSIGNED = re.compile(r"^Archive TAM missing: (?P<name>\S+)", re.MULTILINE)


def add_heal(commands: Any) -> None:
    parser = commands.add_parser("heal", help=__doc__)
    parser.add_argument("--yes", action="store_true", help="sign them; else they are only named")
    parser.set_defaults(carry_out=heal)


def heal(options: argparse.Namespace, output: Output) -> int:
    """Nothing is removed. Sign only what is known to be from this host's own older borg."""
    settings = demand_borg_settings()
    borg = open_borg(settings, options)
    if borg.version < ARCHIVE_TAM:
        raise HostError(f"borg {borg.version} signs no archives", "there is nothing to heal")
    with only_borg_run():
        listing = list_repository(borg)
        try:
            borg.ask("upgrade", "--check-tam", borg.repository, is_strict=True)
            unsigned = find_unsigned(borg)
            if unsigned and options.yes:
                borg.ask("upgrade", "--archives-tam", borg.repository, is_strict=True)
        except BorgError as error:
            raise explain_refusal(borg, error) from error
        left = find_unsigned(borg) if unsigned and options.yes else unsigned
        if not left:
            known = known_repository(borg.repository)
            found = repository_state(borg, known, listing, None)
            found["last_borg"] = str(borg.version)
            write_borg_state({**read_borg_state(), "repository": found})
    healed = [name for name in unsigned if name not in left]
    for name in unsigned:
        output.notice(f"{name}: {'healed' if name in healed else 'to be healed'}")
    if not unsigned:
        output.notice(f"{borg.repository}: all archives are signed")
    output.result({"to_heal": left, "healed": healed})
    return int(bool(left) and options.yes)


def find_unsigned(borg: Borg) -> list[str]:
    try:
        answer = borg.ask("upgrade", "--check-archives-tam", borg.repository)
    except BorgError as error:
        if error.is_locked or error.state in {ABSENT, UNREACHABLE}:
            raise explain_refusal(borg, error) from error
        raise
    found = _UNSIGNED.findall(answer.text)
    if answer.warnings and not found:
        raise HostError(f"{borg.repository}: {answer.warnings[-1]}", "run it again")
    return found
