"""Whether the journal outlives a boot."""

from __future__ import annotations

from rigops.doctor.check import Check
from rigops.doctor.examined import Examined
from rigops.doctor.finding import Evidence, Finding, fix_by_hand
from rigops.probe.sections.boots import SECTION as BOOTS
from rigops.probe.sections.boots import STORAGE


@Check("journal.persistent", needs=(BOOTS,), needs_gpu=False, fixes=("hands",))
def persistent(examined: Examined) -> Finding:
    """The journal is kept over boots.

    Looks for journals in /var/log/journal. Where there are none the journal is in memory, and what
    the kernel said before a freeze or a power cut is lost with it: a warning. A host without
    systemd's journal is skipped.
    """
    answer = examined.snapshot[BOOTS]
    boots = answer.value
    if boots is None:
        return Finding("unknown", "whether the journal is kept was not collected")
    if boots.is_persistent is None:
        if boots.is_empty and answer.is_complete:
            return Finding("skipped", "this host has no journal of systemd")
        return Finding("unknown", "whether the journal is kept could not be read")
    evidence = (Evidence(BOOTS.name, STORAGE),)
    if boots.is_persistent:
        return Finding("ok", "the journal is kept over boots", evidence)
    return Finding(
        "warn",
        "the journal is lost at each boot",
        evidence,
        why="After a freeze or a power cut nothing is left to read: a card that fell off the bus "
        "(Xid 79) then looks like a host that was switched off.",
        fix=fix_by_hand(
            "`sudo mkdir -p /var/log/journal && sudo systemctl restart systemd-journald`; where "
            "/etc/systemd/journald.conf has Storage=volatile, take that out first"
        ),
    )
