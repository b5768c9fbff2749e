"""What a probe saw, kept: saved for others to see, read back, and without names."""

from rigops.bundles.reading import read_all
from rigops.bundles.redaction import Redaction, redact, redact_all
from rigops.bundles.saving import refuse_to_overwrite, save, save_all

__all__ = [
    "Redaction",
    "read_all",
    "redact",
    "redact_all",
    "refuse_to_overwrite",
    "save",
    "save_all",
]
