"""Kernel arguments that hide faults, contradict each other, or have no effect."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from rigops.concerns.kernel_args import state
from rigops.concerns.kernel_args.bootloader import grub
from rigops.dataclass import dataclass
from rigops.doctor.check import Check
from rigops.doctor.examined import Examined
from rigops.doctor.finding import Evidence, Finding, Fix, fix_by_hand
from rigops.probe.kernel_arguments import name as name_of
from rigops.probe.kernel_arguments import split, words
from rigops.probe.kernel_log.log_line import LogLine
from rigops.probe.sections.kernel_log import SECTION as KERNEL_LOG
from rigops.probe.sections.proc_cmdline import SECTION as PROC_CMDLINE

_PASSTHROUGH = frozenset({"iommu=pt", "iommu.passthrough=1", "iommu.passthrough=on"})
_IOMMU_OFF = ("amd_iommu=off", "intel_iommu=off", "iommu=off")
_REPAIR = frozenset(
    {
        "single", "recovery", "emergency", "rescue", "systemd.unit=rescue.target",
        "systemd.unit=emergency.target", "rd.break",
    }
)  # fmt: skip

_NOT_UNDERSTOOD: Final = re.compile(
    r"PCI: Unknown option `(?P<pci>[^']{1,80})'|"
    r"AMD-Vi: Unknown option - '(?P<amd_iommu>[^']{1,80})'|"
    r"DMAR: Unknown option - '(?P<intel_iommu>[^']{1,80})'|"
    r"Malformed early option '(?P<malformed>[^']{1,80})'|"
    r"Unknown kernel command line parameters \"(?P<several>.*)\", will be passed to user space"
)
# The kernel hands unknown words to user space, and most of them have their reader there.
_OF_A_RIG: Final = re.compile(r"iommu|acs|pci|nvidia|nouveau|aspm|vfio", re.IGNORECASE)
_INSTEAD_OF_IOMMU: Final = "iommu=pt passes DMA through"
_SPELLING: Final = "look up how the kernel's list of parameters spells it, or take it out"


@dataclass(frozen=True)
class Trouble:
    """`grave`: a warning; else only something to know. `argument`: as on the command line."""

    argument: str
    text: str
    why: str
    grave: bool = False


_SINGLE: Final = {
    "pci=noaer": Trouble(
        "",
        "hides PCIe errors",
        "With pci=noaer the kernel reports no PCIe errors: a bad riser or slot stays unseen.",
        grave=True,
    ),
    "iommu=soft": Trouble(
        "",
        "does not turn AMD's IOMMU off",
        "iommu=soft asks for bounce buffers; groups and translation stay. iommu=pt or "
        "amd_iommu=off is what people mean by it.",
    ),
    "mitigations=off": Trouble(
        "",
        "turns the protection against CPU faults off",
        "mitigations=off gains little for work on GPUs, and programs on this machine can read "
        "each other's memory.",
    ),
    "nouveau.modeset=1": Trouble(
        "",
        "asks nouveau to take the cards",
        "nouveau and the NVIDIA driver cannot both have a card: the first one keeps it.",
        grave=True,
    ),
    "nouveau.modeset=0": Trouble(
        "",
        "is left over from an installation",
        "A blacklist in /etc/modprobe.d keeps nouveau away; the argument is harmless.",
    ),
    "nomodeset": Trouble(
        "",
        "keeps drivers from setting display modes",
        "nomodeset is meant for a machine whose screen stays black; CUDA works without it.",
    ),
}
_ACS_OVERRIDE: Final = Trouble(
    "",
    "splits IOMMU groups on paper only",
    "pcie_acs_override is a patch that makes the kernel believe in an isolation which the "
    "hardware does not have. It does not make P2P work.",
    grave=True,
)
_BOOTED_FOR_REPAIR: Final = Trouble(
    "",
    "is a start for repair",
    "In rescue mode services do not start: no persistence, no power limits, maybe no driver.",
    grave=True,
)


@Check("cmdline.bad", needs=(PROC_CMDLINE,), fixes=("apply+reboot", "hands"))
def bad(examined: Examined) -> Finding:
    """No kernel argument hides faults.

    Looks for arguments that guides for GPU machines spread: pci=noaer (hides PCIe errors),
    pcie_acs_override (isolation on paper), iommu=soft, leftovers of nouveau, mitigations=off,
    contradictions such as amd_iommu=off with iommu=pt, and a start in rescue mode. Those that hide
    something or keep the driver away are warnings, the others information. Arguments without any
    effect are reported by cmdline.ignored.
    """
    snapshot = examined.snapshot
    running = snapshot[PROC_CMDLINE].value
    if running is None or not running.arguments:
        return Finding("unknown", "the kernel's command line could not be read")
    found = tuple(dict.fromkeys(_troubles(running.arguments)))
    if not found and not snapshot[PROC_CMDLINE].is_complete:
        return Finding("unknown", "the kernel's command line was not read to its end")
    if not found:
        return Finding("ok", "nothing on the kernel command line hides faults")
    grave = [one for one in found if one.grave]
    return Finding(
        "warn" if grave else "info",
        "; ".join(f"{one.argument} {one.text}" for one in found),
        (Evidence(PROC_CMDLINE.name, running.line),),
        why=" ".join(one.why for one in found),
        fix=_fix_troubles(examined, grave),
        data={"arguments": [one.argument for one in found]},
    )


def _troubles(arguments: Sequence[str]) -> Iterator[Trouble]:
    """`pci=` and `iommu=` take lists; of the same trouble twice, one is reported."""
    present = set(arguments)
    for argument in arguments:
        if argument in _REPAIR:
            yield _at(argument, _BOOTED_FOR_REPAIR)
        elif name_of(argument) == "pcie_acs_override":
            yield _at(argument, _ACS_OVERRIDE)
        for word in words(argument):
            if word in _SINGLE:
                yield _at(argument, _SINGLE[word])
    off = [one for one in _IOMMU_OFF if one in present]
    direct = [one for one in arguments if one in _PASSTHROUGH]
    if off and direct:
        yield Trouble(
            f"{off[0]} with {direct[0]}",
            "contradict each other",
            f"{off[0]} switches that IOMMU off, so {direct[0]} has nothing left to do there. "
            "Either of them is enough for P2P.",
        )


def _at(argument: str, trouble: Trouble) -> Trouble:
    return Trouble(argument, trouble.text, trouble.why, trouble.grave)


def _fix_troubles(examined: Examined, grave: list[Trouble]) -> Fix | None:
    if not grave:
        return None
    arguments = [one.argument for one in grave if one.argument not in _REPAIR]
    if not arguments:
        return fix_by_hand("`systemctl reboot`, and choose the first entry of the boot menu")
    declared = examined.spec.kernel_args or ()
    instead = (
        f"take {' '.join(arguments)} out of GRUB_CMDLINE_LINUX and GRUB_CMDLINE_LINUX_DEFAULT in "
        f"{grub.DEFAULTS} and grub.d (or of your bootloader's options), run `update-grub`, reboot"
    )
    if not set(arguments) <= set(declared):
        return fix_by_hand(instead)
    return _undeclare(arguments, declared, instead)


def _undeclare(gone: list[str], declared: tuple[str, ...], by_hand: str) -> Fix:
    return Fix(
        kind="apply+reboot",
        concern="kernel_args",
        declare={"kernel_args": [one for one in declared if one not in gone]},
        text=f"`rigops apply` takes {' '.join(gone)} off the kernel command line and reboots",
        by_hand=by_hand,
    )


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
    said = dict(_ignored_by_log(examined))
    found = {word: "" for one in running.arguments for word in state.known(one)}
    found |= {word: entry.line for word, entry in said.items()}
    if not found and not (
        running.arguments and snapshot[PROC_CMDLINE].is_complete and log.starts_at_boot
    ):
        return Finding("unknown", "not all of the command line and of this boot's log was read")
    if not found:
        return Finding("ok", "the kernel ignored no argument")
    in_inventory = [one for one in declared if _is_ignored(one, found)]
    lines = dict.fromkeys(filter(None, found.values()))
    evidence = [Evidence(KERNEL_LOG.name, line) for line in lines]
    if running.line:
        evidence.append(Evidence(PROC_CMDLINE.name, running.line))
    return Finding(
        "warn" if in_inventory else "info",
        f"the kernel ignores {', '.join(found)}",
        tuple(evidence),
        why="; ".join(f"instead of {word}: {_instead(word)}" for word in found) + ".",
        fix=_undeclare(
            in_inventory,
            declared,
            f"take {' '.join(in_inventory)} out of your bootloader's options, and reboot",
        )
        if in_inventory
        else None,
        data={"arguments": list(found)},
    )


def _ignored_by_log(examined: Examined) -> Iterator[tuple[str, LogLine]]:
    for entry in examined.snapshot[KERNEL_LOG].or_empty.matching(_NOT_UNDERSTOOD):
        said = _NOT_UNDERSTOOD.search(entry.message)
        for name, text in (said.groupdict() if said else {}).items():
            if text is None:
                continue
            if name == "several":
                yield from ((one, entry) for one in split(text) if _OF_A_RIG.search(name_of(one)))
            else:
                yield (text if name == "malformed" else f"{name}={text}"), entry


def _is_ignored(argument: str, found: dict[str, str]) -> bool:
    return bool({argument, name_of(argument), *words(argument)} & found.keys())


def _instead(word: str) -> str:
    if word in state.INSTEAD:
        return state.INSTEAD[word]
    if "acs" in name_of(word):
        return state.INSTEAD["pci=noacs"]
    return _INSTEAD_OF_IOMMU if "iommu" in name_of(word) else _SPELLING
