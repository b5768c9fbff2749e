"""What a trial boot depends on, as a fact: asked only where one is planned."""

from __future__ import annotations

from rigops.concerns.kernel_args.trial_boot import conditions
from rigops.facts.sections import SectionFact


class TrialConditions(SectionFact[conditions.Conditions]):
    section = conditions.SECTION
