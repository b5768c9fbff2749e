"""What guards ask beside the sections that other operations stand on, as facts."""

from __future__ import annotations

from rigops.concerns.preconditions import root
from rigops.facts.sections import SectionFact
from rigops.probe.sections import firmware, modprobe


class Firmware(SectionFact[firmware.Firmware]):
    section = firmware.SECTION


class Modprobe(SectionFact[modprobe.Modprobe]):
    section = modprobe.SECTION


class Root(SectionFact[root.Root]):
    section = root.SECTION
