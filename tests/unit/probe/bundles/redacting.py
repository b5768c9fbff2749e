"""Bundles without names, and what that changes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rigops.doctor.redaction_check import find_change
from rigops.probe.bundles.redaction import Redaction
from tests.unit.doctor.examining import catalog

if TYPE_CHECKING:
    from rigops.doctor.finding import Evidence
    from rigops.probe.bundle import Bundle


def without_names(bundle: Bundle) -> Bundle:
    return Redaction([bundle]).bundle(bundle)


def changed_by_redaction(bundle: Bundle) -> tuple[str, Evidence] | None:
    redaction = Redaction([bundle])
    return find_change(bundle, redaction.bundle(bundle), redaction, catalog())
