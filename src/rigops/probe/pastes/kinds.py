"""The outputs that are recognized, by the lines that no other has."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import cached_property, lru_cache
from typing import Final

from rigops.dataclass import dataclass
from rigops.probe.kernel_log import stamps
from rigops.probe.kernel_log.parser import REST_OF_LINE
from rigops.probe.kernel_log.words import is_relevant, looks_like_the_kernel
from rigops.probe.pastes.copying import margin_of
from rigops.probe.smi.text import PIECE as PIECE_OF_QUERY

_BLANK: Final = r"\s*$"
_ADDRESS: Final = r"[0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-7]"


class Pattern:
    """Compiled when first tried: few texts have outputs of many kinds."""

    def __init__(self, pattern: str) -> None:
        self.pattern = pattern

    @cached_property
    def match(self) -> Callable[[str], re.Match[str] | None]:
        return re.compile(self.pattern).match


@dataclass(frozen=True, kw_only=True)
class Kind:
    """Patterns are tried at the beginning of a line.

    `begins` is a first line, without groups; `own` belongs to it for certain; `may` does where
    nothing else begins. `ends` is a last line, which makes the output complete. `has` must be in
    one of its lines.
    """

    name: str  # as people call it
    section: str  # of the bundle
    begins: Pattern
    own: Pattern | None  # None: only one line
    may: Pattern
    ends: Pattern | None
    has: Pattern | None
    head: str  # what a compound section calls it
    is_joined: bool  # several of them are one; else the last counts


def _kind(
    name: str,
    section: str,
    begins: str,
    own: str | None,
    may: str = "",
    *,
    ends: str = "",
    has: str = "",
    head: str = "",
    is_joined: bool = False,
) -> Kind:
    return Kind(
        name=name,
        section=section,
        begins=Pattern(begins),
        own=None if own is None else Pattern(f"{begins}|{own}" if own else begins),
        may=Pattern(f"{_BLANK}|{may}" if may else _BLANK),
        ends=Pattern(ends) if ends else None,
        has=Pattern(has) if has else None,
        head=head,
        is_joined=is_joined,
    )


SMI: Final = "nvidia-smi-xml"
XML: Final = _kind(
    "nvidia-smi -q -x", SMI,
    r"<\?xml |<!DOCTYPE nvidia_smi_log|<nvidia_smi_log>", r"\s*<", r".",
    ends=r"\s*</nvidia_smi_log>", has=r"\s*<nvidia_smi_log>",
)  # fmt: skip
QUERY: Final = _kind(
    "nvidia-smi -q", SMI,
    rf"=+\s*NVSMI LOG\s*=+|GPU {_ADDRESS}\s*$|(?:Attached GPUs|Timestamp|Driver Version) +: ",
    r"[A-Z][A-Za-z ]{2,40} +: |[ \t]{2,}[A-Z][^:]{1,60} : |" + PIECE_OF_QUERY,
    r"[ \t]{2,}\S",
)  # fmt: skip
PIECE: Final = _kind(
    QUERY.name, SMI, PIECE_OF_QUERY, r"\s*[A-Z][A-Za-z0-9 ()/.-]{1,40}(?: +: |\s*$)",
    r"[ \t]{2,}\S", has=r".{0,60} : ",
)  # fmt: skip
TABLE: Final = _kind(
    "nvidia-smi", SMI, r"\+[-=]{20,}|\| NVIDIA-SMI |\|\s{1,4}[0-9]{1,3}  \S", r"[+|]",
    has=rf".{{0,60}}(?:NVIDIA-SMI |Bus-Id|\| {{1,4}}{_ADDRESS} (?:Off|On) )",
)  # fmt: skip
ROWS: Final = _kind(
    "nvidia-smi --query-gpu", SMI,
    r"(?:index|name|timestamp|count|uuid|driver_version|pstate|[a-z]{2,20}\.[a-z._]{2,40})"
    r"(?: \[[^\]]{1,12}\])?, [a-z]",
    r"[^,]{1,80}, |Unable to determine the", has=r".{0,4000}?pci\.bus_id",
)  # fmt: skip
FAILURE: Final = _kind(
    "the error of nvidia-smi", SMI,
    r"NVIDIA-SMI has failed|Failed to initialize NVML|Unable to determine the|"
    r"No devices were found|(?:-?(?:ba)?sh: )?\S{0,40}nvidia-smi: |Command 'nvidia-smi' not found|"
    r"zsh: command not found: nvidia-smi|NVML library version: |NVIDIA-SMI couldn't find|"
    r"WARNING: infoROM",
    r"Make sure that|Please (?:also )?|Reboot the system",
)  # fmt: skip
LIST: Final = _kind(
    "nvidia-smi -L", SMI, r"GPU [0-9]{1,3}: [^(]{1,80}\(UUID: (?:GPU-|MIG-)", r"\s+MIG "
)
PYTORCH: Final = _kind(
    "PyTorch's collect_env", SMI,
    r"Collecting environment information|PyTorch version *: |GPU models and configuration *:|"
    r"Nvidia driver version *: ",
    r"GPU [0-9]{1,3}: |\[(?:pip[0-9]?|conda)\] |Versions of relevant libraries|CPU:|"
    r"Is (?:debug build|CUDA available|XNNPACK available) *: |cuDNN version|OS *: |GCC version",
    r"[ \t]+\S|(?!NVRM|nvidia|nouveau|pci|AMD-Vi|DMAR)[A-Za-z][\w ./()-]{1,60}: ",
    has=r"GPU models and configuration|Nvidia driver version",
)  # fmt: skip
NVLINK: Final = _kind(
    "nvidia-smi nvlink", "nvidia-smi-nvlink", LIST.begins.pattern,
    r"\s+Link [0-9]{1,2}[:,] |NVML: Unable to retrieve|Device does not have or support Nv|\s+MIG ",
    has=r"\s+Link [0-9]|NVML: |Device does not", is_joined=True,
)  # fmt: skip
MATRIX: Final = _kind(
    "nvidia-smi topo", "nvidia-smi-topo",
    r"\s*GPU[0-9]{1,3}(?:\s+(?:GPU|NIC)[0-9]{1,3}|\s+mlx\S{1,20})*"
    r"(?:\s+(?:CPU|NUMA|GPU NUMA) .*)?\s*$",
    r"\s*(?:GPU|NIC)[0-9]{1,3}\s+\S|\s*mlx\S{1,20}\s+\S",
    r"Legend:|NIC Legend:|\s+(?:X|SYS|NODE|PHB|PXB|PIX|SOC|NV#|OK|CNS|GNS|TNS|NS|DR|U)\s+=|"
    r"\s+NIC[0-9]{1,3}: ",
    has=r"\s*GPU[0-9]{1,3}\s+(?:X|OK|[A-Z]{2,4}[0-9]{0,2})\s",
)  # fmt: skip
LSPCI: Final = _kind(
    "lspci", "lspci",
    r"(?:[0-9a-f]{4,8}:)?[0-9a-f]{2}:[0-9a-f]{2}\.[0-7] (?:[A-Z0-9][^:]{1,80}|\"|[0-9a-f]{4}):|"
    r"[ |]*[-+\\]{1,3}\[[0-9a-f]{4}:[0-9a-f]{2}|"
    # Of a grep.
    r"\s*(?:LnkCap2?|LnkSta2?|LnkCtl[23]?|ACSC(?:ap|tl)|DevCap2?|DevCtl2?|DevSta|UE(?:Sta|Msk)|"
    r"CE(?:Sta|Msk)|SltCap|SltSta|SltCtl|RootC(?:tl|ap)):\s",
    r"\s+(?:Subsystem|Control|Status|Latency|Interrupt|NUMA|IOMMU|Region [0-9]|"
    r"Memory (?:at|behind)|I/O (?:ports|behind)|Expansion ROM|Bus|Capabilities|"
    r"(?:Dev|Lnk|Slt|Rt|Root|ACS|UE|CE)[A-Z]|Kernel (?:driver|modules)|Flags|"
    r"Physical Slot|DeviceName)|"
    # Where a web page has taken the indentation.
    r"(?:Subsystem|Control|Status|Latency|Interrupt|NUMA node|IOMMU group|Region [0-9]|Bus|BIST|"
    r"Capabilities|(?:Dev|Lnk|Slt|Root|ACS|UE|CE|ARI)[A-Z][A-Za-z0-9]{1,5}|Kernel driver in use|"
    r"Kernel modules|Flags|Physical Slot|DeviceName|Address|Secondary status|BridgeCtl|"
    r"(?:I/O|Memory|Prefetchable memory) behind bridge):\s|"
    r"(?:Expansion ROM|Memory|I/O ports) at |[A-Z][A-Za-z0-9]{2,20}[+-](?: |$)|Max(?:Payload|Read)",
    r"[ \t]+\S|[0-9a-f]{2,3}: [0-9a-f]{2} ", is_joined=True,
)  # fmt: skip
COMMAND_LINE: Final = _kind(
    "/proc/cmdline", "proc-cmdline",
    r"BOOT_IMAGE=\S{1,200} |(?:initrd|root|cryptdevice)=\S{1,200} \S", None, ends=r".",
)  # fmt: skip
UNAME: Final = _kind(
    "uname -r", "uname", r"[1-6]\.[0-9]{1,3}\.[0-9]{1,3}[\w.+~-]{0,80}\s*$", None, ends=r".",
)  # fmt: skip
LOG: Final = _kind(
    "kernel log", "kernel-log", r"-- (?:Boot|Reboot|Journal|Logs) ", "",
    rf"[ \t]+\S|{REST_OF_LINE.pattern}", is_joined=True,
)  # fmt: skip
NVBANDWIDTH_JSON: Final = _kind(
    "nvbandwidth", "nvbandwidth", r"\{\s*$", "", has=r"\s*\"nvbandwidth\" ?:", is_joined=True
)
JOURNAL: Final = _kind(
    "kernel log", "kernel-log",
    r"(?:data: |\x1e)?\{\"(?:__|_|MESSAGE|PRIORITY|SYSLOG)[A-Z_]{0,40}\"|\{\s*$|__CURSOR=|"
    r"\{ ?\"dmesg\" ?: ?\[|"
    r"\S.{10,60} \[s=[0-9a-f]{8,32};i=[0-9a-f]{1,16};b=",
    r"\s*\"[A-Z_a-z]{1,64}\" ?:|\s*[A-Z_][A-Z0-9_]{1,64}=|\s*[\]}\[{],?\s*$", r"[ \t]+\S",
    has=r".*(?:MESSAGE|\"msg\")", is_joined=True,
)  # fmt: skip
NCCL_LOG: Final = _kind(
    "NCCL's log", "nccl-log", r".{0,160}?\bNCCL (?:INFO|WARN) |NCCL version [0-9]", "",
    is_joined=True,
)  # fmt: skip

_NUMBERS: Final = r"\s*[0-9]{1,3}(?:\s+[0-9.]{1,12}|\s+N/A|\s+X)+\s*$"

KINDS: Final = (
    XML,
    QUERY,
    PIECE,
    TABLE,
    ROWS,
    PYTORCH,
    FAILURE,
    MATRIX,
    COMMAND_LINE,
    _kind(
        "uname -a", "uname", r"Linux \S{1,255} [0-9]{1,3}\.[0-9]{1,3}\S{0,80} .*(?:x86_64|aarch64)",
        None, ends=r".",
    ),
    _kind(
        "/proc/driver/nvidia/version", "nvidia-version", r"NVRM version: ", r"GCC version:",
        ends=r"GCC version:",
    ),
    _kind(
        "/etc/os-release", "os-release", r"(?:PRETTY_NAME|NAME|ID|VERSION_ID|VERSION)=",
        r"[A-Z][A-Z_]{1,40}=",
    ),
    _kind(
        "/etc/default/grub", "bootloader", r"GRUB_[A-Z_]{2,40}=", r"\s*#", head="/etc/default/grub",
    ),
    _kind(
        "dkms status", "dkms",
        r"[\w.+-]{1,64}(?:/|, ?)[^,:/\s]{1,64}(?:, [^,:\s]{1,80}, [^,:\s]{1,20})?: ?"
        r"(?:added|built|installed|broken)\b",
        "", is_joined=True,
    ),
    _kind(
        "mokutil --sb-state", "secure-boot", r"SecureBoot (?:enabled|disabled)", None, ends=r".",
        head="mokutil --sb-state",
    ),
    _kind(
        "dpkg -l", "packages",
        r"[uihrp][ncHUFWti] {1,3}[a-z0-9][a-z0-9+.:-]{1,80}\s+(?:[0-9]|<none>)|"
        r"\|\|/ Name|Desired=Unknown|"
        r"[a-z0-9][a-z0-9+.-]{1,80}\t\S{1,80}\t[a-z0-9]{1,20}\t[uihrp][ncHUFWti]",
        r"\|[ /|]|\+\+\+-", is_joined=True,
    ),
    _kind(
        "gpu_burn", "gpu-burn",
        r"Using compare file|Burning for [0-9]{1,9} seconds|Run length not specified|"
        r"[0-9.]{1,6}%\s+proc'd:|Tested [0-9]{1,3} GPUs:|Initialized device|"
        r"No clients are alive!|\s*GPU [0-9]{1,3}: (?:OK|FAULTY)\s*$",
        r"\s*GPU [0-9]{1,3}: |\s+Summary at|Results are |Size of each|Killing process|Freed memory|"
        r"Uninitted|done|Couldn't init|No clients are alive|FAILURE:|.{0,80}DIED!",
        is_joined=True,
    ),
    NVLINK,
    LIST,
    _kind(
        "p2pBandwidthLatencyTest", "p2p-bandwidth-test",
        r"\[P2P \(Peer-to-Peer\)|Device: ?[0-9]{1,3}, |Device=[0-9]{1,3} CAN|"
        r"P2P Connectivity Matrix|(?:Uni|Bi)directional P2P=|P2P=(?:En|Dis)abled Latency|"
        r"\[.{0,80}simpleP2P.{0,5}\] - Starting|CUDA-capable device count|"
        r"Verification error @ element|cudaMemcpyPeer / cudaMemcpy between|"
        r"(?:> )?Peer access from .{1,120} -> |Enabling peer access between GPU",
        r"\s*D\\D\s|\s*[GC]PU(?:\s+[0-9]{1,3})+\s*$|\*\*\*NOTE|So you can see|NOTE: The CUDA|"
        r"Peer access from |Two or more GPUs|Peer to Peer access|CUDA error|"
        r"Checking |Enabling |Allocating |Creating |cudaMemcpy|Preparing |Run kernel|Copy data|"
        r"Verification |Disabling |Shutting |Test |> |waiving test|" + _NUMBERS,
        r"[ \t]+\S", is_joined=True,
    ),
    _kind(
        "nvbandwidth", "nvbandwidth",
        r"nvbandwidth Version|(?:Running|Waiving) (?:host|device|all|one)_\S{1,80}\.|"
        r"Device [0-9]{1,3}: .{1,80} \([0-9a-f]{8}:",
        r"memcpy |SUM |COEFFICIENT|Waiv|ASSERT |Invalid value|Performance can|"
        r"WAIVED|CUDA Runtime|CUDA Driver|Driver Version: |Device [0-9]{1,3}: |"
        r"Built from|MPI version: |Additional system|ERROR|\[ERROR\]|NOTE: |" + _NUMBERS,
        r"[ \t]+\S", is_joined=True,
    ),
    _kind(
        "nccl-tests", "nccl-tests",
        r"#?\s*nThread [0-9]{1,4} nGpus|#\s+Using devices|#\s+Rank\s+[0-9]|#\s+size\s+count|"
        r"#? ?(?:Out of bounds values|Avg bus bandwidth)|# nccl-tests|"
        r".{0,120}?Test (?:NCCL|CUDA) failure|"
        r"\s*[0-9]{1,20}\s+[0-9]{1,20}\s+(?:float|half|double|bfloat16|u?int(?:8|32|64)|fp8_?\w{3,8})"
        r"(?:\s+[a-z]{3,6})?(?:\s+-?[0-9]{1,4})?(?:\s+[0-9.]{1,12}){3}\s+(?:[0-9]|N/A)",
        r"\s*(?:Using devices|Rank\s|size\s+count|\(B\)\s|out-of-place|\.\. \S{1,80} pid)|#|"
        r"\s*[0-9]{1,20}\s+[0-9]{1,20}\s+[a-z]{3,8}[0-9]{0,2}\s|\s+Rank\s+[0-9]",
        is_joined=True,
    ),
    JOURNAL,
    LSPCI,
)  # fmt: skip

_FIRST_LINES: Final = Pattern("|".join(f"({kind.begins.pattern})" for kind in KINDS))

# As people call the outputs of a section, where these are of several kinds.
NAMES: Final[Mapping[str, str]] = {
    **{kind.section: kind.name for kind in (*KINDS, LOG, NCCL_LOG)},
    SMI: TABLE.name,
    "uname": "uname",
    "kernel-log-previous": LOG.name,
    **{f"nvidia-smi-p2p-{what}": MATRIX.name for what in ("read", "write", "nvlink", "atomics")},
}

# The command to type for it. Of these the one is named that would decide most.
COMMANDS: Final = {
    SMI: "nvidia-smi -q",
    "kernel-log": "sudo dmesg",
    "lspci": "sudo lspci -Dnnvvv",
    "proc-cmdline": "cat /proc/cmdline",
    "nvidia-smi-topo": "nvidia-smi topo -m",
    "nvidia-smi-p2p-read": "nvidia-smi topo -p2p r",
    "nvidia-version": "cat /proc/driver/nvidia/version",
    "packages": "dpkg -l '*nvidia*' 'linux-*'",
    "dkms": "dkms status",
    "kernel-log-previous": "journalctl -k -b -1",
}


# Programs and packages, whose names begin like those of the kernel's modules.
_NO_MODULE: Final = re.compile(
    r"nvidia(?!(?:[-_](?:modeset|nvlink|uvm|nvswitch[0-9]{0,2}|drm|gpu|peermem|vgpu[a-z_-]{0,9}))?"
    r"(?::\s| [0-9a-f]{4}:[0-9a-f]{2}:))|"
    r"[a-z0-9_]{2,40} +[0-9]{3,9} +-?[0-9]{1,4}(?: |$)"  # of lsmod
)


# Of kinds whose lines look like prose, those that marks of Markdown or of prose may be around. None
# where people write in prose what to set.
_CERTAIN: Final[Mapping[str, Pattern | None]] = {
    LOG.section: Pattern(
        r"NVRM: |[a-z0-9_-]{1,40} [0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]: |"
        r"(?:\{[0-9]{1,9}\})?\[Hardware Error\]|INFO: task \S{1,80} blocked"
    ),
    "bootloader": None,
    "os-release": None,
    "proc-cmdline": None,
}


@lru_cache(maxsize=1024)  # prose repeats what it quotes, and logs their traces
def begun_by(line: str) -> tuple[Kind, str] | None:
    """The first kind that begins with it, and what is before it where all of it is indented."""
    if not line.strip():
        return None
    margin = margin_of(line)
    whole = _FIRST_LINES.match(line)
    inner = _FIRST_LINES.match(line[len(margin) :]) if margin else None
    found = [(one.lastindex or 0, before) for one, before in ((whole, ""), (inner, margin)) if one]
    if found:
        number, before = min(found)
        return KINDS[number - 1], before
    return (LOG, "") if LOG.begins.match(line) or is_log_line(line) else None


def is_certain(kind: Kind, line: str) -> bool:
    """Whether it is of that kind within prose too."""
    pattern = _CERTAIN.get(kind.section, kind.begins)
    if kind is LOG:
        stamped = stamps.read(line)
        return is_relevant(line) and (
            stamped.form is not None or (pattern and pattern.match(stamped.message)) is not None
        )
    return pattern is not None and pattern.match(line) is not None


def is_log_line(line: str) -> bool:
    stamped = stamps.read(line)
    if stamped.form is not None:
        return True
    is_kernels = looks_like_the_kernel(stamped.message) and not _NO_MODULE.match(stamped.message)
    return is_kernels and is_relevant(line)
