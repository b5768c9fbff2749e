"""cuda.conf: all that the simulated libcuda obeys."""

from pathlib import Path

from . import p2p, paths, settings
from .rig import Gpu, Rig


def text(rig: Rig) -> str:
    driver, iommu = paths.read(paths.DRIVER), paths.read(paths.IOMMU) or "translated"
    lines = [f"driver {driver}"] if driver else []
    lines += ["init hang"] if rig.cuda == "init-hang" else []
    lines += [f"waits {rig.waits} {paths.AT_STEP}"] if rig.waits else []
    lines += [f"unkillable {paths.FROZEN / 'cuda'}"] if rig.p2p == "unkillable" else []
    for gpu in rig.gpus:
        state = "corrupt" if gpu.address in rig.corrupt else "ok"
        state = "lost" if settings.is_lost(gpu) else state
        model = gpu.model
        lines.append(
            f"gpu {gpu.number} {gpu.address} {gpu.uuid} {model.capability} {model.memory_bytes}"
            f" {state} {model.product}"
        )
    lines += [
        f"falls {gpu.number} {rig.falls[gpu.address]} {counter(gpu)}"
        for gpu in rig.gpus
        if gpu.address in rig.falls
    ]
    lines += [f"switch {' '.join(map(str, cards))}" for cards in p2p.switches(rig)]
    for (first, second), reach in p2p.matrix(rig, driver, iommu).items():
        lines.append(
            f"pair {first} {second} granted={reach.granted:d} copy={reach.copy}"
            f" rate={reach.rate} both={reach.both} latency={reach.latency}"
            f" staged={reach.staged} link={reach.link}"
        )
    return "\n".join(lines) + "\n"


def counter(gpu: Gpu) -> Path:
    """A byte for each copy from or to the card, of a card that falls with one of them."""
    return paths.COPIES / gpu.address


def has_fallen(rig: Rig, gpu: Gpu) -> bool:
    with_copy = rig.falls.get(gpu.address)
    return with_copy is not None and len(paths.read(counter(gpu))) >= with_copy


def write(rig: Rig) -> None:
    for gpu in rig.gpus:
        if gpu.address in rig.falls and not counter(gpu).exists():
            paths.write(counter(gpu), "")
            counter(gpu).chmod(0o666)  # whoever may use the card counts
    paths.write(paths.CUDA, text(rig))
