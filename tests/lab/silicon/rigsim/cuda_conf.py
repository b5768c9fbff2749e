"""cuda.conf: all that the simulated libcuda obeys."""

from . import p2p, paths, settings
from .rig import Rig


def text(rig: Rig) -> str:
    driver, iommu = paths.read(paths.DRIVER), paths.read(paths.IOMMU) or "translated"
    lines = [f"driver {driver}"] if driver else []
    for gpu in rig.gpus:
        state = "lost" if settings.is_lost(gpu) else "ok"
        model = gpu.model
        lines.append(
            f"gpu {gpu.number} {gpu.address} {gpu.uuid} {model.capability} {model.memory_bytes}"
            f" {state} {model.product}"
        )
    for (first, second), reach in p2p.matrix(rig, driver, iommu).items():
        lines.append(
            f"pair {first} {second} granted={reach.granted:d} copy={reach.copy}"
            f" rate={reach.rate} both={reach.both} latency={reach.latency}"
            f" staged={reach.staged} link={reach.link}"
        )
    return "\n".join(lines) + "\n"


def write(rig: Rig) -> None:
    paths.write(paths.CUDA, text(rig))
