"""The log of NCCL in a program."""

from __future__ import annotations

from typing import Final

from rigops.doctor.check import Check
from rigops.doctor.examined import Examined
from rigops.doctor.finding import Finding
from rigops.doctor.views.program_runs import HANG, cited
from rigops.probe.sections.nccl_log import SECTION as NCCL_LOG
from rigops.probe.sections.nccl_log import NcclLog

_OFF: Final = frozenset({"", "0"})
_DEBUG: Final = "NCCL_DEBUG"


@Check(
    "nccl.log",
    needs=(NCCL_LOG,),
    needs_gpu=False,
    fixes=("apply+reboot", "apply", "hands"),
)
def nccl_log(examined: Examined) -> list[Finding]:
    """NCCL logs no warning, and makes its communicators to the end.

    Only where a log with NCCL_DEBUG=WARN or INFO was given to doctor. Its warnings are known lines.
    A log that ends while communicators are made is unknown: a hang looks like that. Which transport
    NCCL chose (P2P, SHM through the host's memory, NET), and the settings that it read, are
    information: it never tries whether copies work.
    """
    answer = examined.snapshot[NCCL_LOG]
    if answer.collected is None:
        return []
    log = answer.or_empty
    found = list(filter(None, (_unended(log), _transports(log))))
    return found or [Finding("unknown", "it has no line of NCCL that says anything of the cards")]


def _unended(log: NcclLog) -> Finding | None:
    if log.started <= log.completed:
        return None
    begun = "1 communicator" if log.started == 1 else f"{log.started} communicators"
    return Finding(
        "unknown",
        f"NCCL began {begun}, and {log.completed} came to be",
        cited(NCCL_LOG, [log.last_line]),
        why=HANG,
        data={"hang": True},
        essential=True,
    )


def _transports(log: NcclLog) -> Finding | None:
    settings = {
        name: value
        for name, value in log.settings.items()
        if not name.startswith(_DEBUG) and value not in _OFF
    }
    if not (log.ways or settings or log.version):
        return None
    name = f"NCCL {log.version}" if log.version else "NCCL"
    kinds = log.transports
    if kinds == {"P2P"}:
        what = f"copies directly between the cards ({', '.join(sorted(log.ways))})"
    elif "P2P" not in kinds and "SHM" in kinds:
        what = f"copies through the host's memory ({', '.join(sorted(log.ways))})"
    elif kinds:
        what = f"copies by {', '.join(sorted(log.ways))}"
    else:
        what = "does not say which transport it uses"
    said = ", ".join(f"{one}={value}" for one, value in settings.items())
    return Finding(
        "info",
        f"{name} {what}{f'; set: {said}' if said else ''}",
        cited(NCCL_LOG, [*log.ways.values(), *(log.setting_lines[one] for one in settings)]),
        why="NCCL chooses by what the driver grants; it never tries whether a copy arrives right. "
        "`rigops preflight` does.",
    )
