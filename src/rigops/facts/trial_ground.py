"""What a trial boot would stand on, as a fact: asked only where one is planned."""

from __future__ import annotations

from rigops.bootloader import ground
from rigops.facts.sections import SectionFact


class TrialGround(SectionFact[ground.TrialGround]):
    section = ground.SECTION
