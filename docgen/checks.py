"""A page for each check, from what the check says of itself, and a list of all."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Final

from docgen.markdown import MADE, table
from rigops.doctor.registry import CHECKS

if TYPE_CHECKING:
    from rigops.doctor.check import Check

_WIDTH: Final = 100
_FIXES: Final = {
    "apply": "`rigops apply`",
    "apply+reboot": "`rigops apply` and a reboot",
    "bios": "a setting of the firmware",
    "hands": "by hand",
    "buy": "other hardware",
    "accept": "none; accept it",
}
_GROUPS: Final = {
    "acs": "ACS: the path between cards",
    "backup": "Backups",
    "bar1": "BAR1",
    "bench": "Benchmarks",
    "borg": "Backups",
    "btrfs": "Disks and file systems",
    "clk": "Clocks",
    "cmdline": "Kernel arguments",
    "container": "Containers",
    "cpu": "Processor and memory",
    "cuda": "CUDA",
    "disk": "Disks and file systems",
    "drv": "Driver",
    "ecc": "Memory of the cards",
    "iommu": "IOMMU",
    "mem": "Processor and memory",
    "nccl": "P2P and NCCL",
    "nvl": "P2P and NCCL",
    "p2p": "P2P and NCCL",
    "pci": "PCIe",
    "pkg": "Packages",
    "pwr": "Power",
    "ram": "Processor and memory",
    "remap": "Memory of the cards",
    "retired": "Memory of the cards",
    "rigops": "rigops on the host",
    "snap": "Snapshots",
    "tmp": "Temperature",
    "gpu": "Lost and failing cards",
    "xid": "Lost and failing cards",
}
_OTHERS: Final = "Others"
_HEAD: Final = f"""\
# Checks

{MADE}

`rigops doctor` runs all of them. `--only ID` and `--skip ID` choose, and a host is then asked only
what the chosen ones need. `rigops doctor --explain ID` shows one in the terminal.
"""
_NEEDS: Final = """
## What a page says

*Needs* names the sections of a bundle that a check looks into; a section that was not collected
leaves the check unknown, never healthy. A check that needs a GPU is skipped where there is none.
*Essential* means that the whole host is unknown where the check is.
"""


def pages() -> dict[str, str]:
    made = {f"checks/{check.id}.md": _page(check) for check in CHECKS}
    return {"checks/README.md": _index(), **made}


def _index() -> str:
    groups: dict[str, list[Check]] = {}
    for check in sorted(CHECKS, key=lambda check: check.id):
        name = _GROUPS.get(check.id.partition(".")[0], _OTHERS)
        groups.setdefault(name, []).append(check)
    parts = [_HEAD]
    for name in sorted(groups, key=lambda name: (name == _OTHERS, name.lower())):
        rows = [(f"[{one.id}]({one.id}.md)", one.title) for one in groups[name]]
        parts.append(f"\n## {name}\n\n{table(('check', 'what is healthy'), rows)}\n")
    return "".join([*parts, _NEEDS])


def _page(check: Check) -> str:
    names = [section.name for section in check.sections]
    needs = ["a GPU"] if check.needs_gpu else []
    needs += [f"`{name}`" for name in dict.fromkeys(names)]
    keys = ", ".join(f"`{key}`" for key in sorted(check.keys))
    facts = [
        f"Needs: {', '.join(needs) or 'nothing'}.",
        f"Fix: {', '.join(_FIXES[kind] for kind in check.fixes) or 'nothing to fix'}.",
        *(["Essential."] if check.essential else []),
        *([f"Essential where declared: {keys}."] if keys and not check.essential else []),
    ]
    text = textwrap.fill(check.explanation, _WIDTH, break_long_words=False, break_on_hyphens=False)
    lines = [textwrap.fill(one, _WIDTH - 2, break_on_hyphens=False) for one in facts]
    bullets = "\n".join("- " + one.replace("\n", "\n  ") for one in lines)
    return f"""\
# {check.id}

{MADE}

**{check.title}.**

{text}

{bullets}

Only this check: `rigops doctor --only {check.id}`. [All checks](README.md)
"""
