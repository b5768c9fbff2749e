"""Bundles: saved for others to look at, read back, and redacted."""

from rigops.probe.bundles.reading import read_all
from rigops.probe.bundles.redaction import Redaction, redact, redact_all
from rigops.probe.bundles.saving import refuse_to_overwrite, save, save_all

__all__ = [
    "Redaction",
    "read_all",
    "redact",
    "redact_all",
    "refuse_to_overwrite",
    "save",
    "save_all",
]
