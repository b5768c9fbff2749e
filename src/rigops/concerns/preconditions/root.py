"""Whether a snapshot can bring the root back, and the tool that takes it."""

from __future__ import annotations

from typing import Final, Literal

from rigops.dataclass import dataclass
from rigops.facts.sections import SectionFact
from rigops.probe import mounts
from rigops.probe.section import Section
from rigops.probe.text import assignments, blocks, lines

MOUNTS: Final = "/proc/self/mounts"
TOOLS: Final = "command -v"
PYTHON: Final = "python3 from 3.8"

_BY_SNAPPER: Final = "snapper ({}) takes a snapshot of / first, and one afterwards"
_SNAPPER: Final = "/etc/snapper/configs/"


@dataclass(frozen=True, kw_only=True)
class RootFacts:
    """`snapper`: its name for the root, where it manages that. `tools`: of a root that is btrfs."""

    file_system: str | None = None
    snapper: str | None = None
    tools: frozenset[str] = frozenset()


def parse(text: str) -> RootFacts:
    found = blocks(text)
    # The last mount over it is the visible one.
    mounted, _ = mounts.mounted(found.get(MOUNTS, ""))
    kinds = [one.type for one in mounted if one.target == "/"]
    managed = [
        head.removeprefix(_SNAPPER)
        for head, body in found.items()
        if head.startswith(_SNAPPER) and assignments(body).get("SUBVOLUME") == "/"
    ]
    return RootFacts(
        file_system=kinds[-1] if kinds else None,
        snapper=managed[0] if managed else None,
        tools=frozenset(line.strip() for line in lines(found.get(TOOLS, "")) if line.strip()),
    )


@dataclass(frozen=True, kw_only=True)
class RootSnapshot:
    """The root's snapshot before a change. `lacks`: why there is none although it is btrfs."""

    by: Literal["", "rigops", "snapper"] = ""
    snapper: str = ""  # its name for the root
    lacks: str = ""

    @property
    def line(self) -> str:
        """For a plan."""
        by = {"rigops": "a snapshot of / is taken first", "snapper": _BY_SNAPPER}.get(self.by, "")
        return by and by.format(self.snapper)


def root_snapshot(root: RootFacts) -> RootSnapshot:
    if root.file_system != "btrfs":
        return RootSnapshot()
    if root.snapper is not None and "snapper" in root.tools:
        return RootSnapshot(by="snapper", snapper=root.snapper)
    missing = [name for name in ("btrfs", PYTHON) if name not in root.tools]
    if missing:
        return RootSnapshot(
            lacks=f"no snapshot of / is taken before a change: the host has no "
            f"{' and no '.join(missing)}. fix: sudo apt install btrfs-progs python3"
        )
    return RootSnapshot(by="rigops")


def plain_notice(root: RootFacts) -> str:
    """Under plain pyinfra, where nothing takes one. Nothing where none could be taken anyway."""
    if root.file_system != "btrfs":
        return ""
    text = "the root is btrfs; plain pyinfra takes no snapshot of it before a change"
    if root.snapper is None:
        return f"{text}, `rigops apply` does"
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
if grep -q -E '^[^ ]+ / btrfs ' {MOUNTS}; then
    block "{TOOLS}"
    for tool in btrfs snapper; do
        ! command -v "$tool" >/dev/null || echo "$tool"
    done
    ! python3 -I -c 'import sys; sys.exit(sys.version_info < (3, 8))' 2>/dev/null || echo "{PYTHON}"
fi
return 0
"""

SECTION = Section(name="root", snippet=_SNIPPET, parse=parse, wants_root=True, lane="files")


class Root(SectionFact[RootFacts]):
    section = SECTION
