"""Output of lspci for every PCI function: capabilities that sysfs does not name.

A tree (`lspci -t`) may be beside the listing, or alone.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property

from rigops.dataclass import dataclass
from rigops.probe.lspci_text import Block, split, split_tree
from rigops.probe.section import EVERY_WORD, Section
from rigops.probe.sections.pci import DISPLAY_CLASSES, NVIDIA
from rigops.probe.text import lines

REDIRECTING = frozenset({"ReqRedir", "CmpltRedir", "EgressCtrl"})

_WIDTH = re.compile(r"Width x([0-9]{1,3})( \(downgraded\))?")
_REGION = re.compile(r"(?:Region ([0-9]): )?(?:\[virtual\] )?(Memory at|I/O ports at) (.*)")
_SIZE = re.compile(r"\[size=([0-9]{1,6})([KMGT]?)\]")
_NO_SPACE = ("<ignored>", "<unassigned>")
_FACTORS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
_RESIZABLE = re.compile(r"BAR ([0-9]): current size: \S{1,20}, supported: (.*)")
_BAR_SIZE = re.compile(r"[0-9]{1,6}[KMGT]B")
_BIT = re.compile(r"([A-Za-z]{3,20})([+-])")
_BITS = re.compile(rf"{_BIT.pattern}(?:\s+{_BIT.pattern})*")


@dataclass(frozen=True, kw_only=True)
class LspciLink:
    """`is_narrower`: by lspci's word, than the function's own link could be."""

    width: int | None
    line: str
    is_narrower: bool = False


@dataclass(frozen=True, kw_only=True)
class AcsControl:
    """The ACSCtl bits that are set, such as SrcValid and ReqRedir."""

    enabled: frozenset[str]
    line: str
    is_complete: bool = True  # all bits that redirect are named, set or not


@dataclass(frozen=True, kw_only=True)
class Region:
    index: int
    size_bytes: int | None  # None where there is none, as for <ignored>
    line: str


@dataclass(frozen=True, kw_only=True)
class LspciFunction:
    """None is what the listing does not have, or hides without root."""

    address: str
    name: str
    line: str
    vendor: int | None = None
    device: int | None = None
    pci_class: int | None = None  # four digits: 0x0300 is a VGA controller
    driver: str | None = None
    modules: tuple[str, ...] = ()
    port_type: str | None = None  # Root Port, Upstream Port, Downstream Port, Endpoint
    link_capability: LspciLink | None = None
    link_status: LspciLink | None = None
    regions: tuple[Region, ...] = ()
    resizable_bar_sizes: tuple[str, ...] = ()  # of BAR1, as lspci writes them: 256MB, 32GB
    resizable_bar_line: str = ""
    acs: AcsControl | None = None
    secondary_bus: int | None = None  # of a bridge
    is_gone: bool = False  # (rev ff), unknown header type 7f
    unreadable: bool = False  # <access denied>
    lists_all: bool = False  # extended capabilities too: one that is not named is not there
    is_closed: bool = False  # something follows in the listing, so that its end is not cut off

    @property
    def is_nvidia_gpu(self) -> bool:
        return self.vendor == NVIDIA and self.pci_class in DISPLAY_CLASSES

    @property
    def is_bridge(self) -> bool:
        return self.pci_class == _PCI_BRIDGE

    @property
    def product(self) -> str | None:
        """The name on the box, which lspci sets in brackets: GeForce RTX 4090."""
        shape = _PRODUCT.search(self.name)
        return shape[1] if shape else None

    @property
    def bar1(self) -> Region | None:
        """NVIDIA's name for the window to its memory: after the registers, which may take two."""
        return next((region for region in self.regions if region.index in _BAR1_INDICES), None)


@dataclass(frozen=True, kw_only=True)
class Lspci:
    """A tree alone names no functions and proves no card absent, since it has no classes."""

    functions: tuple[LspciFunction, ...] = ()
    unparsed: tuple[str, ...] = ()

    @property
    def nvidia_gpus(self) -> tuple[LspciFunction, ...]:
        return tuple(one for one in self.functions if one.is_nvidia_gpu)

    @cached_property
    def by_address(self) -> Mapping[str, LspciFunction]:
        return {one.address: one for one in self.functions}

    @cached_property
    def by_bus(self) -> Mapping[str, LspciFunction]:
        """The bridge that leads to each bus, such as 0000:3a."""
        return {
            f"{one.address.partition(':')[0]}:{one.secondary_bus:02x}": one
            for one in self.functions
            if one.secondary_bus
        }

    @cached_property
    def host_bridge_buses(self) -> frozenset[str]:
        bridges = (one for one in self.functions if one.pci_class == _HOST_BRIDGE)
        return frozenset(one.address.rpartition(":")[0] for one in bridges)

    @cached_property
    def vendors(self) -> frozenset[int | None]:
        return frozenset(one.vendor for one in self.functions)


_HOST_BRIDGE = 0x0600
_PCI_BRIDGE = 0x0604
_BAR1_INDICES = (1, 2)
_PRODUCT = re.compile(r"\[([^\[\]]{1,80})\]$")
_FIELD = re.compile(r"(?P<name>[A-Za-z][\w ]{0,30}):\s*(?P<value>.*)")
_SECONDARY = re.compile(r"\bsecondary=([0-9a-f]{2})\b", re.IGNORECASE)
_CAPABILITY = re.compile(r"\[([0-9a-f]{2,3})(?: v[0-9]{1,2})?\] (.*)", re.IGNORECASE)
_EXTENDED = 0x100
_PORT = re.compile(r"Express (?:\(v[0-9]{1,2}\) )?([A-Za-z][A-Za-z -]{2,50}?)(?: \(|,|$)")


def parse(text: str) -> Lspci:
    buses, rest, unparsed_tree = split_tree(lines(text))
    blocks, unparsed = split(rest)
    if blocks and rest[-1] and not text.endswith("\n"):
        del blocks[-1].lines[-1:]  # a width of 16 that was cut short reads as 1
        blocks[-1].is_closed = False
    found = {block.head.address: _function(block) for block in blocks}
    for address, bus in buses.items():
        one = found.get(address)
        if one is not None and one.secondary_bus is None:
            found[address] = replace(one, secondary_bus=bus)
    return Lspci(functions=tuple(found.values()), unparsed=(*unparsed, *unparsed_tree))


def _function(block: Block) -> LspciFunction:
    head, body = block.head, block.lines
    fields: dict[str, str] = {}
    capabilities: list[re.Match[str]] = []
    for line in body:
        shape = _FIELD.match(line)
        if shape and shape["name"] == "Capabilities":
            capability = _CAPABILITY.match(shape["value"])
            capabilities += [capability] if capability else []
        elif shape:
            fields.setdefault(shape["name"], line)
    secondary = _SECONDARY.search(fields.get("Bus", ""))
    unreadable = any("<access denied>" in line for line in body)
    extended = any(int(one[1], 16) >= _EXTENDED for one in capabilities)
    sizes, sizes_line = _resizable(body)
    return LspciFunction(
        address=head.address,
        name=head.name,
        line=head.line,
        vendor=head.vendor,
        device=head.device,
        pci_class=head.pci_class,
        driver=_value(fields, "Kernel driver in use").partition(" ")[0].rstrip("`*") or None,
        modules=tuple(filter(None, _value(fields, "Kernel modules").replace(",", " ").split())),
        port_type=next((port[1] for one in capabilities if (port := _PORT.match(one[2]))), None),
        link_capability=_link(fields.get("LnkCap")),
        link_status=_link(fields.get("LnkSta")),
        regions=_regions(body),
        resizable_bar_sizes=sizes,
        resizable_bar_line=sizes_line,
        acs=_acs(body),
        secondary_bus=int(secondary[1], 16) if secondary else None,
        is_gone=head.revision == "ff" or any("Unknown header type 7f" in line for line in body),
        unreadable=unreadable,
        lists_all=extended and block.is_closed and not unreadable,
        is_closed=block.is_closed,
    )


def _value(fields: dict[str, str], name: str) -> str:
    return fields.get(name, "").partition(":")[2].strip()


def _link(line: str | None) -> LspciLink | None:
    if line is None:
        return None
    width = _WIDTH.search(line)
    return LspciLink(
        width=int(width[1]) if width else None,
        line=line,
        is_narrower=bool(width and width[2]),
    )


def _regions(body: list[str]) -> tuple[Region, ...]:
    """`lspci -v` does not number them: they follow each other, and one of 64 bits takes two."""
    found: list[Region] = []
    following = 0
    for line in body:
        if line.startswith("Capabilities:"):
            break  # what follows are those of virtual functions
        shape = _REGION.match(line)
        if shape is None:
            continue
        index = int(shape[1]) if shape[1] else following
        following = index + (2 if "64-bit" in shape[3] else 1)
        size = _SIZE.search(line)
        has_space = size is not None and not any(word in line for word in _NO_SPACE)
        found.append(
            Region(
                index=index,
                size_bytes=int(size[1]) * _FACTORS[size[2]] if size and has_space else None,
                line=line,
            )
        )
    return tuple(found)


def _resizable(body: list[str]) -> tuple[tuple[str, ...], str]:
    of_functions = False  # a "Virtual Resizable BAR" is that of virtual functions
    for line in body:
        if line.startswith("Capabilities:"):
            of_functions = "Virtual Resizable BAR" in line
        shape = None if of_functions else _RESIZABLE.match(line)
        if shape and int(shape[1]) in _BAR1_INDICES:
            return tuple(filter(_BAR_SIZE.fullmatch, shape[2].split())), line
    return (), ""


def _acs(body: list[str]) -> AcsControl | None:
    """A line that a mail has broken goes on in the next one."""
    at = next((i for i, line in enumerate(body) if line.startswith("ACSCtl:")), None)
    if at is None:
        return None
    line = body[at]
    if at + 1 < len(body) and _BITS.fullmatch(body[at + 1]):
        line = f"{line} {body[at + 1]}"
    bits = dict(_BIT.findall(line.partition(":")[2]))
    return AcsControl(
        enabled=frozenset(name for name, sign in bits.items() if sign == "+"),
        line=line,
        is_complete=bits.keys() >= REDIRECTING,
    )


# Of a server's hundreds of functions only NVIDIA's and the bridges are collected in full.
_SNIPPET = r"""
command -v lspci >/dev/null || return 0
{ lspci -Dnnvvv 2>/dev/null; echo "ended $?"; } | awk '
    BEGIN { code = 1 }
    /^ended [0-9]+$/ { code = $2; next }
    /^[0-9a-f]/ { whole = /\[10de:/ || /\[06[0-9a-f][0-9a-f]\]:/; print; next }
    whole || /^$/ { print }
    END { exit code }
'
"""

SECTION = Section(
    name="lspci",
    snippet=_SNIPPET,
    parse=parse,
    timeout_s=15,
    wants_root=True,
    lane="machine",
    technical=EVERY_WORD,
)
