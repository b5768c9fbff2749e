#!/usr/bin/python3 -I
# Made by rigops for the hosts that declare snapshots; edits are overwritten.
"""snapshots [--json] COMMAND: takes, prunes, sends, lists and restores btrfs snapshots.

The declaration is in /etc/rigops/snapshots.json. Read-only snapshots are in .rigops/snapshots at
the top level of each file system, which is mounted for this process alone.
"""

from __future__ import annotations

import argparse
import sys

from rigops.backup.host.program import run_program
from rigops.concerns.snapshots.host.checking import add_check
from rigops.concerns.snapshots.host.creating import add_create
from rigops.concerns.snapshots.host.listing import add_list
from rigops.concerns.snapshots.host.restoring import add_restore
from rigops.concerns.snapshots.host.root_rollback import add_rollback_root
from rigops.concerns.snapshots.host.running import add_backup, add_prune, add_run
from rigops.concerns.snapshots.host.scrubbing import add_scrub
from rigops.concerns.snapshots.host.serving import add_serve

# Each in a module of its own in host/.
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
    return run_program(parser, COMMANDS)


if __name__ == "__main__":
    sys.exit(main())
