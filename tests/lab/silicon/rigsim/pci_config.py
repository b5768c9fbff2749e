"""PCI configuration space that lspci can take apart."""

from typing import NamedTuple

SIZE = 4096
_ENDPOINT, _LEGACY, _ROOT, _UPSTREAM, _DOWNSTREAM = 0, 1, 4, 5, 6
KINDS = {
    "endpoint": _ENDPOINT, "legacy": _LEGACY, "root": _ROOT,
    "upstream": _UPSTREAM, "downstream": _DOWNSTREAM,
}  # fmt: skip
_ACS_REDIRECT = 0x1D
_MIB = 20


class Link(NamedTuple):
    generation: int
    width: int
    max_generation: int
    max_width: int


class Bar(NamedTuple):
    """kind: memory, prefetchable (64 bit), io."""

    number: int
    address: int
    size: int
    kind: str


class Identity(NamedTuple):
    vendor: int
    device: int
    pci_class: int
    revision: int
    subsystem_vendor: int = 0
    subsystem_device: int = 0


class Space:
    def __init__(self) -> None:
        self.bytes = bytearray(SIZE)

    def put(self, offset: int, value: int, size: int) -> None:
        self.bytes[offset : offset + size] = value.to_bytes(size, "little")

    def extended(self, offset: int, identity: int, version: int, following: int) -> None:
        self.put(offset, identity | version << 16 | following << 20, 4)

    def bars(self, bars: tuple[Bar, ...]) -> None:
        for bar in bars:
            at = 0x10 + 4 * bar.number
            if bar.kind == "io":
                self.put(at, bar.address | 1, 4)
            elif bar.kind == "memory":
                self.put(at, bar.address, 4)
            else:
                self.put(at, bar.address | 0xC, 8)

    def head(self, identity: Identity, header: int, *, multifunction: bool) -> None:
        self.put(0x00, identity.vendor, 2)
        self.put(0x02, identity.device, 2)
        self.put(0x04, 0x0407, 2)
        self.put(0x06, 0x0010, 2)
        self.put(0x08, identity.revision | identity.pci_class << 8, 4)
        self.put(0x0C, 0x10, 1)
        self.put(0x0E, header | (0x80 if multifunction else 0), 1)

    def express(self, at: int, kind: str, link: Link, following: int) -> None:
        self.put(at, 0x10 | following << 8, 2)
        slot = 0x100 if kind in ("root", "downstream") else 0
        self.put(at + 2, 2 | KINDS[kind] << 4 | slot, 2)
        self.put(at + 4, 0x00008001 if slot else 0x10008FE1, 4)
        self.put(at + 8, 0x2937, 2)
        active = 1 << 20 if slot else 0
        capabilities = link.max_generation | link.max_width << 4 | 0x800 | 2 << 15 | 1 << 22
        self.put(at + 0x0C, capabilities | active | (0 if slot else 1 << 18), 4)
        self.put(at + 0x10, 0x0040, 2)
        up = 0x3000 if slot else 0x1000
        self.put(at + 0x12, link.generation | link.width << 4 | up, 2)
        if slot:
            self.put(at + 0x1A, 0x0040, 2)
        self.put(at + 0x24, 0x00070993, 4)
        self.put(at + 0x28, 0x0400, 2)
        self.put(at + 0x2C, ((1 << link.max_generation) - 1) << 1 | 1 << 23, 4)
        self.put(at + 0x30, link.max_generation, 2)
        self.put(at + 0x32, 0x001E, 2)

    def power(self, at: int, following: int) -> None:
        self.put(at, 0x01 | following << 8 | 0x0003 << 16, 4)
        self.put(at + 4, 0x0008, 2)

    def errors(self, at: int, following: int) -> None:
        self.extended(at, 0x0001, 2, following)
        self.put(at + 0x0C, 0x00462030, 4)
        self.put(at + 0x14, 0x2000, 4)
        self.put(at + 0x18, 0x000000A0, 4)

    def resizable(self, at: int, bar1: int, largest: int) -> None:
        self.extended(at, 0x0015, 1, 0)
        first, last = 64 << _MIB, max(bar1, largest)
        sizes = 0
        while first <= last:
            sizes |= 1 << (first.bit_length() - 1 - _MIB + 4)
            first <<= 1
        self.put(at + 4, sizes, 4)
        self.put(at + 8, 1 | 1 << 5 | (bar1.bit_length() - 1 - _MIB) << 8, 4)


def endpoint(
    identity: Identity,
    bars: tuple[Bar, ...],
    link: Link | None,
    *,
    legacy: bool = False,
    multifunction: bool = False,
    largest_bar1: int = 0,
) -> bytes:
    space = Space()
    space.head(identity, 0, multifunction=multifunction)
    space.bars(bars)
    space.put(0x2C, identity.subsystem_vendor, 2)
    space.put(0x2E, identity.subsystem_device, 2)
    space.put(0x3D, 1, 1)
    if link is None:
        space.put(0x06, 0, 2)
        return bytes(space.bytes)
    space.put(0x34, 0x60, 1)
    space.power(0x60, 0x68)
    space.put(0x68, 0x05 | 0x78 << 8 | 0x0081 << 16, 4)
    space.put(0x6C, 0xFEE00000, 4)
    space.express(0x78, "legacy" if legacy else "endpoint", link, 0)
    space.extended(0x100, 0x0002, 1, 0x420)
    space.put(0x114, 0x80000001, 4)
    space.errors(0x420, 0xBB0 if largest_bar1 else 0)
    if largest_bar1:
        space.resizable(0xBB0, next(bar.size for bar in bars if bar.number == 1), largest_bar1)
    return bytes(space.bytes)


def bridge(
    identity: Identity, kind: str, buses: tuple[int, int, int], link: Link, *, redirect: bool
) -> bytes:
    """buses: primary, secondary, subordinate. redirect: what Linux sets where an IOMMU is."""
    space = Space()
    space.head(identity, 1, multifunction=False)
    for offset, bus in zip((0x18, 0x19, 0x1A), buses, strict=True):
        space.put(offset, bus, 1)
    space.put(0x1C, 0x01F1, 2)
    space.put(0x20, 0x0000FFF0, 4)
    space.put(0x24, 0x0001FFF1, 4)
    space.put(0x34, 0x50, 1)
    space.put(0x3E, 0x0010, 2)
    space.power(0x50, 0x58)
    space.express(0x58, kind, link, 0xA0)
    space.put(0xA0, 0x05 | 0xC0 << 8 | 0x0081 << 16, 4)
    space.put(0xC0, 0x0D, 4)
    space.put(0xC4, identity.subsystem_vendor | identity.subsystem_device << 16, 4)
    space.errors(0x100, 0x2A0)
    space.extended(0x2A0, 0x000D, 1, 0)
    space.put(0x2A4, 0x005F, 2)
    space.put(0x2A6, _ACS_REDIRECT if redirect else 0, 2)
    return bytes(space.bytes)


def gone() -> bytes:
    """What a card that left the bus answers."""
    return b"\xff" * SIZE
