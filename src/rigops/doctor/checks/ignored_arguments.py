"""Kernel arguments that the kernel did not understand."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from rigops.concerns.kernel_args import state
from rigops.doctor.check import Check
from rigops.doctor.finding import Evidence, Finding, Fix
from rigops.probe.kernel_arguments import name as name_of
from rigops.probe.kernel_arguments import split, words
from rigops.probe.sections.kernel_log import SECTION as KERNEL_LOG
from rigops.probe.sections.proc_cmdline import SECTION as PROC_CMDLINE

if TYPE_CHECKING:
    from rigops.doctor.examined import Examined
    from rigops.probe.kernel_log.log_line import LogLine

_SAID: Final = re.compile(
    r"PCI: Unknown option `(?P<pci>[^']{1,80})'|"
    r"AMD-Vi: Unknown option - '(?P<amd_iommu>[^']{1,80})'|"
    r"DMAR: Unknown option - '(?P<intel_iommu>[^']{1,80})'|"
    r"Malformed early option '(?P<malformed>[^']{1,80})'|"
    r"Unknown kernel command line parameters \"(?P<several>.*)\", will be passed to user space"
)
# The kernel hands unknown words to user space, and most of them have their reader there.
_OF_A_RIG: Final = re.compile(r"iommu|acs|pci|nvidia|nouveau|aspm|vfio", re.IGNORECASE)
_PASSTHROUGH: Final = "iommu=pt passes DMA through"
_SPELLING: Final = "look up how the kernel's list of parameters spells it, or take it out"


@Check(
    "cmdline.ignored",
    needs=(PROC_CMDLINE, KERNEL_LOG),
    fixes=("apply+reboot",),
    cause_rank=135,
)
def ignored(examined: Examined) -> Finding:
    """The kernel understood every argument that is meant for a rig.

    Reads from the kernel log which words of its command line it did not know (`Unknown option`,
    `Malformed early option`, `Unknown kernel command line parameters`), and looks for pci=noacs and
    amd_iommu=on, which no kernel knows. They have no effect, whatever guides claim: information,
    and a warning where the inventory declares them. Words that programs other than the kernel read
    are not reported.
    """
    snapshot, declared = examined.snapshot, examined.spec.kernel_args or ()
    running, log = snapshot[PROC_CMDLINE].or_empty, snapshot[KERNEL_LOG].or_empty
    said = dict(_said(examined))
    found = {word: "" for one in running.arguments for word in state.known(one)}
    found |= {word: entry.line for word, entry in said.items()}
    if not found and not (
        running.arguments and snapshot[PROC_CMDLINE].is_complete and log.starts_at_boot
    ):
        return Finding("unknown", "not all of the command line and of this boot's log was read")
    if not found:
        return Finding("ok", "the kernel ignored no argument")
    in_inventory = [one for one in declared if _has(one, found)]
    lines = dict.fromkeys(filter(None, found.values()))
    evidence = [Evidence(KERNEL_LOG.name, line) for line in lines]
    if running.line:
        evidence.append(Evidence(PROC_CMDLINE.name, running.line))
    return Finding(
        "warn" if in_inventory else "info",
        f"the kernel ignores {', '.join(found)}",
        tuple(evidence),
        why="; ".join(f"instead of {word}: {_instead(word)}" for word in found) + ".",
        fix=_fix(in_inventory, declared) if in_inventory else None,
        data={"arguments": list(found)},
    )


def _said(examined: Examined) -> Iterator[tuple[str, LogLine]]:
    for entry in examined.snapshot[KERNEL_LOG].or_empty.matching(_SAID):
        said = _SAID.search(entry.message)
        for name, text in (said.groupdict() if said else {}).items():
            if text is None:
                continue
            if name == "several":
                yield from ((one, entry) for one in split(text) if _OF_A_RIG.search(name_of(one)))
            else:
                yield (text if name == "malformed" else f"{name}={text}"), entry


def _has(argument: str, found: dict[str, str]) -> bool:
    return bool({argument, name_of(argument), *words(argument)} & found.keys())


def _instead(word: str) -> str:
    if word in state.INSTEAD:
        return state.INSTEAD[word]
    if "acs" in name_of(word):
        return state.INSTEAD["pci=noacs"]
    return _PASSTHROUGH if "iommu" in name_of(word) else _SPELLING


def _fix(in_inventory: list[str], declared: tuple[str, ...]) -> Fix:
    gone = " ".join(in_inventory)
    return Fix(
        kind="apply+reboot",
        concern="kernel_args",
        declare={"kernel_args": [one for one in declared if one not in in_inventory]},
        text=f"`rigops apply` takes {gone} off the kernel command line and reboots",
        by_hand=f"take {gone} out of your bootloader's options, and reboot",
    )
