#!/usr/bin/python3 -I
# Made by rigops for the hosts that declare borg; made anew, never edited.
"""borg [--json] COMMAND: backs up to a borg repository, lists, restores, and proves that it can.

What is declared is in /etc/rigops/borg.json. The passphrase comes as systemd's credential
`passphrase`, and goes to borg by a pipe.
"""

from __future__ import annotations

import argparse
import io
import os
import sys

from rigops.backup.host.errors import HostError
from rigops.backup.host.one_run import Interrupted, end_in_order
from rigops.backup.host.output import Output
from rigops.backup.host.volumes import leave_mounts_of_others
from rigops.concerns.borg.host.archive_listing import add_archive_list
from rigops.concerns.borg.host.archive_restoring import add_archive_restore
from rigops.concerns.borg.host.backing_up import add_borg_backup, add_borg_run
from rigops.concerns.borg.host.beginning import add_init
from rigops.concerns.borg.host.borg_checking import add_borg_check
from rigops.concerns.borg.host.drilling import add_drill
from rigops.concerns.borg.host.exporting import add_export_key
from rigops.concerns.borg.host.healing import add_heal
from rigops.concerns.borg.host.proving import add_prove

# Each in a module of its own in host/: its words, and a function (options, output) -> exit status.
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
    parser.add_argument("--json", action="store_true", dest="as_json")
    parser.add_argument("--lock-wait", type=int, default=30, metavar="SECONDS")
    commands = parser.add_subparsers(dest="command", required=True)
    for add in COMMANDS:
        add(commands)
    options = parser.parse_args()
    if isinstance(sys.stdout, io.TextIOWrapper):  # a file's name may be no text
        sys.stdout.reconfigure(errors="backslashreplace")
    output = Output(as_json=options.as_json)
    os.environ["PATH"] = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    os.chdir("/")
    end_in_order()
    try:
        leave_mounts_of_others()
        code: int = options.carry_out(options, output)
    except HostError as error:
        output.error(error)
        return 1
    except Interrupted as interruption:
        return interruption.code
    except BrokenPipeError:  # nobody reads any more: whoever asked is gone
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    return code


if __name__ == "__main__":
    sys.exit(main())
