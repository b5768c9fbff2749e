"""Every path of the simulation, below one root so that it can be tried in a temporary tree."""

import os
from pathlib import Path

ROOT = Path(os.environ.get("RIGSIM_ROOT", "/"))
INSTALLED = Path(__file__).resolve().parent.parent
PROGRAM = str(INSTALLED / "bin/rigsim")


def at(path: str) -> Path:
    return ROOT / path.lstrip("/")


RIG = at("/etc/rigsim/rig.json")
DRIVER_OVERRIDE = at("/etc/rigsim/driver")
RUN = at("/run/rigsim")
COMMAND_LINE = RUN / "cmdline"
BOOT_FAILURE = RUN / "boot-failure"
IOMMU = RUN / "iommu"
DRIVER = RUN / "driver"
SETTINGS = RUN / "gpu"
CLIENTS = RUN / "clients"
JOBS = RUN / "jobs"
CUDA = RUN / "cuda.conf"
KERNEL_LOG = RUN / "kernel-log"
INFOROM = at("/var/lib/rigsim/inforom")
FROZEN = RUN / "frozen"
COPIES = RUN / "copies"
AT_STEP = RUN / "at-step"
BOOT = at("/boot")
SYS = at("/sys")
PROC = at("/proc")
DEV = at("/dev")


def read(path: Path) -> str:
    """The file's text without the line end; empty where there is none."""
    try:
        return path.read_text(errors="replace").strip()
    except OSError:
        return ""


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_name(f".{path.name}.new")
    new.write_text(text)
    new.replace(path)


def is_root() -> bool:
    pretended = os.environ.get("RIGSIM_UID") if "RIGSIM_ROOT" in os.environ else None
    return int(pretended or os.geteuid()) == 0
