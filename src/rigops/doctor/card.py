"""The cards of a host, put together from all sources."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from rigops.catalog import Catalog, find_cut, find_gpu, find_unlisted
from rigops.catalog.model import DrivenGpu, Gpu, UnlistedGpu
from rigops.dataclass import dataclass
from rigops.inventory.spec.choice import GpuIdentity
from rigops.probe.sections.kernel_log import SECTION as KERNEL_LOG
from rigops.probe.sections.lspci import SECTION as LSPCI
from rigops.probe.sections.lspci import LspciFunction
from rigops.probe.sections.nvbandwidth import SECTION as NVBANDWIDTH
from rigops.probe.sections.nvidia_smi_xml import SECTION as SMI
from rigops.probe.sections.p2p_bandwidth_test import SECTION as P2P_TEST
from rigops.probe.sections.pci import SECTION as PCI
from rigops.probe.sections.pci import PciFunction
from rigops.probe.smi.report import SmiGpu

if TYPE_CHECKING:
    from rigops.probe.snapshot import HostSnapshot

NO_NAME = "unknown GPU"
_OF_DRIVER = re.compile(
    r"^nvidia (?P<address>[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]): (?!Adding to iommu group)"
)
_FOUND = re.compile(
    r"^pci (?P<address>[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.0): \[10de:(?P<device>[0-9a-f]{4})\] "
    r"type [0-9a-f]{2} class 0x030[02]"
)


@dataclass(frozen=True, kw_only=True)
class Card:
    """None: that source did not see it, or was not collected."""

    address: str  # an index where nothing names an address
    model: Gpu | None  # in the catalog
    name: str  # the best that is known
    unlisted: UnlistedGpu | None = None  # not in the catalog, and of a known generation
    function: PciFunction | None = None
    lspci: LspciFunction | None = None
    smi: SmiGpu | None = None

    @property
    def driven(self) -> DrivenGpu | None:
        """The facts that decide on its driver. None: not known."""
        return self.model or self.unlisted

    @property
    def subject(self) -> str:
        return f"gpu {self.address}"

    @property
    def identity(self) -> GpuIdentity:
        known = [self.model.name, *self.model.aliases] if self.model else []
        names = (*known, self.smi.name if self.smi else None, self.name)
        uuid = self.smi.uuid if self.smi else None
        return GpuIdentity(self.address, uuid, tuple(name for name in names if name))


def find_cards(snapshot: HostSnapshot, catalog: Catalog) -> tuple[Card, ...]:
    """Ordered by address, which is also the order of nvidia-smi's indices.

    One source is enough: cards that nvidia-smi lists without addresses (-L) go by their index, and
    where nothing else names any, those that the kernel or the driver names in the kernel log, and
    those that a program of NVIDIA's has used.
    """
    functions = {one.address: one for one in snapshot[PCI].or_empty.nvidia_gpus}
    listed = {one.address: one for one in snapshot[LSPCI].or_empty.nvidia_gpus}
    every = snapshot[SMI].or_empty.gpus
    reported = {one.address: one for one in every if one.address}
    addresses = sorted({*functions, *listed, *reported}, key=_by_domain)
    if not addresses and every:
        return tuple(_card(catalog, str(at), None, smi=one) for at, one in enumerate(every))
    addresses = addresses or logged_cards(snapshot)
    if not addresses:
        used = _used_cards(snapshot)
        return tuple(_card(catalog, address, None, label=used[address]) for address in used)
    logged = found_cards(snapshot)
    return tuple(
        _card(
            catalog,
            address,
            logged.get(address),
            function=functions.get(address),
            listed=listed.get(address),
            smi=reported.get(address),
        )
        for address in addresses
    )


def _by_domain(address: str) -> tuple[int, str]:
    domain, _, rest = address.partition(":")
    return int(domain, 16), rest


def _card(
    catalog: Catalog,
    address: str,
    device: int | None,
    *,
    function: PciFunction | None = None,
    listed: LspciFunction | None = None,
    smi: SmiGpu | None = None,
    label: str = "",
) -> Card:
    device = function.device if function else listed.device if listed else device
    model = find_gpu(catalog, f"10de:{device:04x}").only if device is not None else None
    if model is None and smi is not None and smi.name:
        name = smi.name.removeprefix("NVIDIA ")
        model = find_gpu(catalog, name).only or find_cut(catalog, name, smi.memory_total_mib)
    label = listed.product or listed.name if listed else label
    if model is None and label:
        model = find_gpu(catalog, label).only
    name = model.name if model else (smi and smi.name) or label or NO_NAME
    return Card(
        address=address,
        model=model,
        name=name,
        unlisted=None if model or device is None else find_unlisted(catalog, device),
        function=function,
        lspci=listed,
        smi=smi,
    )


def _used_cards(snapshot: HostSnapshot) -> dict[str, str]:
    """Names by address, or by CUDA's number: of nvbandwidth, or p2pBandwidthLatencyTest."""
    named = {str(at): name for at, name in snapshot[NVBANDWIDTH].or_empty.devices.items()}
    runs = snapshot[P2P_TEST].or_empty.runs[:1]
    return named or {
        run.addresses.get(at, str(at)): name for run in runs for at, name in run.names.items()
    }


def found_cards(snapshot: HostSnapshot) -> dict[str, int]:
    """Device numbers of the graphics cards that the kernel found at this boot, by address."""
    return {
        shape["address"]: int(shape["device"], 16)
        for entry in snapshot[KERNEL_LOG].or_empty.matching(_FOUND)
        if (shape := _FOUND.search(entry.message))
    }


def logged_cards(snapshot: HostSnapshot) -> list[str]:
    """Addresses that the kernel or NVIDIA's driver names in this boot's kernel log."""
    log = snapshot[KERNEL_LOG].or_empty
    named = set(found_cards(snapshot)) | {
        shape["address"]
        for entry in log.matching(_OF_DRIVER)
        if not entry.boot and (shape := _OF_DRIVER.search(entry.message))
    }
    return sorted(named | {one.address for one in log.xids if one.address and not one.entry.boot})
