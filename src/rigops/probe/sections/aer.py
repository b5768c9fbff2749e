"""Errors that the PCIe links of the cards have counted, and whether their ports may sleep."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import field
from typing import Literal

from rigops.dataclass import dataclass
from rigops.probe.section import EVERY_WORD, Section
from rigops.probe.sections.pci import ADDRESS
from rigops.probe.text import blocks, matches, preamble, stripped

Kind = Literal["correctable", "nonfatal", "fatal", "below"]

_FILES: Mapping[str, Kind] = {
    "aer_dev_correctable": "correctable",
    "aer_dev_nonfatal": "nonfatal",
    "aer_dev_fatal": "fatal",
    "aer_rootport_total_err_cor": "below",
}
_POWER = "power/control"
_PATH = re.compile(rf"/sys/(?:bus/pci/devices|devices\S*)/(?P<address>{ADDRESS})/(?P<file>\S+)")
_COUNT = re.compile(r"(?:(?P<name>[^\W\d][^\n]{0,60}?)[ \t:]+)?(?P<count>[0-9]{1,18})")
_TOTAL = "TOTAL_ERR"


@dataclass(frozen=True, kw_only=True)
class AerDevice:
    """One file of counters. `below`: correctable errors that were reported to a root port."""

    address: str
    kind: Kind
    counts: Mapping[str, int] = field(default_factory=dict)  # without the total
    total: int = 0
    head: str = ""
    lines: tuple[str, ...] = ()  # those that counted anything


@dataclass(frozen=True, kw_only=True)
class PortPower:
    address: str
    control: str  # on: it never sleeps; auto: the kernel may put it to sleep
    line: str


@dataclass(frozen=True, kw_only=True)
class Aer:
    devices: tuple[AerDevice, ...] = ()
    powers: tuple[PortPower, ...] = ()
    unparsed: tuple[str, ...] = ()

    def device(self, address: str, kind: Kind) -> AerDevice | None:
        wanted = (address, kind)
        return next((one for one in self.devices if (one.address, one.kind) == wanted), None)


def parse(text: str) -> Aer:
    devices: list[AerDevice] = []
    powers: list[PortPower] = []
    unparsed = list(preamble(text))
    for head, body in blocks(text).items():
        shape = _PATH.fullmatch(head)
        found = stripped(body)
        if shape is None:
            unparsed.append(head)
        elif shape["file"] == _POWER and found in (["on"], ["auto"]):
            line = f"{head}: {found[0]}"
            powers.append(PortPower(address=shape["address"], control=found[0], line=line))
        elif (kind := _FILES.get(shape["file"])) and (counted := _counted(found)):
            devices.append(_device(shape["address"], kind, head, counted))
        else:
            unparsed += found or [head]
    return Aer(devices=tuple(devices), powers=tuple(powers), unparsed=tuple(unparsed))


def _counted(output: list[str]) -> list[tuple[str, int, str]]:
    """Nothing where a line is no count, or where the total that ends the file is lost."""
    shapes, unparsed = matches(_COUNT, output)
    found = [(one["name"] or _TOTAL, int(one["count"]), one.string) for one in shapes]
    return found if found and not unparsed and found[-1][0].startswith(_TOTAL) else []


def _device(address: str, kind: Kind, head: str, counted: list[tuple[str, int, str]]) -> AerDevice:
    counts = {name: count for name, count, _ in counted if not name.startswith(_TOTAL)}
    totals = [count for name, count, _ in counted if name.startswith(_TOTAL)]
    return AerDevice(
        address=address,
        kind=kind,
        counts=counts,
        total=max(*totals, sum(counts.values())),
        head=head,
        lines=tuple(line for _, count, line in counted if count),
    )


# Built-ins only. The files come from memory: no card is asked, not even one that is gone.
_SNIPPET = r"""
[ -d /sys/bus/pci ] || { [ -d /sys/kernel ]; return; }
print_file() {
    [ -r "$1" ] || return 0
    block "$1"
    while read -r line; do echo "$line"; done <"$1"
} 2>/dev/null
seen=
for card in /sys/bus/pci/devices/*; do
    vendor='' class=''
    { read -r vendor <"$card/vendor"; read -r class <"$card/class"; } 2>/dev/null
    case "$vendor $class" in "0x10de 0x0300"*|"0x10de 0x0302"*) ;; *) continue ;; esac
    cd -P "$card" 2>/dev/null || continue
    way=$PWD
    own=${way##*/}
    while :; do
        function=${way##*/}
        case "$function" in *:*:*.[0-7]) ;; *) break ;; esac
        way=${way%/*}
        case "$seen " in *" $function "*) continue ;; esac
        seen="$seen $function"
        here=/sys/bus/pci/devices/$function
        for kind in correctable nonfatal fatal; do print_file "$here/aer_dev_$kind"; done
        print_file "$here/aer_rootport_total_err_cor"
        [ "$function" = "$own" ] || print_file "$here/power/control"
    done
done
return 0
"""

SECTION = Section(name="aer", snippet=_SNIPPET, parse=parse, lane="files", technical=EVERY_WORD)
