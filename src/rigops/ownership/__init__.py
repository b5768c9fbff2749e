"""What rigops owns on a host: the record, what is to change, and what changes it."""

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
