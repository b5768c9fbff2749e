"""The log of NCCL in a program."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rigops.dataclass import dataclass
from rigops.doctor.check import Check
from rigops.doctor.finding import Finding, Fix, fix_by_hand
from rigops.doctor.views.program_runs import FIX, HANG, cited
from rigops.probe.sections.nccl_log import SECTION as NCCL_LOG

if TYPE_CHECKING:
    from rigops.doctor.examined import Examined
    from rigops.doctor.finding import Status
    from rigops.probe.sections.nccl_log import NcclLog, Warned

_OFF: Final = frozenset({"", "0"})
_DEBUG: Final = "NCCL_DEBUG"


@dataclass(frozen=True, kw_only=True)
class _Known:
    """A warning that has any of these words, in lower case."""

    words: tuple[str, ...]
    status: Status
    summary: str
    why: str = ""
    fix: Fix | None = None


def _by_hand(text: str) -> Fix:
    return fix_by_hand(text)


_KNOWN: Final = (
    _Known(
        words=('missing "iommu=pt"',),
        status="warn",
        summary="NCCL misses iommu=pt on the kernel command line",
        why="RCCL, AMD's NCCL, says this. The advice is the same for NVIDIA cards with P2P: an "
        "IOMMU that translates is between the cards, and copies may hang.",
        fix=Fix(
            kind="apply+reboot",
            concern="kernel_args",
            declare={"kernel_args": ["iommu=pt"]},
            text="`rigops apply` adds iommu=pt to the kernel command line and reboots",
            by_hand="add iommu=pt to the kernel command line and reboot",
        ),
    ),
    _Known(
        words=("peer access is not supported",),
        status="fail",
        summary="NCCL uses peer access that the driver does not grant",
        why="The cards have no P2P. NCCL was made to use it (NCCL_P2P_LEVEL, a cache of vLLM), or "
        "shares host memory in a way that needs it, as versions around 2.27 do.",
        fix=_by_hand(
            "export NCCL_P2P_DISABLE=1; if it goes on, NCCL_CUMEM_HOST_ENABLE=0 too, or take a "
            "newer NCCL. vLLM: delete ~/.cache/vllm/gpu_p2p_access_cache_for_*.json"
        ),
    ),
    _Known(
        words=("no space left on device", "shared memory segment", "failed to extend /dev/shm"),
        status="fail",
        summary="NCCL gets no shared memory in /dev/shm",
        why="Without P2P the cards exchange data there. A container has 64 MB of it unless it is "
        "given more, and programs that crashed leave their files behind.",
        fix=_by_hand(
            "look at `df -h /dev/shm`; give a container `--shm-size=8g` or `--ipc=host`; while "
            "nothing runs on the cards, delete /dev/shm/nccl-*"
        ),
    ),
    _Known(
        words=("duplicate gpu detected",),
        status="fail",
        summary="two processes were given the same card",
        fix=_by_hand("give each process a card of its own: CUDA_VISIBLE_DEVICES, LOCAL_RANK"),
    ),
    _Known(
        words=("no socket interface found", "bootstrap : no"),
        status="fail",
        summary="NCCL found no network interface to start on",
        fix=_by_hand("unset NCCL_SOCKET_IFNAME, or name an interface that is up (`ip -br link`)"),
    ),
    _Known(
        words=("cannot allocate memory", "memlock"),
        status="fail",
        summary="NCCL could not lock or allocate memory",
        fix=_by_hand(
            "raise the limit of locked memory: `ulimit -l unlimited`, for a container "
            "`--ulimit memlock=-1`"
        ),
    ),
    _Known(
        words=("numa auto balancing", "numa balancing"),
        status="warn",
        summary="automatic NUMA balancing slows NCCL down",
        why="The kernel moves pages between the memories of two processors while NCCL uses them.",
        fix=_by_hand("`sysctl kernel.numa_balancing=0`, and the same line in /etc/sysctl.d"),
    ),
    _Known(
        words=("access control services", "acs is enabled", " acs "),
        status="warn",
        summary="NCCL sees ACS between the cards",
        why="Ports that redirect send copies from card to card through the processor, where they "
        "are slow or hang.",
        fix=Fix(
            kind="apply",
            concern="acs",
            declare={"acs_redirect": "off"},
            text="`rigops apply` clears the redirect bits of the ports between the cards, now and "
            "at every boot",
            by_hand="clear ACS with setpci on the ports above the cards, or turn it off in the "
            "firmware's setup",
        ),
    ),
)
# Lines of every host without network cards for it, or without P2P.
_HARMLESS: Final = (
    "falling back to simple order",
    "net/ib : no device found",
    "could not find: lib",
)
_FAILURES: Final = (
    "cuda failure",
    "call to ",
    "unhandled ",
    "failed",
    "failure",
    "timeout",
    "mismatch",
)
_AFTER_A_FAILURE: Final = _by_hand(
    "look at the kernel log of that time (`journalctl -k`): a Xid or a fault of the IOMMU there is "
    "the cause; then run `rigops preflight`"
)


@Check(
    "nccl.log",
    needs=(NCCL_LOG,),
    needs_gpu=False,
    fixes=("apply+reboot", "apply", "hands"),
)
def nccl_log(examined: Examined) -> list[Finding]:
    """NCCL logs no warning, and makes its communicators to the end.

    Only where a log with NCCL_DEBUG=WARN or INFO was given to doctor. Each line with WARN is a
    warning, or a failure where it names one. A log that ends while communicators are made is
    unknown: a hang looks like that. Which transport NCCL chose (P2P, SHM through the host's memory,
    NET), and the settings that it read, are information: it never tries whether copies work.
    """
    answer = examined.snapshot[NCCL_LOG]
    if answer.collected is None:
        return []
    log = answer.or_empty
    told = [one for one in log.warnings if not any(map(one.message.lower().count, _HARMLESS))]
    warned = {one.summary: one for one in map(_of_warning, reversed(told))}
    ended = _unended(log) if not any(one.status == "fail" for one in warned.values()) else None
    found = [*reversed(warned.values()), *filter(None, [ended, _transports(log)])]
    return found or [Finding("unknown", "it has no line of NCCL that says anything of the cards")]


def _of_warning(warned: Warned) -> Finding:
    words = warned.message.lower()
    evidence = cited(NCCL_LOG, [warned.line])
    for known in _KNOWN:
        if any(one in words for one in known.words):
            return Finding(known.status, known.summary, evidence, why=known.why, fix=known.fix)
    if any(one in words for one in _FAILURES):
        fix = FIX if "cuda failure" in words else _AFTER_A_FAILURE
        return Finding("fail", f"NCCL failed: {warned.message}", evidence, fix=fix)
    return Finding("warn", f"NCCL warns: {warned.message}", evidence)


def _unended(log: NcclLog) -> Finding | None:
    if log.started <= log.completed:
        return None
    return Finding(
        "unknown",
        f"NCCL began {log.started} communicators, and {log.completed} came to be",
        cited(NCCL_LOG, [log.last_line]),
        why=HANG,
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
    refused = " since P2P could not be enabled" if log.not_enabled and "P2P" not in kinds else ""
    return Finding(
        "info",
        f"{name} {what}{refused}{f'; set: {said}' if said else ''}",
        cited(
            NCCL_LOG,
            [
                *log.ways.values(),
                *log.not_enabled[:1],
                *(log.setting_lines[one] for one in settings),
            ],
        ),
        why="NCCL chooses by what the driver grants; it never tries whether a copy arrives right. "
        "`rigops preflight` does.",
    )
