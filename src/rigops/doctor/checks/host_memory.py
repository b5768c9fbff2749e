"""The host's memory: its modules and channels, and the errors that ECC has counted."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from typing import Final

from rigops.doctor.check import Check
from rigops.doctor.examined import Examined
from rigops.doctor.finding import Evidence, Finding, fix_by_hand
from rigops.doctor.known_lines import explaining
from rigops.doctor.views import kernel_logs
from rigops.probe.sections.boot import SECTION as BOOT
from rigops.probe.sections.kernel_log import KERNEL_LOG_PREVIOUS
from rigops.probe.sections.kernel_log import SECTION as KERNEL_LOG
from rigops.probe.sections.memory import SECTION as MEMORY
from rigops.probe.sections.memory import Memory, MemorySlot
from rigops.probe.snapshot import Answer

_SHOWN: Final = 8
_LEAST_SHARE: Final = 0.85  # of the modules that the kernel has: firmware and graphics take some
_RESEAT = (
    "power off, reseat the modules and look into the board's manual which slots belong together; "
    "the BIOS lists what it finds; test a module that stays away alone, in another slot"
)


@Check(
    "ram.ecc",
    needs=(KERNEL_LOG_PREVIOUS, KERNEL_LOG, MEMORY),
    needs_gpu=False,
    fixes=("hands",),
    cause_rank=52,
)
def ecc(examined: Examined) -> Finding:
    """The host's memory reports no errors.

    Reads the kernel logs of this boot and of the one before for errors of memory that EDAC or the
    firmware counts, and the counters of EDAC, where the log has none. Corrected ones are a warning:
    a module that errs often fails soon. An error that could not be corrected is a failure.
    """
    counters = examined.snapshot[MEMORY].or_empty.counters
    lost = [one for one in counters if one.uncorrected]
    counted = lost or [one for one in counters if one.corrected]
    if not counted or (not lost and explaining(examined, "ram.ecc", least="warn")):
        return kernel_logs.clean(examined.snapshot, "memory error")
    modules = [one for one in counted if one.is_module] or counted
    named = ", ".join(
        f"{one.label}: {one.uncorrected if lost else one.corrected}" for one in modules[:_SHOWN]
    )
    return Finding(
        "fail" if lost else "warn",
        f"EDAC counts errors of the host's RAM, {'not ' if lost else ''}corrected ({named})",
        tuple(Evidence(MEMORY.name, one.line) for one in modules[:_SHOWN]),
        why="Data was wrong: programs crash, or results are wrong."
        if lost
        else "Each was corrected. A module that goes on like this is worn, badly seated, or runs "
        "too fast; the next error may be one that cannot be corrected.",
        fix=fix_by_hand(
            "run the RAM at its own clocks (no XMP, EXPO or overclocking), reseat the modules, "
            "test them one by one (memtest86+), and replace the one that errs"
        ),
    )


@Check("mem.dimm", needs=(MEMORY, BOOT), needs_gpu=False, fixes=("hands",))
def modules(examined: Examined) -> Finding | list[Finding]:
    """All memory modules are at work, in every channel.

    Compares what dmidecode lists with the memory that the kernel has: a module that is seated and
    not used is a warning. So are channels of which a part that does not divide them evenly has
    modules, such as 3 of 4: one has mostly lost contact. Other empty channels, and modules below
    their own speed, are information. Without root it is unknown; it is skipped without dmidecode
    and in a virtual machine.
    """
    answer = examined.snapshot[MEMORY]
    memory = answer.value
    if examined.snapshot[BOOT].or_empty.is_virtual_machine:
        return Finding("skipped", "a virtual machine: its memory modules are those of its host")
    if memory is None or not memory.modules:
        return _not_listed(answer)
    found = [one for one in (_unused(memory), *_channels(memory), _slow(memory)) if one]
    if found:
        return found
    if not answer.is_complete or any(one.mib is None for one in memory.slots or ()):
        return Finding("unknown", "the list of memory modules could not be read to its end")
    return Finding("ok", _sizes(memory.modules), _cited(memory.modules))


def _not_listed(answer: Answer[Memory]) -> Finding:
    memory = answer.or_empty
    if memory.slots is not None:
        return Finding("unknown", "dmidecode lists no module with a size", _cited(memory.slots))
    if memory.total_line and not answer.without_root:
        return Finding("skipped", "dmidecode is not installed, or lists no memory modules")
    why = "it takes root" if answer.without_root else "they were not collected"
    return Finding("unknown", f"which memory modules there are is not known: {why}")


def _cited(slots: Sequence[MemorySlot]) -> tuple[Evidence, ...]:
    lines = dict.fromkeys(line for one in slots for line in one.lines)
    return tuple(Evidence(MEMORY.name, line) for line in [*lines][:_SHOWN])


def _sizes(found: Sequence[MemorySlot]) -> str:
    """4 modules of 32 GiB DDR4."""
    kinds = Counter((one.mib or 0, one.kind) for one in found)
    return " and ".join(
        f"{count} module{'s' if count > 1 else ''} of {mib / 1024:g} GiB {kind}".rstrip()
        for (mib, kind), count in kinds.items()
    )


def _unused(memory: Memory) -> Finding | None:
    total = sum(one.mib or 0 for one in memory.modules)
    smallest = min(one.mib or 0 for one in memory.modules)
    has = (memory.total_kib or 0) / 1024
    if not has or has >= total * _LEAST_SHARE or total - has < smallest * _LEAST_SHARE:
        return None
    return Finding(
        "warn",
        f"the kernel has {has / 1024:.0f} GiB of {total / 1024:.0f} GiB of memory: "
        f"{_sizes(memory.modules)}",
        (Evidence(MEMORY.name, memory.total_line), *_cited(memory.modules)),
        why="The firmware has taken a module out, as it does when a test at the start fails. Less "
        "often mem= on the kernel command line, or graphics in the CPU, take as much.",
        fix=fix_by_hand(_RESEAT),
    )


def _channels(memory: Memory) -> Iterator[Finding]:
    """Of each processor, or controller."""
    groups: dict[str, dict[str, list[MemorySlot]]] = defaultdict(lambda: defaultdict(list))
    for slot in memory.slots or ():
        if channel := slot.channel:
            groups[channel[0]][channel[1]].append(slot)
    for group, channels in groups.items():
        used = [name for name, slots in channels.items() if any(one.mib for one in slots)]
        empty = [name for name in channels if name not in used]
        if not used or not empty:
            continue
        is_odd = len(used) > 1 and len(used) % 2 == 1 and len(channels) % len(used) != 0
        where = f" of {group}" if len(groups) > 1 else ""
        yield Finding(
            "warn" if is_odd else "info",
            f"{len(used)} of {len(channels)} memory channels{where} have modules "
            f"({', '.join(empty)} without)",
            _cited([slot for name in empty for slot in channels[name]]),
            why="Memory is as fast as its channels together: what a model keeps in the host's "
            "memory waits for it."
            + (" So odd a number is rarely meant: a module may have no contact." if is_odd else ""),
            fix=fix_by_hand(_RESEAT) if is_odd else None,
        )


def _slow(memory: Memory) -> Finding | None:
    slow = [
        one for one in memory.modules if one.speed and one.configured and one.configured < one.speed
    ]
    if not slow:
        return None
    first = slow[0]
    return Finding(
        "info",
        f"memory runs at {first.configured} MT/s; its modules can do {first.speed}",
        _cited(slow),
        why="The processor, the number of modules or the BIOS (no XMP or EXPO profile) sets this. "
        "Slower memory is not less stable.",
    )
