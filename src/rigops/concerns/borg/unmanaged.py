#!/usr/bin/python3 -I
# Sent by rigops to hosts whose backups are another tool's; it stays on none of them.
"""unmanaged [--json] COMMAND: lists, restores and tries the backups of borgmatic or restic.

The unit that makes them is in /etc/rigops/borg_watched. Its tool does the work, with the
environment and the credentials of the unit.
"""

from __future__ import annotations

import argparse
import io
import os
import sys

from rigops.concerns.borg.host.unmanaged_drilling import add_unmanaged_drill
from rigops.concerns.borg.host.unmanaged_listing import add_unmanaged_backup, add_unmanaged_list
from rigops.concerns.borg.host.unmanaged_restoring import add_unmanaged_restore
from rigops.concerns.snapshots.host.btrfs import HostError
from rigops.concerns.snapshots.host.one_run import Interrupted, end_in_order
from rigops.concerns.snapshots.host.output import Output

COMMANDS = (add_unmanaged_list, add_unmanaged_restore, add_unmanaged_drill, add_unmanaged_backup)


def main() -> int:
    parser = argparse.ArgumentParser(prog="unmanaged", description=__doc__)
    parser.add_argument("--json", action="store_true", dest="as_json")
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
