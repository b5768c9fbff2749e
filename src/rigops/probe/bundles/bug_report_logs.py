"""The kernel logs in NVIDIA's bug report: which lines are of this boot, and which of boots before.

The script shows dmesg, the driver's lines of three boots of the journal, and those of log files,
which go back for weeks and have the lines of the journal once more.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from itertools import chain
from typing import Final

from rigops.probe.kernel_log import stamps
from rigops.probe.kernel_log.stamps import Stamped
from rigops.probe.text import lines

_FIRST_WORDS: Final = "Linux version "
_KERNELS_FIRST_LINES: Final = 16 * 1024
_STAMP: Final = re.compile(r"^\[[^\]]{0,40}\] ?")
_ANOTHER_BOOT: Final = "-- Reboot --"  # as journalctl marks it


def of_this_boot(ring: str, journal: str, *, is_ring_complete: bool) -> tuple[str, bool]:
    """The ring buffer after the journal's earlier lines; whether that is the complete log."""
    if _FIRST_WORDS in ring[:_KERNELS_FIRST_LINES]:
        return ring, is_ring_complete
    known = {_STAMP.sub("", line) for line in ring.splitlines()}
    earlier = [
        line
        for line in journal.splitlines()
        if _STAMP.sub("", line.partition("kernel: ")[2]) not in known
    ]
    return "".join(f"{line}\n" for line in earlier) + ring, False


def without_repetition(journals: Sequence[str]) -> list[str]:
    """Of a boot that there is not, some journalctl show another one."""
    found: list[str] = []
    for journal in journals:
        first = next(iter(lines(journal)), "")
        found.append("" if any(first in lines(one) for one in found if first) else journal)
    return found


def boots_of(file: str) -> list[list[str]]:
    """The lines of a log file by boot, as far as it shows where one begins."""
    found: list[list[str]] = []
    before = 0.0
    for line in lines(file):
        stamped = stamps.read(line)
        if stamped.form is None:
            continue
        seconds = before if stamped.seconds is None else stamped.seconds
        if not found or seconds < before or stamped.message.startswith(_FIRST_WORDS):
            found.append([])
        found[-1].append(line)
        before = seconds
    return found


def last_boot_in(boots: Sequence[Sequence[str]], ring: str) -> str:
    """Empty where its beginning is not known, and where it is not the boot of the ring buffer.

    A log file that is not written any more ends with a boot of long ago.
    """
    read = list(map(stamps.read, boots[-1] if boots else ()))
    is_known = any(one.seconds is not None or one.message.startswith(_FIRST_WORDS) for one in read)
    is_this = is_known and not _is_of_another_boot(read, list(map(stamps.read, lines(ring))))
    return "".join(f"{line}\n" for line in boots[-1]) if is_this else ""


def _is_of_another_boot(file: Sequence[Stamped], ring: Sequence[Stamped]) -> bool:
    """Both have the driver's lines of the time that both show; a file has no others."""
    times = [one.seconds for one in ring if one.seconds is not None]
    said = {one.message for one in ring}
    inside = {
        one.message
        for one in file
        if times and one.seconds is not None and times[0] <= one.seconds <= times[-1]
    }
    driver = {message for message in said if message.startswith("NVRM: ")}
    written = {one.message for one in file}
    return bool((inside and not inside & said) or (driver and not driver & written))


def of_older_boots(files: Sequence[Sequence[str]], journals: Sequence[str]) -> str:
    """As journalctl shows several boots, up to the beginning of this one; empty for only one.

    `files`: the boots of a log file, `journals`: those of the journal, this one last. A line of
    the file that the journal has is of the boot that the journal says.
    """
    known = Counter(stamps.read(line).message for line in chain.from_iterable(map(lines, journals)))
    unknown: list[list[str]] = []
    for boot in reversed(files):
        unknown.append([])
        for line in reversed(boot):
            message = stamps.read(line).message
            if known[message] > 0:
                known[message] -= 1
            else:
                unknown[-1].append(line)
    older = [boot[::-1] for boot in reversed(unknown)]
    if not any(older) and not any(journals[:-2]):
        return ""
    older += [list(lines(journal)) for journal in journals[:-1]]
    return "".join(f"{line}\n" for boot in older if boot for line in (*boot, _ANOTHER_BOOT))
