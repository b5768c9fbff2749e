"""Every PCI function of a rig, derived from what rig.json says about its cards."""

from typing import NamedTuple

from . import pci_config
from .pci_config import Bar, Identity, Link
from .rig import Gpu, Rig

_NVIDIA, _AMD, _INTEL, _SWITCH = 0x10DE, 0x1022, 0x8086, 0x10B5
_MIB = 1 << 20
# Root port, host bridge by the maker of the processor.
_PORTS = {True: (_INTEL, 0x6F08, 0x6F00), False: (_AMD, 0x1453, 0x1450)}
_EPYC_PORTS = (_AMD, 0x1483, 0x1480)


class Function(NamedTuple):
    address: str
    parents: tuple[str, ...]
    identity: Identity
    kind: str
    link: Link | None
    bars: tuple[Bar, ...]
    numa: int
    driver: str
    buses: tuple[int, int, int] | None = None
    gpu: Gpu | None = None

    @property
    def root(self) -> str:
        domain, bus, _ = (self.parents[0] if self.parents else self.address).split(":")
        return f"pci{domain}:{bus}"

    @property
    def folder(self) -> str:
        """Below /sys."""
        return "/".join(("devices", self.root, *self.parents, self.address))

    @property
    def slot(self) -> str:
        return self.address.rpartition(".")[0]


def _bus(address: str) -> int:
    return int(address.split(":")[1], 16)


def _power_of_two(size: int) -> int:
    return 1 << (size - 1).bit_length()


def current_generation(gpu: Gpu, *, busy: bool = False) -> int:
    """An idle GeForce drops its link to the first generation."""
    full = min(gpu.generation, gpu.model.generation)
    return full if busy or gpu.model.idle_state == "P0" else 1


def _card(gpu: Gpu, driver: str) -> list[Function]:
    model = gpu.model
    link = Link(current_generation(gpu), gpu.width, model.generation, 16)
    base = 0xC0000000 + gpu.number * 0x4000000
    bar1 = gpu.bar1_mib * _MIB
    high = 0x20000000000 + gpu.number * 0x4000000000
    identity = Identity(
        _NVIDIA,
        int(model.device, 16),
        int(model.pci_class, 16),
        int(model.revision, 16),
        int(model.subsystem[4:], 16),
        int(model.subsystem[:4], 16),
    )
    bars = (
        Bar(0, base, 16 * _MIB, "memory"),
        Bar(1, high, bar1, "prefetchable"),
        Bar(3, high + _power_of_two(2 * bar1), 32 * _MIB, "prefetchable"),
        Bar(5, 0x2000 + gpu.number * 0x1000, 128, "io"),
    )
    kind = "legacy" if model.pci_class == "030000" else "endpoint"
    card = Function(gpu.address, gpu.ports, identity, kind, link, bars, gpu.numa, driver, None, gpu)
    if not model.audio:
        return [card]
    sound = identity._replace(device=int(model.audio, 16), pci_class=0x040300)
    return [
        card,
        Function(
            gpu.address.rpartition(".")[0] + ".1",
            gpu.ports,
            sound,
            "endpoint",
            link,
            (Bar(0, base + 17 * _MIB, 16384, "memory"),),
            gpu.numa,
            "snd_hda_intel",
        ),
    ]


def _identity(rig: Rig, kind: str) -> Identity:
    vendor, port_device, _ = _makers(rig)
    if kind == "root":
        return Identity(vendor, port_device, 0x060400, 0, vendor, port_device)
    if rig.is_intel or _is_server(rig):
        return Identity(_SWITCH, 0x8764, 0x060400, 0xAB, _SWITCH, 0x8764)
    # Behind a desktop board's chipset.
    return Identity(
        _AMD, {"upstream": 0x43C6, "downstream": 0x43C7}[kind], 0x060400, 1, _AMD, 0x201
    )


def _lanes_above(rig: Rig) -> int:
    """Of a switch, or of the chipset of a desktop board."""
    return 16 if rig.is_intel or _is_server(rig) else 4


def _is_server(rig: Rig) -> bool:
    return "EPYC" in str(rig.cpu.get("model"))


def _bridges(rig: Rig) -> list[Function]:
    found: dict[str, Function] = {}
    for gpu in rig.gpus:
        chain = (*gpu.ports, gpu.address)
        for depth, port in enumerate(gpu.ports):
            known = found.get(port)
            secondary = _bus(chain[depth + 1])
            last = max(gpu.bus, known.buses[2] if known and known.buses else 0)
            kind = "root" if depth == 0 else ("upstream", "downstream")[(depth - 1) % 2]
            at_card = depth == len(gpu.ports) - 1
            width = gpu.width if at_card else _lanes_above(rig)
            current = current_generation(gpu) if at_card else gpu.generation
            identity = _identity(rig, kind)
            found[port] = Function(
                port,
                gpu.ports[:depth],
                identity,
                kind,
                Link(current, width, gpu.generation, width),
                (),
                gpu.numa,
                "pcieport",
                (_bus(port), secondary, last),
            )
    return list(found.values())


def _makers(rig: Rig) -> tuple[int, int, int]:
    if not rig.is_intel and _is_server(rig):
        return _EPYC_PORTS
    return _PORTS[rig.is_intel]


def _rest_of_the_board(rig: Rig, taken: set[str]) -> list[Function]:
    """Host bridges, an NVMe disk and a network card, where no card sits."""
    vendor, port_device, host = _makers(rig)
    numa = rig.gpus[0].numa if rig.gpus else -1
    buses = {_bus(address) for address in taken}
    free_buses = (bus for bus in range(1, 256) if bus not in buses)
    free_ports = (
        port
        for number in range(1, 32)
        for function in (0, 1, 2, 3)
        if (port := f"0000:00:{number:02x}.{function}") not in taken
    )
    roots = {"0000:00", *(address[:7] for gpu in rig.gpus for address in gpu.ports[:1])}
    found = [
        Function(
            f"{root}:00.0",
            (),
            Identity(vendor, host, 0x060000, 0, vendor, host),
            "host",
            None,
            (),
            numa,
            "",
        )
        for root in sorted(roots)
        if f"{root}:00.0" not in taken
    ]
    disk = Identity(0x144D, 0xA808, 0x010802, 0, 0x144D, 0xA801)
    network = Identity(0x8086, 0x1539, 0x020000, 3, 0x1458, 0xE000)
    parts = ((disk, "nvme", Link(3, 4, 3, 4)), (network, "igb", Link(1, 1, 1, 1)))
    for number, (identity, driver, link) in enumerate(parts):
        port, bus = next(free_ports), next(free_buses)
        bridge = Identity(vendor, port_device, 0x060400, 0, vendor, port_device)
        found.append(
            Function(
                port, (), bridge, "root", link._replace(max_generation=3, max_width=link.width),
                (), numa, "pcieport", (0, bus, bus),
            )
        )  # fmt: skip
        bars = (Bar(0, 0xF0000000 + number * 0x100000, 16384, "memory"),)
        found.append(
            Function(
                f"0000:{bus:02x}:00.0", (port,), identity, "endpoint", link, bars, numa, driver
            )
        )
    return found


def functions(rig: Rig, driver: str) -> list[Function]:
    """driver: what binds the cards; empty for none. In the order of their addresses."""
    found = [function for gpu in rig.gpus for function in _card(gpu, driver)]
    found += _bridges(rig)
    found += _rest_of_the_board(rig, {function.address for function in found})
    return sorted(found, key=lambda function: function.address)


def config(function: Function, *, redirect: bool) -> bytes:
    if function.buses and function.link:
        return pci_config.bridge(
            function.identity, function.kind, function.buses, function.link, redirect=redirect
        )
    gpu = function.gpu
    resizable = gpu is not None and gpu.model.generation >= 4
    return pci_config.endpoint(
        function.identity,
        function.bars,
        function.link,
        legacy=function.kind == "legacy",
        multifunction=bool(gpu and gpu.model.audio) or function.address.endswith(".1"),
        largest_bar1=_power_of_two(gpu.model.memory_bytes) if gpu and resizable else 0,
    )


def groups(found: list[Function]) -> dict[str, int]:
    """IOMMU group by address: one per slot, and ports alone."""
    numbers: dict[str, int] = {}
    result = {}
    for function in found:
        key = function.address if function.buses else function.slot
        result[function.address] = numbers.setdefault(key, len(numbers))
    return result
