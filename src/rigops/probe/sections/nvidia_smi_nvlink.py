"""The NVLinks of each card: their speed, and the errors that they have counted."""

from __future__ import annotations

import re
from dataclasses import field
from typing import Final

from rigops.dataclass import dataclass
from rigops.probe.section import EVERY_WORD, Section
from rigops.probe.text import stripped

_GPU: Final = re.compile(r"GPU (?P<index>[0-9]{1,3}): (?P<name>[^(]{1,80}) \(UUID: (?P<uuid>\S+)\)")
_LINK: Final = re.compile(
    r"Link (?P<link>[0-9]{1,2}): (?:(?P<rate>[0-9]{1,6}(?:\.[0-9]{1,4})?) GB/s|<inactive>)"
)
# Of those that only a fault counts; the others of later generations count what is corrected anyway.
_ERRORS: Final = re.compile(
    r"Link (?P<link>[0-9]{1,2}): (?P<kind>Replay|Recovery|CRC(?: FLIT| Data)?) Errors?: "
    r"(?P<count>[0-9]{1,18})"
)
_OTHER: Final = re.compile(r"Link [0-9]{1,2}: [A-Z].{0,120}|MIG .{0,120}")
_NO_LINK: Final = re.compile(
    r"NVML: Unable to retrieve (?i:nvlink) information as all links are inActive|"
    r"Device does not have or support (?i:nvlink)"
)
_COMMAND: Final = re.compile(r".{0,80}nvidia-smi nvlink .{0,40}")


@dataclass(frozen=True, kw_only=True)
class NvlinkErrors:
    link: int
    kind: str  # Replay, Recovery, CRC, CRC FLIT, CRC Data
    count: int
    line: str


@dataclass(frozen=True, kw_only=True)
class NvlinkState:
    """`rate` in GB/s; None: inactive."""

    rate: float | None
    line: str


@dataclass(frozen=True, kw_only=True)
class NvlinkGpu:
    """`links` by number: none where nothing was reported, or where every link is inactive."""

    index: int
    name: str
    uuid: str
    line: str
    links: dict[int, NvlinkState] = field(default_factory=dict)
    errors: dict[tuple[int, str], NvlinkErrors] = field(default_factory=dict)
    remarks: dict[str, str] = field(default_factory=dict)  # that no link is up, or that it has none

    @property
    def active(self) -> tuple[int, ...]:
        return tuple(number for number, link in self.links.items() if link.rate)

    @property
    def is_inactive(self) -> bool:
        """Every link; or the card has none."""
        return bool(self.remarks) or (bool(self.links) and not self.active)


@dataclass(frozen=True)
class Nvlinks:
    gpus: tuple[NvlinkGpu, ...] = ()
    unparsed: tuple[str, ...] = ()


def parse(text: str) -> Nvlinks:
    """Outputs of `nvlink -s` and `nvlink -e`, in any order, each of which lists the cards."""
    gpus: dict[str, NvlinkGpu] = {}
    unparsed: list[str] = []
    current: NvlinkGpu | None = None
    for line in stripped(text):
        if head := _GPU.fullmatch(line):
            card = NvlinkGpu(
                index=int(head["index"]), name=head["name"], uuid=head["uuid"], line=line
            )
            current = gpus.setdefault(line, card)
        elif not (current and _is_added(current, line)) and not _COMMAND.fullmatch(line):
            unparsed.append(line)
    return Nvlinks(tuple(gpus.values()), tuple(unparsed))


def _is_added(gpu: NvlinkGpu, line: str) -> bool:
    if shape := _LINK.fullmatch(line):
        rate = float(shape["rate"]) if shape["rate"] else None
        gpu.links[int(shape["link"])] = NvlinkState(rate=rate, line=line)
    elif shape := _ERRORS.fullmatch(line):
        link, kind = int(shape["link"]), shape["kind"]
        gpu.errors[link, kind] = NvlinkErrors(
            link=link, kind=kind, count=int(shape["count"]), line=line
        )
    elif shape := _NO_LINK.fullmatch(line):
        gpu.remarks.setdefault(shape[0], line)
    else:
        return _OTHER.fullmatch(line) is not None
    return True


# Errors are asked for where a link is up.
_SNIPPET: Final = r"""
command -v nvidia-smi >/dev/null || return 0
links=$(nvidia-smi nvlink -s 2>&1); code=$?
echo "$links"
case $links in *" GB/s"*) nvidia-smi nvlink -e 2>&1 || code=$? ;; esac
return "$code"
"""

SECTION = Section(
    name="nvidia-smi-nvlink",
    snippet=_SNIPPET,
    parse=parse,
    timeout_s=20,
    asks_driver=True,
    lane="cards",
    needs="nvidia-smi",
    technical=EVERY_WORD,
)
