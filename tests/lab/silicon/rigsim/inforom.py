"""What a card remembers of its own memory: kept across power cycles, unlike settings."""

from . import kernel_log, paths
from .rig import Gpu, Rig

PENDING, DONE = "pending", "done"


def remapped(gpu: Gpu) -> str:
    """pending, done, or nothing."""
    return paths.read(paths.INFOROM / gpu.uuid)


def remap_declared(rig: Rig) -> None:
    """A row fails and waits for its replacement; once in the life of a card."""
    for gpu in rig.gpus:
        if gpu.address in rig.remap and gpu.model.remapper and not remapped(gpu):
            paths.write(paths.INFOROM / gpu.uuid, PENDING + "\n")
            kernel_log.row_marked(gpu)


def activate(rig: Rig) -> None:
    """A driver that is loaded anew puts the replacements in place."""
    for gpu in rig.gpus:
        if remapped(gpu) == PENDING:
            paths.write(paths.INFOROM / gpu.uuid, DONE + "\n")
