"""Whether the root could be brought back by a snapshot, and who takes them."""

from __future__ import annotations

from typing import Final

from rigops.dataclass import dataclass
from rigops.facts.sections import SectionFact
from rigops.probe import mounts
from rigops.probe.section import Section
from rigops.probe.text import assignments, blocks

MOUNTS: Final = "/proc/self/mounts"
_SNAPPER: Final = "/etc/snapper/configs/"


@dataclass(frozen=True, kw_only=True)
class RootState:
    """`snapper`: its name for the root, where it manages that."""

    file_system: str | None = None
    snapper: str | None = None


def parse(text: str) -> RootState:
    found = blocks(text)
    # What was mounted over it last is what one sees.
    mounted, _ = mounts.mounted(found.get(MOUNTS, ""))
    kinds = [one.type for one in mounted if one.target == "/"]
    managed = [
        head.removeprefix(_SNAPPER)
        for head, body in found.items()
        if head.startswith(_SNAPPER) and assignments(body).get("SUBVOLUME") == "/"
    ]
    return RootState(
        file_system=kinds[-1] if kinds else None, snapper=managed[0] if managed else None
    )


def notice(root: RootState) -> str:
    """Nothing where no snapshot could be taken anyway."""
    if root.file_system != "btrfs":
        return ""
    text = "the root is btrfs; this version takes no snapshot of it before a change"
    if root.snapper is None:
        return text
    by_hand = f"`snapper -c {root.snapper} create -d 'before rigops'`"
    return f"{text}; snapper manages it: {by_hand} takes one"


_SNIPPET = f"""
block "{MOUNTS}"
grep -E '^[^ ]+ / ' {MOUNTS}
for file in {_SNAPPER}*; do
    [ -f "$file" ] || continue
    block "$file"
    grep -E '^[[:space:]]*SUBVOLUME=' "$file" | head -n 1
done
return 0
"""

SECTION = Section(name="root", snippet=_SNIPPET, parse=parse, wants_root=True, lane="files")


class Root(SectionFact[RootState]):
    section = SECTION
