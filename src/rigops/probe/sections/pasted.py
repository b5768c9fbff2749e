"""All lines that a person pasted, in their order: outputs that are recognized, and the rest."""

from __future__ import annotations

from typing import Final

from rigops.probe.section import Section

SECTION: Final = Section(name="pasted", snippet="", parse=str)
