"""nvidia-smi topo and nvlink."""

from collections.abc import Callable, Sequence

from . import p2p, paths
from .rig import Gpu, Rig
from .smi_view import Driver

_NUMA_ID_FROM = 535
_LEGEND = """
Legend:

  X    = Self
  SYS  = Connection traversing PCIe as well as the SMP interconnect between NUMA nodes (e.g., QPI/UPI)
  NODE = Connection traversing PCIe as well as the interconnect between PCIe Host Bridges within a NUMA node
  PHB  = Connection traversing PCIe as well as a PCIe Host Bridge (typically the CPU)
  PXB  = Connection traversing multiple PCIe bridges (without traversing the PCIe Host Bridge)
  PIX  = Connection traversing at most a single PCIe bridge
  NV#  = Connection traversing a bonded set of # NVLinks
"""  # noqa: E501 - # the tool's own lines
_P2P_LEGEND = """
Legend:

  X    = Self
  OK   = Status Ok
  CNS  = Chipset not supported
  GNS  = GPU not supported
  TNS  = Topology not supported
  NS   = Not supported
  U    = Unknown
"""


def relation(rig: Rig, first: Gpu, second: Gpu) -> str:
    links = rig.nvlinks.get((first.number, second.number))
    if links:
        return f"NV{links}"
    if first.ports[0] == second.ports[0]:
        shared = sum(a == b for a, b in zip(first.ports, second.ports, strict=False))
        return "PIX" if shared >= len(first.ports) - 1 else "PXB"
    if first.numa != second.numa:
        return "SYS"
    return "PHB" if first.ports[0][:7] == second.ports[0][:7] else "NODE"


def _affinity(rig: Rig, gpu: Gpu) -> tuple[str, str]:
    nodes = {card.numa for card in rig.gpus if card.numa >= 0}
    share = rig.threads // (len(nodes) or 1)
    start = share * max(gpu.numa, 0)
    return f"{start}-{start + share - 1}", str(gpu.numa) if gpu.numa >= 0 else "N/A"


def matrix(rig: Rig, driver: Driver) -> str:
    names = [f"GPU{gpu.number}" for gpu in rig.gpus]
    columns = [*names, "CPU Affinity", "NUMA Affinity"]
    numa_id = driver.branch >= _NUMA_ID_FROM
    if numa_id:
        columns.append("GPU NUMA ID")
    lines = ["\t\x1b[4m" + "\t".join(columns) + "\x1b[0m"]
    for gpu in rig.gpus:
        cells = [" X " if gpu == other else relation(rig, gpu, other) for other in rig.gpus]
        cpus, node = _affinity(rig, gpu)
        line = "\t".join((f"GPU{gpu.number}", *cells, cpus, node))
        lines.append(line + ("\t\tN/A" if numa_id else ""))
    return "\n".join(lines) + "\n" + _LEGEND


def _capability(rig: Rig, kind: str, driver: Driver) -> Callable[[Gpu, Gpu], str]:
    iommu = paths.read(paths.IOMMU) or "translated"

    def cell(first: Gpu, second: Gpu) -> str:
        reach = p2p.reach(rig, first, second, driver.version, iommu)
        if kind == "n":
            return "OK" if reach.granted and reach.link == "nvlink" else "NS"
        if kind == "a" and reach.link != "nvlink":
            return "NS"
        if reach.granted:
            return "OK"
        return "CNS" if first.model.name == second.model.name else "GNS"

    return cell


def capabilities(rig: Rig, kind: str, driver: Driver) -> str:
    cell = _capability(rig, kind, driver)
    lines = [" \t" + "\t".join(f"GPU{gpu.number}" for gpu in rig.gpus)]
    for gpu in rig.gpus:
        cells = ["X" if gpu == other else cell(gpu, other) for other in rig.gpus]
        lines.append(f" GPU{gpu.number}\t" + "\t".join(cells))
    return "\n".join(lines) + "\n" + _P2P_LEGEND


def nvlink_status(rig: Rig, gpus: Sequence[Gpu]) -> str:
    lines = []
    for gpu in gpus:
        lines.append(f"GPU {gpu.number}: {gpu.model.product} (UUID: {gpu.uuid})")
        active = rig.links_of(gpu.number)
        if not gpu.model.nvlinks:
            continue
        if not active:
            lines.append("NVML: Unable to retrieve NVLink information as all links are inActive")
            continue
        lines += [
            f"\t Link {number}: {gpu.model.nvlink_rate} GB/s"
            if number < active
            else f"\t Link {number}: <inactive>"
            for number in range(gpu.model.nvlinks)
        ]
    return "\n".join(lines) + "\n"


def nvlink_errors(rig: Rig, gpus: Sequence[Gpu]) -> str:
    lines = []
    for gpu in gpus:
        lines.append(f"GPU {gpu.number}: {gpu.model.product} (UUID: {gpu.uuid})")
        for number in range(min(rig.links_of(gpu.number), gpu.model.nvlinks)):
            lines += [
                f"\t Link {number}: {kind} Errors: 0" for kind in ("Replay", "Recovery", "CRC")
            ]
            lines.append("")
    return "\n".join(lines) + "\n"
