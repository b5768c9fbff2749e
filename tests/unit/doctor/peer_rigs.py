"""Rigs whose peer access is the subject, in the texts that they answer with."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rigops.concerns.registry import read
from tests.unit.doctor.examining import check_of, judge

if TYPE_CHECKING:
    from rigops.doctor.finding import Finding


_FUNCTION = (
    "0000:{:02x}:00.0 vendor=0x10de device=0x{} class=0x030000 rev=a1 driver=nvidia link=16.0,16 "
    "max=16.0,16 numa=0 bar1=268435456 path=/sys/devices/pci0000:00/0000:{:02x}:00.0\n"
)
_XML = """\
<?xml version="1.0" ?>
<nvidia_smi_log>
\t<driver_version>535.261.03</driver_version>
\t<attached_gpus>{}</attached_gpus>
{}</nvidia_smi_log>
"""
_GPU = """\
\t<gpu id="00000000:{:02X}:00.0">
\t\t<product_name>NVIDIA GPU</product_name>
\t\t<display_active>{}</display_active>
\t\t<uuid>GPU-{}</uuid>
\t</gpu>
"""
NCCL: Final = """\
== grep -m 1 vendor_id /proc/cpuinfo
vendor_id : {}
== /etc/nccl.conf
{}
== homes that cannot be looked into
== ls libnccl
"""
GTX_1060, RTX_3060, RTX_3090 = "1c03", "2504", "2204"
RTX_4090, V100, A6000 = "2684", "1db1", "2230"
FIRST: Final = 0x41


def bus(*devices: str) -> str:
    return "".join(
        _FUNCTION.format(FIRST + at, device, FIRST + at) for at, device in enumerate(devices)
    )


def matrix(cells: list[list[str]]) -> str:
    names = [f"GPU{at}" for at in range(len(cells))]
    rows = ["\t".join([f" {name}", *row]) for name, row in zip(names, cells, strict=True)]
    legend = "\n\nLegend:\n\n  X    = Self\n  OK   = Status Ok\n"
    return "\n".join(["\t".join([" ", *names]), *rows]) + legend


def every(count: int, cell: str) -> list[list[str]]:
    return [["X" if i == j else cell for j in range(count)] for i in range(count)]


def smi(count: int, *showing: int) -> str:
    cards = [
        _GPU.format(FIRST + at, "Enabled" if at in showing else "Disabled", at)
        for at in range(count)
    ]
    return _XML.format(count, "".join(cards))


def rig(
    *devices: str, cell: str = "CNS", way: str = "PHB", processor: str = "AuthenticAMD"
) -> dict[str, str]:
    count = len(devices)
    return {
        "pci": bus(*devices),
        "nvidia-smi-p2p-read": matrix(every(count, cell)),
        "nvidia-smi-p2p-write": matrix(every(count, cell)),
        "nvidia-smi-topo": matrix(every(count, way)).replace(" GPU", "GPU"),
        "nvidia-smi-xml": smi(count),
        "nccl": NCCL.format(processor, ""),
    }


def found(
    check: str, texts: dict[str, str], cut: dict[str, int] | None = None, **declared: object
) -> list[Finding]:
    spec = read(declared) if declared else None
    wanted = [check_of(check)]
    return judge(texts, spec, checks=wanted, concerns=frozenset(), codes=cut or {})


def look(
    check: str, texts: dict[str, str], cut: dict[str, int] | None = None, **declared: object
) -> Finding:
    (one,) = found(check, texts, cut, **declared)
    return one


def without(texts: dict[str, str], *names: str) -> dict[str, str]:
    return {name: text for name, text in texts.items() if name not in names}
