"""What the ports between the cards redirect, as a fact."""

from __future__ import annotations

from rigops import acs
from rigops.facts.sections import SectionFact


class Acs(SectionFact[acs.Acs]):
    section = acs.SECTION
