"""What rigops put on a host, and how to take it back. Pure: nothing here reaches a host.

Whoever carries out the steps keeps this order, so that a crash anywhere is mended by
reconciling again:

- to write: the earlier content aside (where a step says `keep`), then the record, then the file;
- to take back: the file, then the record.
"""

from rigops.owned.files import OwnedFile, Present, Previous, WantedFile
from rigops.owned.ownership import PREVIOUS_FOLDER, RECORD, Ownership
from rigops.owned.reconcile import reconcile
from rigops.owned.steps import (
    Conflict,
    Forget,
    Keep,
    Remove,
    Restore,
    Show,
    Step,
    Write,
)

__all__ = [
    "PREVIOUS_FOLDER",
    "RECORD",
    "Conflict",
    "Forget",
    "Keep",
    "OwnedFile",
    "Ownership",
    "Present",
    "Previous",
    "Remove",
    "Restore",
    "Show",
    "Step",
    "WantedFile",
    "Write",
    "reconcile",
]
