"""Every PCI function, from sysfs alone: with no lspci, no root and a driver that hangs."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cached_property

from rigops.dataclass import dataclass
from rigops.probe.section import EVERY_WORD, Section
from rigops.probe.text import single

ADDRESS = r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]"
NVIDIA = 0x10DE
DISPLAY_CLASSES = (0x0300, 0x0302)

_SHAPE = re.compile(rf"(?P<address>{ADDRESS})(?P<fields>( [a-z0-9]+=\S*)*)")
_ID = re.compile(r"0x[0-9a-f]{4}")
_CLASS = re.compile(r"0x[0-9a-f]{6}")
_GONE = re.compile(r" link=[^ ,]*,63(?: |$)")  # all bits of the width: it answers nothing
_LINK = re.compile(r"(?P<speed>[0-9]{1,4}(?:\.[0-9]{1,3})?),(?P<width>[0-9]{1,3})")


@dataclass(frozen=True)
class Link:
    gt_per_s: float
    width: int


@dataclass(frozen=True)
class PciFunction:
    """None is what the host could not read."""

    address: str
    vendor: int
    device: int
    pci_class: int
    driver: str | None
    link: Link | None
    fastest_link: Link | None
    bar1_bytes: int | None
    path: str | None
    line: str

    @property
    def is_nvidia_gpu(self) -> bool:
        return self.vendor == NVIDIA and self.pci_class >> 8 in DISPLAY_CLASSES

    @property
    def is_gone(self) -> bool:
        """It has left the bus, or sleeps without power."""
        return _GONE.search(self.line) is not None


@dataclass(frozen=True)
class Pci:
    functions: tuple[PciFunction, ...] = ()
    unparsed: tuple[str, ...] = ()

    @property
    def nvidia_gpus(self) -> tuple[PciFunction, ...]:
        return tuple(one for one in self.functions if one.is_nvidia_gpu)

    @cached_property
    def by_address(self) -> Mapping[str, PciFunction]:
        return {one.address: one for one in self.functions}

    @cached_property
    def vendors(self) -> frozenset[int]:
        return frozenset(one.vendor for one in self.functions)


def parse(text: str) -> Pci:
    found: dict[str, PciFunction] = {}
    unparsed: list[str] = []
    for line in map(str.strip, single(text)):
        if function := _function(line):
            found[function.address] = function
        elif line:
            unparsed.append(line)
    return Pci(tuple(found.values()), tuple(unparsed))


def _function(line: str) -> PciFunction | None:
    shape = _SHAPE.fullmatch(line.lower())
    if shape is None:
        return None
    # In the letters that the host used: a path is not lower case everywhere.
    fields = dict(field.split("=", 1) for field in line.split(" ")[1:])
    vendor, device, pci_class = (fields.get(name, "") for name in ("vendor", "device", "class"))
    if not (_ID.fullmatch(vendor) and _ID.fullmatch(device) and _CLASS.fullmatch(pci_class)):
        return None
    bar1 = fields.get("bar1", "")
    return PciFunction(
        address=shape["address"],
        vendor=int(vendor, 16),
        device=int(device, 16),
        pci_class=int(pci_class, 16),
        driver=_known(fields, "driver"),
        link=link(fields.get("link", "")),
        fastest_link=link(fields.get("max", "")),
        bar1_bytes=int(bar1) if re.fullmatch(r"-?[0-9]{1,20}", bar1) else None,
        path=_known(fields, "path"),
        line=line,
    )


def _known(fields: dict[str, str], name: str) -> str | None:
    value = fields.get(name, "-")
    return None if value in {"", "-"} else value


def link(value: str) -> Link | None:
    shape = _LINK.fullmatch(value)
    return Link(float(shape["speed"]), int(shape["width"])) if shape else None


# Built-ins only, but for the size of an NVIDIA card's BAR1: a host may have hundreds of functions.
_SNIPPET = r"""
[ -d /sys/bus/pci ] || { [ -d /sys/kernel ]; return; }
get() { value=-; read -r value <"$1" || value=-; [ -n "$value" ] || value=-; } 2>/dev/null
go() { cd -P "$1" 2>/dev/null || return; here=$PWD; [ "$here" != "$1" ] || here=$(pwd -P); }  # mksh
windows=
for function in /sys/bus/pci/devices/*; do
    get "$function/class"; class=$value
    get "$function/vendor"
    case "$value $class" in "0x10de 0x03"*) ;; *) continue ;; esac
    flags=0; { read -r _ _ flags <"$function/resource"; } 2>/dev/null
    window=$function/resource$(((${flags:-0} & 0x100000) ? 2 : 1))  # the first may be two
    [ ! -e "$window" ] || windows="$windows $window"
done
[ -z "$windows" ] || windows=$(ls -Lln $windows)
for function in /sys/bus/pci/devices/*; do
    [ -e "$function/vendor" ] || continue
    line=${function##*/}
    get "$function/vendor"; line="$line vendor=$value"
    get "$function/device"; line="$line device=$value"
    get "$function/class"; line="$line class=$value"
    get "$function/revision"; line="$line rev=${value#0x}"
    driver=-; go "$function/driver" && driver=${here##*/}
    case $driver in *" "*) driver=${driver%% *}_${driver##* } ;; esac
    line="$line driver=$driver"
    get "$function/current_link_speed"; speed=${value%% *}
    get "$function/current_link_width"; line="$line link=$speed,$value"
    get "$function/max_link_speed"; speed=${value%% *}
    get "$function/max_link_width"; line="$line max=$speed,$value"
    get "$function/numa_node"; line="$line numa=$value"
    bar1=-
    case $windows in
        *" $function/resource"*)
            bar1=${windows%%" $function/resource"*}
            set -- ${bar1##*"
"}
            bar1=${5:--} ;;
    esac
    path=-; go "$function" && path=$here
    echo "$line bar1=$bar1 path=$path"
done
"""

SECTION = Section(name="pci", snippet=_SNIPPET, parse=parse, lane="files", technical=EVERY_WORD)
