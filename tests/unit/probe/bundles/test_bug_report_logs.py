"""The log members of a bug report: lines of older boots are boots of their own.

Layouts as nvidia-bug-report.sh of 396, 430, 440, 535 and 580 writes them.
"""

from __future__ import annotations

import pytest

from rigops.doctor.views.incidents import incidents
from rigops.probe.bundles import bug_report
from rigops.probe.sections.nvidia_smi_xml import SECTION as SMI
from rigops.probe.snapshot import HostSnapshot
from tests.unit.doctor.examining import catalog
from tests.unit.probe.bundles.test_bug_report import RULE, read, report

RING = (
    "[    0.000000] Linux version 6.1.0-18-amd64 (debian-kernel@lists.debian.org)\n"
    "[    4.000000] NVRM: loading NVIDIA UNIX x86_64 Kernel Module  525.60.13  Wed\n"
)
LOADING = "NVRM: loading NVIDIA UNIX x86_64 Kernel Module  525.60.13  Wed"
DROP = "NVRM: Xid (PCI:0000:0a:00): 79, pid=1, GPU has fallen off the bus."
FAULT = "NVRM: Xid (PCI:0000:0b:00): 31, pid=4242, name=python3, Ch 00000010"


def found(scanned: str, ring: str = RING) -> list[tuple[int, str, int]]:
    """Incidents of a report with these members between its markers, and this dmesg."""
    text = report()
    begin, end = text.index("  /var/log/kern.log:"), text.index("Using built-in specs.")
    whole = f"{text[:begin]}{scanned}\n{RULE}dmesg:\n\n{ring}{RULE}{text[end:]}"
    found = incidents(HostSnapshot(read(whole)), catalog())
    return [(one.number, one.boot, one.count) for one in found]


def journal(boot: int, *messages: str, day: int = 2) -> str:
    rows = "".join(f"Mar {day:02d} 20:00:02 trp64 kernel: {one}\n" for one in messages)
    return f"\n  journalctl -b -{boot}:\n{rows}"


def kern_log(*rows: tuple[int, float, str], head: str = "  /var/log/kern.log:") -> str:
    lines = "".join(
        f"Mar  {day} 20:00:02 trp64 kernel: [{up:12.6f}] {said}\n" for day, up, said in rows
    )
    return f"\n{head}\n{lines}"


@pytest.mark.parametrize(
    "head",
    [
        "  /var/log/kern.log:",
        "  /var/log/kernel.log:",
        "  /var/log/messages:",
        "*** /var/log/kern.log",
        "*** /var/log/syslog",
    ],
)
def test_a_log_file_is_of_the_boots_that_its_times_say(head: str) -> None:
    file = kern_log((1, 4.0, LOADING), (1, 900.0, DROP), (2, 4.0, LOADING), head=head)

    assert found(file) == [(79, "previous", 1)]


def test_the_last_boot_of_a_log_file_is_this_one_where_there_is_no_journal() -> None:
    file = kern_log((1, 900.0, FAULT), (2, 4.0, LOADING), (2, 500.0, DROP))
    ring = "[  9000.000000] usb 1-1: reset\n"

    assert sorted(found(file, ring)) == [(31, "previous", 1), (79, "current", 1)]


def test_a_log_file_without_times_since_the_boot_shows_where_the_kernel_began() -> None:
    rows = (FAULT, "Linux version 6.1.0-18-amd64 (x)", DROP)
    lines = "".join(
        f"2023-03-02T20:0{minute}:02.000000-03:00 trp64 kernel: {one}\n"
        for minute, one in enumerate(rows)
    )
    ring = "[  9000.000000] usb 1-1: reset\n"

    assert sorted(found(f"\n*** /var/log/kern.log\n{lines}", ring)) == [
        (31, "previous", 1),
        (79, "current", 1),
    ]


@pytest.mark.parametrize(
    "ring",
    [
        # What the driver said later is in no file any more; and what the file has of that time is
        # not in the ring buffer.
        f"[ 8999.000000] {LOADING}\n[ 9000.000000] usb 1-1: reset\n",
        "[  400.000000] usb 1-1: reset\n[ 9000.000000] usb 1-1: reset\n",
        RING.replace("525.60.13", "550.54.14") + "[ 9000.000000] usb 1-1: reset\n",
    ],
)
def test_a_log_file_that_nobody_writes_any_more_is_of_older_boots(ring: str) -> None:
    file = kern_log((1, 900.0, FAULT), (2, 4.0, "NVRM: loading 470"), (2, 500.0, DROP))

    assert sorted(found(file, ring)) == [(31, "older", 1), (79, "previous", 1)]


def test_what_the_journal_has_too_is_no_second_event() -> None:
    file = kern_log((1, 4.0, LOADING), (1, 900.0, FAULT), (2, 4.0, LOADING), (2, 500.0, DROP))
    members = file + journal(0, LOADING, DROP) + journal(1, LOADING, FAULT, day=1)

    assert sorted(found(members, RING + f"[  500.000000] {DROP}\n")) == [
        (31, "previous", 1),
        (79, "current", 1),
    ]


def test_the_same_xid_in_an_older_boot_is_one_of_that_boot() -> None:
    file = kern_log((1, 4.0, LOADING), (1, 9.0, DROP), (2, 4.0, LOADING), (2, 500.0, DROP))
    members = file + journal(0, LOADING, day=3) + journal(1, LOADING, DROP)

    assert found(members) == [(79, "older", 1), (79, "previous", 1)]


def test_the_boot_before_the_previous_one_is_read() -> None:
    members = "".join(
        (journal(0, LOADING, day=3), journal(1, LOADING), journal(2, LOADING, DROP, day=1))
    )

    assert found(members) == [(79, "older", 1)]


def test_a_boot_that_the_journal_shows_twice_is_one_boot() -> None:
    members = journal(0, LOADING, DROP) + journal(1, LOADING, DROP) + journal(2, LOADING, DROP)

    assert found(members, "[  500.000000] " + DROP + "\n") == [(79, "current", 1)]


def test_lines_that_are_no_log_are_left_out() -> None:
    assert found("\n  /var/log/kern.log:\nBinary file /var/log/kern.log matches\n") == []


PROCESSES = """\
    Processes
        GPU instance ID                   : N/A
        Process ID                        : 1200
            Type                          : G
            Name                          : /usr/lib/xorg/Xorg
            Used GPU Memory               : 30 MiB
"""


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_cards_with_processes_are_complete(end: str) -> None:
    uuid = "    GPU UUID                              : GPU-6f1c9f0e-2a41-8c55-0e3a-6b7b1e1f2d3c\n"
    text = report().replace("Attached GPUs                             : 2", "Attached GPUs : 1")
    text = text.replace(f"{uuid}\n/usr/bin/nvidia-smi", f"{uuid}{PROCESSES}\n/usr/bin/nvidia-smi")
    smi = HostSnapshot(read(text.replace("\n", end)))[SMI].value

    assert smi is not None
    assert smi.is_complete
    cut = text[: text.index("30 MiB") + len("30 MiB\n")]
    assert not bug_report.read([cut.encode()], host="x").sections["nvidia-smi-xml"].is_complete
