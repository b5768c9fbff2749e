"""What was recognized of a paste, what was not, and what to paste besides."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING

from rigops.probe.bundle import MOST_LINES
from rigops.probe.pastes.kinds import COMMANDS

if TYPE_CHECKING:
    from rigops.doctor.check import Check
    from rigops.doctor.finding import Finding
    from rigops.probe.bundle import Paste


def notes_of_paste(
    paste: Paste, collected: Collection[str], findings: Iterable[Finding], checks: Iterable[Check]
) -> list[str]:
    """`collected` are the sections that the paste held."""
    found = [f"recognized: {', '.join(paste.recognized)}"]
    if paste.left_out:
        kept = f"of each file the last {MOST_LINES} are read"
        found.append(f"left out: {paste.left_out} lines at the beginning; {kept}")
    if others := paste.others:
        lines = f"{len(others)} lines, the first is" if len(others) > 1 else "one line,"
        found.append(f"not recognized: {lines} {others[0]}")
    if len(paste.hosts) > 1:
        found.append(
            f"prompts of several hosts ({', '.join(paste.hosts)}), judged as one machine; "
            "give the outputs of each in a file of its own"
        )
    sections = {check.id: check.sections for check in checks}
    decided: Counter[str] = Counter()
    for finding in findings:
        if finding.status == "unknown":
            asked = {one.name for one in sections.get(finding.id, ())} - set(collected)
            decided.update(dict.fromkeys(asked & set(COMMANDS), 1 + 2 * finding.essential))
    if decided:
        section = max(COMMANDS, key=lambda name: decided[name])  # of equals the first
        found.append(
            f"a paste is all there is to judge by; more is decided by: {COMMANDS[section]}"
        )
    return found
