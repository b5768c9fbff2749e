"""Which IOMMU group each PCI function is in, and how the kernel translates for that group."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cached_property

from rigops.dataclass import dataclass
from rigops.probe.section import EVERY_WORD, Section
from rigops.probe.sections.pci import ADDRESS
from rigops.probe.text import matches, single

_SHAPE = re.compile(rf"(?P<group>[0-9]{{1,6}}) (?P<type>\S+) (?P<address>{ADDRESS})")


@dataclass(frozen=True)
class Member:
    group: int
    type: str  # identity, DMA, DMA-FQ, blocked, auto, or - where the kernel reports none
    address: str
    line: str


@dataclass(frozen=True)
class IommuGroups:
    members: tuple[Member, ...] = ()
    unparsed: tuple[str, ...] = ()

    @property
    def is_off(self) -> bool:
        """There is no group, nor a line that may have been one."""
        return not self.members and not self.unparsed

    @cached_property
    def by_address(self) -> Mapping[str, Member]:
        return {member.address: member for member in reversed(self.members)}


def parse(text: str) -> IommuGroups:
    found, unparsed = matches(_SHAPE, map(str.strip, single(text)))
    members = (Member(int(one["group"]), one["type"], one["address"], one.string) for one in found)
    return IommuGroups(tuple(members), tuple(unparsed))


_SNIPPET = r"""
[ -d /sys/kernel ] || return
for device in /sys/kernel/iommu_groups/*/devices/*; do
    [ -L "$device" ] || [ -e "$device" ] || continue
    group=${device%/devices/*}
    type=-; { read -r type <"$group/type"; } 2>/dev/null
    echo "${group##*/} ${type:--} ${device##*/}"
done
"""

SECTION = Section(
    name="iommu-groups", snippet=_SNIPPET, parse=parse, lane="files", technical=EVERY_WORD
)
