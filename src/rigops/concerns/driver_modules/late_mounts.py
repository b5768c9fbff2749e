"""File systems that hold the built sets, and that a boot mounts when modules may be loaded."""

from __future__ import annotations

from typing import Final

from rigops.facts.sections import SectionFact
from rigops.probe import mounts
from rigops.probe.section import Section
from rigops.probe.sections.own_modules import FOLDER

_MOUNTS: Final = "/proc/self/mounts"


def parse(text: str) -> tuple[str, ...]:
    """Outermost first."""
    found, _ = mounts.mounted(text)
    above = {
        one.target for one in found if one.target != "/" and mounts.is_within(FOLDER, one.target)
    }
    return tuple(sorted(above, key=len))


SECTION: Final = Section(
    name="own-modules-mounts",
    snippet=f"""
grep -E '^[^ ]+ /var[^ ]* ' {_MOUNTS}
return 0
""",
    parse=parse,
    lane="files",
)


class LateMounts(SectionFact[tuple[str, ...]]):
    section = SECTION
