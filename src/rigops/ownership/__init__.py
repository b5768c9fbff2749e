"""What rigops owns on a host: the record, what is to change, and what changes it.

Steps are carried out in this order, so that the next run ends what a crash cut off:

- to write: the earlier content (the `backup` of a step), then the record, then the file;
- to undo: the file, then the record.
"""

from rigops.ownership.files import (
    Conflict,
    Forget,
    InPlace,
    OwnedFile,
    Previous,
    Remove,
    Restore,
    Show,
    Step,
    WantedFile,
    Write,
    digest,
)
from rigops.ownership.ownership import PREVIOUS_FOLDER, Ownership, reconcile
from rigops.probe.sections.rigops_state import RECORD, Present

__all__ = [
    "PREVIOUS_FOLDER",
    "RECORD",
    "Conflict",
    "Forget",
    "InPlace",
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
    "digest",
    "reconcile",
]
