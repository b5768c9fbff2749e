#!/usr/bin/python3 -I
# Made by rigops for the hosts that declare borg; edits are overwritten.
"""borg [--json] COMMAND: backs up to a borg repository, lists, restores, and proves that it can.

The declaration is in /etc/rigops/borg.json. The passphrase comes as systemd's credential
`passphrase`, and goes to borg by a pipe.
"""

from __future__ import annotations

import argparse
import os
import sys

from rigops.backup.host.program import run_program
from rigops.concerns.borg.host.archive_listing import add_archive_list
from rigops.concerns.borg.host.archive_restoring import add_archive_restore
from rigops.concerns.borg.host.backing_up import add_borg_backup, add_borg_run
from rigops.concerns.borg.host.beginning import add_init
from rigops.concerns.borg.host.borg_checking import add_borg_check
from rigops.concerns.borg.host.drilling import add_drill
from rigops.concerns.borg.host.exporting import add_export_key
from rigops.concerns.borg.host.healing import add_heal
from rigops.concerns.borg.host.proving import add_prove

# Each in a module of its own in host/.
COMMANDS = (
    add_init,
    add_borg_run,
    add_borg_backup,
    add_archive_list,
    add_archive_restore,
    add_drill,
    add_export_key,
    add_heal,
    add_prove,
    add_borg_check,
)


def main() -> int:
    parser = argparse.ArgumentParser(prog="borg", description=__doc__)
    parser.add_argument("--lock-wait", type=int, default=30, metavar="SECONDS")
    os.chdir("/")
    return run_program(parser, COMMANDS)


if __name__ == "__main__":
    sys.exit(main())
