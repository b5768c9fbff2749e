"""What lspci decodes of every PCI function: capabilities that sysfs does not name.

A tree (`lspci -t`) may stand beside the listing or alone.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from rigops.probe import lspci_fields, lspci_tree
from rigops.probe.lspci_fields import REDIRECTING, AcsControl, LspciLink, Region
from rigops.probe.lspci_text import Block, split
from rigops.probe.lspci_tree import Branch
from rigops.probe.section import EVERY_WORD, Section
from rigops.probe.sections.pci import DISPLAY_CLASSES, NVIDIA
from rigops.probe.text import lines

__all__ = [
    "REDIRECTING",
    "SECTION",
    "AcsControl",
    "Branch",
    "Lspci",
    "LspciFunction",
    "LspciLink",
    "Region",
    "parse",
]


@dataclass(frozen=True, kw_only=True)
class LspciFunction:
    """None is what the listing does not say, or hides from whoever has no root."""

    address: str
    name: str
    line: str
    vendor: int | None = None
    device: int | None = None
    pci_class: int | None = None  # four digits: 0x0300 is a VGA controller
    revision: str | None = None
    driver: str | None = None
    modules: tuple[str, ...] = ()
    port_type: str | None = None  # Root Port, Upstream Port, Downstream Port, Endpoint
    link_capability: LspciLink | None = None
    link_status: LspciLink | None = None
    supported_gt_per_s: tuple[float, ...] = ()  # LnkCap2
    regions: tuple[Region, ...] = ()
    resizable_bar_sizes: tuple[str, ...] = ()  # of BAR 1, as lspci writes them: 256MB, 32GB
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
        return next((region for region in self.regions if region.index == 1), None)


@dataclass(frozen=True, kw_only=True)
class Lspci:
    """A tree tells of no classes: what it alone names is no function, and proves no card absent."""

    functions: tuple[LspciFunction, ...] = ()
    tree: tuple[Branch, ...] = ()
    unparsed: tuple[str, ...] = ()

    @property
    def nvidia_gpus(self) -> tuple[LspciFunction, ...]:
        return tuple(one for one in self.functions if one.is_nvidia_gpu)

    def of(self, address: str) -> LspciFunction | None:
        return next((one for one in self.functions if one.address == address), None)


_PCI_BRIDGE = 0x0604
_PRODUCT = re.compile(r"\[([^\[\]]{1,80})\]$")
_FIELD = re.compile(r"(?P<name>[A-Za-z][\w ]{0,30}):\s*(?P<value>.*)")
_SECONDARY = re.compile(r"\bsecondary=([0-9a-f]{2})\b", re.IGNORECASE)
_CAPABILITY = re.compile(r"\[([0-9a-f]{2,3})(?: v[0-9]{1,2})?\] (.*)", re.IGNORECASE)
_EXTENDED = 0x100
_PORT = re.compile(r"Express (?:\(v[0-9]{1,2}\) )?([A-Za-z][A-Za-z -]{2,50}?)(?: \(|,|$)")


def parse(text: str) -> Lspci:
    tree, rest, unparsed_tree = lspci_tree.split(lines(text))
    blocks, unparsed = split(rest)
    if blocks and rest[-1] and not text.endswith("\n"):
        del blocks[-1].lines[-1:]  # a width of 16 that was cut short reads as 1
        blocks[-1].is_closed = False
    found = {block.head.address: _function(block) for block in blocks}
    for branch in tree:
        one = found.get(branch.address)
        if one is not None and one.secondary_bus is None:
            found[branch.address] = replace(one, secondary_bus=branch.secondary_bus)
    return Lspci(
        functions=tuple(found.values()), tree=tuple(tree), unparsed=(*unparsed, *unparsed_tree)
    )


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
    sizes, sizes_line = lspci_fields.resizable(body)
    return LspciFunction(
        address=head.address,
        name=head.name,
        line=head.line,
        vendor=head.vendor,
        device=head.device,
        pci_class=head.pci_class,
        revision=head.revision,
        driver=_value(fields, "Kernel driver in use") or None,
        modules=tuple(filter(None, _value(fields, "Kernel modules").replace(",", " ").split())),
        port_type=next((port[1] for one in capabilities if (port := _PORT.match(one[2]))), None),
        link_capability=lspci_fields.link(fields.get("LnkCap")),
        link_status=lspci_fields.link(fields.get("LnkSta")),
        supported_gt_per_s=lspci_fields.speeds(fields.get("LnkCap2", "")),
        regions=lspci_fields.regions(body),
        resizable_bar_sizes=sizes,
        resizable_bar_line=sizes_line,
        acs=lspci_fields.acs(body),
        secondary_bus=int(secondary[1], 16) if secondary else None,
        is_gone=head.revision == "ff" or any("Unknown header type 7f" in line for line in body),
        unreadable=unreadable,
        lists_all=extended and block.is_closed and not unreadable,
        is_closed=block.is_closed,
    )


def _value(fields: dict[str, str], name: str) -> str:
    return fields.get(name, "").partition(":")[2].strip()


# Of a server's hundreds of functions only NVIDIA's and the bridges are wanted in full.
_SNIPPET = r"""
command -v lspci >/dev/null || exit 0
{ lspci -Dnnvvv 2>/dev/null; echo "ended $?"; } | awk '
    BEGIN { code = 1 }
    /^ended [0-9]+$/ { code = $2; next }
    /^[0-9a-f]/ { whole = /\[10de:/ || /\[06[0-9a-f][0-9a-f]\]:/; print; next }
    whole || /^$/ { print }
    END { exit code }
'
"""

SECTION = Section(
    name="lspci", snippet=_SNIPPET, parse=parse, timeout_s=15, wants_root=True, technical=EVERY_WORD
)
