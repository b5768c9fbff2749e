#!/usr/bin/python3 -I
# Made by rigops for the hosts that declare snapshots; made anew, never edited.
"""snapshots [--json] COMMAND: takes, prunes, sends, lists and restores btrfs snapshots.

What is declared is in /etc/rigops/snapshots.json. Read-only snapshots are in .rigops/snapshots at
the top level of each file system, which is mounted for this process alone.
"""

from __future__ import annotations

import argparse
import os
import sys

from rigops.backup.host.errors import HostError, as_host_error
from rigops.backup.host.one_run import Interrupted, end_in_order
from rigops.backup.host.output import Output
from rigops.backup.host.volumes import leave_mounts_of_others
from rigops.concerns.snapshots.host.checking import add_check
from rigops.concerns.snapshots.host.creating import add_create
from rigops.concerns.snapshots.host.listing import add_list
from rigops.concerns.snapshots.host.restoring import add_restore
from rigops.concerns.snapshots.host.root_rollback import add_rollback_root
from rigops.concerns.snapshots.host.running import add_backup, add_prune, add_run
from rigops.concerns.snapshots.host.scrubbing import add_scrub
from rigops.concerns.snapshots.host.serving import add_serve

# Each in a module of its own in host/: its words, and a function (options, output) -> exit status.
COMMANDS = (
    add_run,
    add_create,
    add_list,
    add_backup,
    add_prune,
    add_restore,
    add_rollback_root,
    add_check,
    add_scrub,
    add_serve,
)


def main() -> int:
    parser = argparse.ArgumentParser(prog="snapshots", description=__doc__)
    parser.add_argument("--json", action="store_true", dest="as_json")
    commands = parser.add_subparsers(dest="command", required=True)
    for add in COMMANDS:
        add(commands)
    options = parser.parse_args()
    output = Output(as_json=options.as_json)
    os.environ["PATH"] = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
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
    except OSError as error:
        output.error(as_host_error(options.command, error))
        return 1
    return code


if __name__ == "__main__":
    sys.exit(main())
