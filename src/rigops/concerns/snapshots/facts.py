"""What a host has for snapshots, as a fact."""

from __future__ import annotations

from rigops.concerns.snapshots.file_systems import SECTION, SnapshotsHost
from rigops.facts.sections import SectionFact


class SnapshotsHostFact(SectionFact[SnapshotsHost]):
    section = SECTION
