"""-q and -q -x: the document as text and as XML."""

import time
from collections.abc import Sequence

from .smi_document import Node, document
from .smi_view import Driver, View

_WIDE_FROM = 570
_HEXADECIMAL = ("pci_bus", "pci_device", "pci_domain", "pci_device_id", "pci_sub_system_id",
                "pci_base_class", "pci_sub_class")  # fmt: skip


def now() -> str:
    return time.strftime("%a %b %e %H:%M:%S %Y")


def _escape(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _xml(node: Node, depth: int, lines: list[str]) -> None:
    if not node.tag:
        return
    indent = "\t" * depth
    if node.children is None:
        lines.append(f"{indent}<{node.tag}>{_escape(node.value)}</{node.tag}>")
        return
    lines.append(f"{indent}<{node.tag}>")
    if not node.children and node.value and node.tag != "processes":
        lines.append(f"{indent}\t{node.value}")
    for child in node.children:
        _xml(child, depth + 1, lines)
    lines.append(f"{indent}</{node.tag}>")


def xml(views: Sequence[View], driver: Driver, attached: int) -> str:
    lines = [
        '<?xml version="1.0" ?>',
        '<!DOCTYPE nvidia_smi_log SYSTEM "nvsmi_device_v12.dtd">',
        "<nvidia_smi_log>",
        f"\t<timestamp>{now()}</timestamp>",
        f"\t<driver_version>{driver.version}</driver_version>",
        f"\t<cuda_version>{driver.cuda}</cuda_version>",
        f"\t<attached_gpus>{attached}</attached_gpus>",
    ]
    for view in views:
        lines.append(f'\t<gpu id="{view.gpu.bus_id}">')
        for _, nodes in document(view):
            for node in nodes:
                _xml(node, 2, lines)
        lines += ["\t</gpu>", ""]
    return "\n".join([*lines, "</nvidia_smi_log>", ""])


def _text(node: Node, depth: int, width: int, lines: list[str]) -> None:
    indent = "    " * depth
    if not node.label:
        for child in node.children or () if node.tag == "supported_mem_clock" else ():
            _text(child, depth, width, lines)
        return
    if node.children is None:
        value = f"0x{node.value}" if node.tag in _HEXADECIMAL else node.value
        lines.append(f"{indent + node.label:<{width}}: {value}")
    elif node.children:
        lines.append(f"{indent}{node.label}")
        for child in node.children:
            _text(child, depth + 1, width, lines)
    else:
        lines.append(f"{indent + node.label:<{width}}: {node.value}")


def text(views: Sequence[View], driver: Driver, attached: int, sections: Sequence[str] = ()) -> str:
    width = 55 if driver.branch >= _WIDE_FROM else 42
    lines = [
        "",
        "==============NVSMI LOG==============",
        "",
        f"{'Timestamp':<{width}}: {now()}",
        f"{'Driver Version':<{width}}: {driver.version}",
        f"{'CUDA Version':<{width}}: {driver.cuda}",
        "",
        f"{'Attached GPUs':<{width}}: {attached}",
    ]
    for view in views:
        lines.append(f"GPU {view.gpu.bus_id}")
        for section, nodes in document(view):
            # Without -d everything but the long list of clocks and accounts.
            wanted = section in sections if sections else section != "SUPPORTED_CLOCKS"
            for node in nodes if wanted else ():
                _text(node, 1, width, lines)
        lines.append("")
    return "\n".join(lines) + "\n"
