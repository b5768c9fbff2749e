"""Kernel logs in every form that people and programs keep them in."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rigops.probe.kernel_log.parser import MOST_EVENTS, MOST_LINES, parse
from tests.corpus import CORPUS
from tests.unit.patterns import slow_growth

if TYPE_CHECKING:
    from collections.abc import Callable

    from rigops.probe.kernel_log.events import KernelLog

FIXTURES = Path(__file__).parents[2] / "fixtures/kernel-log"
SAID = (
    "NVRM: Xid (PCI:0000:05:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus."
)

# File: log lines, (number, address, only in words) of each Xid, devices of each fault, unparsed.
ROWS: dict[str, tuple[int, list[tuple[int, str | None, bool]], list[str | None], int]] = {
    "healthy.journal.txt": (10, [], [], 0),
    "off-the-bus.dmesg.txt": (
        11,
        [(79, "0000:0f:00.0", False), (79, "0000:0f:00.0", True), (45, "0000:0f:00.0", False)],
        [],
        0,
    ),
    "page-faults.mail.txt": (8, [], ["0000:01:00.0", "0000:41:00.0", "0000:42:00.0"], 0),
    "dmar.syslog.txt": (5, [], ["0000:0a:00.0", "0000:03:00.0"], 0),
    "other-troubles.human.txt": (10, [(79, "0000:41:00.0", True)], [], 0),
    "two-boots.kern.log.txt": (
        4,
        [(79, "0000:0a:00.0", False), (31, "0000:0a:00.0", False)],
        [],
        0,
    ),
}
REAL_ROWS: dict[str, tuple[int, list[tuple[int, str | None, bool]], list[str | None], int]] = {
    "04-kernel-log/gpud-fabricmanager.log": (0, [], [], 77),
    "04-kernel-log/gpud-kmsg1.txt": (47, [], [], 0),
    "04-kernel-log/gpud-kmsg2-peermem.txt": (8, [], [], 0),
    "04-kernel-log/gpud-nccl-segfault.dmesg.txt": (2, [], [], 0),
    "04-kernel-log/stas-a100-xid63.dmesg.txt": (1, [(63, "0000:10:1c.0", False)], [], 0),
}


def row(log: KernelLog) -> tuple[int, list[tuple[int, str | None, bool]], list[str | None], int]:
    xids = [(one.number, one.address, one.bus_drop) for one in log.xids]
    faults = [one.address for one in log.iommu_faults]
    return log.total_lines, xids, faults, len(log.unparsed)


@pytest.mark.parametrize("file", ROWS)
def test_logs_of_every_shape(file: str) -> None:
    assert row(parse((FIXTURES / file).read_text())) == ROWS[file]


def test_every_fixture_has_its_row() -> None:
    assert set(ROWS) == {path.name for path in FIXTURES.iterdir()}


@pytest.mark.corpus
@pytest.mark.parametrize("file", REAL_ROWS)
def test_logs_of_real_machines(file: str) -> None:
    text = (CORPUS / file).read_bytes().decode("utf-8", "replace")

    assert row(parse(text)) == REAL_ROWS[file]


@pytest.mark.corpus
def test_every_real_log_has_its_row() -> None:
    folder = CORPUS / "04-kernel-log"

    assert set(REAL_ROWS) == {
        str(path.relative_to(CORPUS)) for path in folder.rglob("*") if path.is_file()
    }


@pytest.mark.parametrize(
    ("before", "at", "seconds"),
    [
        ("", None, None),
        ("[   12.345678] ", None, 12.345678),
        ("[   12.345678][  T123] ", None, 12.345678),
        ("<4>[   12.345678] ", None, 12.345678),
        ("[   12.345678] kernel: ", None, 12.345678),
        ("[   12.345678] rig kernel: ", None, 12.345678),
        ("[Fri Mar  3 04:23:22 2023] ", None, None),
        ("[五 11月  3 04:23:22 2023] ", None, None),
        ("[  +6.010643] ", None, None),
        ("[Jul28 00:03] ", None, None),
        ("[<    6.010643>] ", None, None),
        ("Jul 22 15:36:45 rig kernel: ", None, None),
        ("Jul 22 15:36:45 rig kernel: [    7.230000] ", None, 7.23),
        ("Okt 22 15:36:45 rig kernel: ", None, None),
        ("11月 22 15:36:45 rig kernel: ", None, None),
        ("2025-07-13T05:57:55.113798+08:00 rig kernel: ", "2025-07-12T21:57:55Z", None),
        ("2025-07-13T05:57:55.113798+08:00 rig kernel: [  7.25] ", "2025-07-12T21:57:55Z", 7.25),
        ("2025-07-13T05:57:55+0800 rig kernel: ", "2025-07-12T21:57:55Z", None),
        ("2025-07-13T05:57:55 rig kernel: ", None, None),
        ("Sun 2025-07-13 05:57:55 UTC rig kernel: ", "2025-07-13T05:57:55Z", None),
        ("Sun 2025-07-13 05:57:55 CEST rig kernel: ", None, None),
        ("1752386275.113798 rig kernel: ", "2025-07-13T05:57:55Z", None),
        ("kern  :warn  : 2025-01-21T04:41:44,285060-05:30 ", "2025-01-21T10:11:44Z", None),
        ("kern  :warn  : [   12.300000] ", None, 12.3),
        ("4,3964,206764307,-;", None, 206.764307),
        ("4,3964,206764307,-,caller=T12;", None, 206.764307),
        ("> > [   12.345678] ", None, 12.345678),
        ("    [   12.345678] ", None, 12.345678),
        ("\x1b[32m[   12.345678] \x1b[0m", None, 12.345678),
    ],
)
def test_what_stands_before_a_message(before: str, at: str | None, seconds: float | None) -> None:
    log = parse(f"{before}{SAID}\r\n")

    (found,) = log.xids
    assert found.entry.message == SAID
    assert (found.entry.at, found.entry.seconds) == (at, seconds)
    assert (found.number, found.address, found.process) == (79, "0000:05:00.0", None)
    assert found.detail == "GPU has fallen off the bus."
    assert log.total_lines == 1
    assert not log.unparsed


@pytest.mark.parametrize(
    ("said", "number", "address", "process", "detail"),
    [
        ("(PCI:0000:41:00): 62, 22262696 00007b18", 62, "0000:41:00.0", None, "22262696 00007b18"),
        ("(0000:01:00): 13, 0001 00000000", 13, "0000:01:00.0", None, "0001 00000000"),
        ("(PCI:0000:01:00 GPU-I:05): 94, pid=7, name=x, y", 94, "0000:01:00.0", "x", "y"),
        ("(PCI:00010000:01:00): 8, pid=7", 8, "10000:01:00.0", "pid 7", ""),
        (
            "(PCI:0000:10:1C): 63, pid=1896, Row Remapper: New row marked",
            63,
            "0000:10:1c.0",
            "pid 1896",
            "Row Remapper: New row marked",
        ),
        (
            "(PCI:0000:01:00): 119, pid=9, name=nvidia-persiste, Timeout after 6s of waiting",
            119,
            "0000:01:00.0",
            "nvidia-persiste",
            "Timeout after 6s of waiting",
        ),
        (
            "(PCI:0000:01:00): 154, GPU recovery action changed from 0x0 (None) to 0x2 (Node)",
            154,
            "0000:01:00.0",
            None,
            "GPU recovery action changed from 0x0 (None) to 0x2 (Node)",
        ),
        *(
            (f"(PCI:0000:01:00): {one}, pid=1, name=a", one, "0000:01:00.0", "a", "")
            for one in (31, 32, 43, 44, 45, 56, 109, 120, 143)
        ),
    ],
)
def test_forms_of_an_xid(
    said: str, number: int, address: str, process: str | None, detail: str
) -> None:
    (found,) = parse(f"[    1.0] NVRM: Xid {said}\n").xids

    assert (found.number, found.address) == (number, address)
    assert (found.process, found.detail) == (process, detail)


@pytest.mark.parametrize(
    "line",
    [
        "[  5.0] NVRM: _kgspLogXid119: ****",
        "[  5.0] nvidia-nvswitch3: SXid (PCI:0000:c5:00.0): 12028, Non-fatal",
        "2025-07-13T05:57:55+0800 rig gpud[12]: NVRM: Xid (PCI:0000:05:00): 119, pid=1",
        "Jul 22 15:36:45 rig python3: NVRM: Xid (PCI:0000:05:00): 119, pid=1",
        "WGlkIFhpZCBOVlJNOiBYaWQgKFBDSTowMDAwOjA1OjAwKTogNzk7Xid79NVRM",
        "[  5.0] usb 1-1: device has fallen off the bus",
        "[  5.0] NVRM: Xid",
    ],
)
def test_what_is_no_xid(line: str) -> None:
    assert parse(f"{line}\n").xids == ()


@pytest.mark.parametrize(
    ("line", "address"),
    [
        ("NVRM: GPU at 0000:05:00.0 has fallen off the bus.", "0000:05:00.0"),
        ("NVRM: GPU 0000:05:00.0: GPU has fallen off the bus.", "0000:05:00.0"),
        ("NVRM: GPU has fallen off the bus", None),
    ],
)
def test_a_lost_card_in_words_only(line: str, address: str | None) -> None:
    (found,) = parse(f"[ 1.0] {line}\n").xids

    assert (found.number, found.address, found.bus_drop) == (79, address, True)


def test_a_lost_card_over_several_lines_is_not_taken_for_a_much_later_one() -> None:
    head = "[ 1.0] NVRM: The NVIDIA GPU 0000:41:00.0\n"
    between = "".join(f"[ {n}.0] NVRM: x\n" for n in range(2, 9))
    (found,) = parse(f"{head}{between}[ 9.0] NVRM: fallen off the bus\n").xids

    assert found.address is None


@pytest.mark.parametrize(
    ("line", "device"),
    [
        ("AMD-Vi: Event logged [IO_PAGE_FAULT device=0000:41:00.1 domain=0x1]", "0000:41:00.1"),
        ("AMD-Vi: Event logged [IO_PAGE_FAULT domain=0x000e address=0x0]", None),
        ("IO_PAGE_FAULT device=41:00.0 domain=0x000e address=0x0", "0000:41:00.0"),
        ("DMAR: [DMA Write] Request device [0001:02:00.0] PASID ffffffff", "0001:02:00.0"),
        ("dmar: DMAR:[DMA Read] Request device [02:00.0] fault addr 0", "0000:02:00.0"),
    ],
)
def test_forms_of_a_page_fault(line: str, device: str | None) -> None:
    (found,) = parse(f"[ 1.0] {line}\n").iommu_faults

    assert found.address == device


def test_a_line_that_a_mail_program_broke_is_one_line_again() -> None:
    log = parse((FIXTURES / "page-faults.mail.txt").read_text())

    assert log.lines[0].message.endswith(
        "AMD-Vi: Event logged [IO_PAGE_FAULT domain=0x000f address=0xfee00000 flags=0x0000]"
    )
    assert not any(one.message.endswith("Event logged") for one in log.lines)


def test_a_repeated_message_is_one_event_that_says_how_often() -> None:
    (found,) = parse(f"Jul 22 15:36:45 rig kernel: message repeated 3 times: [ {SAID}]\n").xids

    assert found.entry.repeated == 3
    assert found.entry.message == SAID
    (inner,) = parse(f"[ 5.0] message repeated 2 times: [ [   4.5] {SAID}]\n").xids
    assert (inner.entry.message, inner.entry.repeated) == (SAID, 2)


FAULT = "nvidia 0000:81:00.0: AMD-Vi: Event logged [IO_PAGE_FAULT domain=0x001c address=0x{:x}]"


@pytest.mark.parametrize(
    ("before", "after", "count"),
    [
        ("", "", 16),
        ("[ 8.0] amd_iommu_report_page_fault: 94 callbacks suppressed\n", "", 110),
        ("", "[ 9.9] amd_iommu_report_page_fault: 94 callbacks suppressed\n", 110),
        ("", "[ 9.9] last message repeated 94 times\n", 110),
        ("", "Jul 22 15:36:45 rig last message repeated 94 times\n", 110),
        ("", "Jul 22 15:36:45 rig systemd-journald[9]: Suppressed 94 messages from kernel.\n", 110),
        (
            "",
            "Jul 22 15:36:45 rig systemd-journald[9]: Suppressed 94 messages from a.service\n",
            16,
        ),
        ("", "[ 9.8] usb 1-1: new device\n[ 9.9] last message repeated 94 times\n", 16),
        ("", "[ 9.9] amd_iommu_int_thread: 94 callbacks suppressed\n", 16),
    ],
)
def test_what_was_suppressed_or_repeated_counts(before: str, after: str, count: int) -> None:
    lines = "".join(f"[ 9.{n:02}] {FAULT.format(n)}\n" for n in range(16))
    faults = parse(f"{before}{lines}{after}").iommu_faults

    assert sum(one.entry.repeated for one in faults) == count


def test_a_repeated_xid_is_counted() -> None:
    xids = parse(f"[ 9.0] {SAID}\n[ 9.5] last message repeated 3 times\n").xids

    assert sum(one.entry.repeated for one in xids) == 4


def test_suppressed_messages_are_a_line_and_no_event() -> None:
    log = parse("[ 1.0] amd_iommu_report_page_fault: 10432 callbacks suppressed\n")

    assert not log.iommu_faults
    assert len(log.lines) == 1


def test_copies_of_a_line_in_several_files_count_once() -> None:
    dmesg, syslog = f"[    7.5] {SAID}\n", f"Jul 22 15:36:45 rig kernel: [    7.5] {SAID}\n"

    assert len(parse(dmesg + syslog + dmesg).xids) == 1
    assert len(parse(dmesg + dmesg.replace("7.5", "8.5")).xids) == 2


def test_boots_are_told_apart() -> None:
    kern_log = parse((FIXTURES / "two-boots.kern.log.txt").read_text())
    line = "2026-01-{} rig kernel: " + SAID
    journal = parse(
        "\n".join(
            (
                line.format("29T18:00:00+0000"),
                "-- Boot 0123456789abcdef0123456789abcdef --",
                line.format("30T18:00:00+0000"),
                "-- Reboot --",
                line.format("31T18:00:00+0000"),
            )
        )
    )

    assert [one.entry.boot for one in kern_log.xids] == [-1, 0]
    assert [one.entry.boot for one in journal.xids] == [-2, -1, 0]


def test_a_boot_that_stands_in_two_files_is_one_boot() -> None:
    text = "Jan 29 18:00:00 rig kernel: [ 0.0] Linux version 5\nJan 29 18:00:09 rig kernel: [ 9.0] "
    log = parse(f"{text}{SAID}\n" * 2)

    assert [one.entry.boot for one in log.xids] == [0]


@pytest.mark.parametrize(
    ("text", "starts"),
    [
        ("[    0.000000] Linux version 5\n[ 9.0] usb 1\n", True),
        ("2026-01-30T18:00:00+0000 rig kernel: Command line: ro\n", True),
        ("[ 4000.000000] usb 1-1: x\n[ 4001.0] y\n", False),
        ("[   12.000000] usb 1-1: x\n", None),
        ("2026-01-30T18:00:00+0000 rig kernel: usb 1-1: x\n", None),
        ("", None),
    ],
)
def test_whether_the_beginning_is_there(text: str, *, starts: bool | None) -> None:
    assert parse(text).starts_at_boot is starts


@pytest.mark.parametrize(
    "text",
    [
        "dmesg: read kernel buffer failed: Operation not permitted\n",
        "== dmesg\ndmesg: klogctl: Operation not permitted\n",
        "No journal files were opened due to insufficient permissions.\n",
        "Hint: You are currently not seeing messages from other users and the system.\n",
        "sh: journalctl: not found\n",
        "sudo: a password is required\n",
        "-- No entries --\n",
        "== journalctl -k -b\n",
        "\x00rubbish\x00",
        "",
    ],
)
def test_a_refusal_is_no_log(text: str) -> None:
    log = parse(text)

    assert not log.is_a_log
    assert bool(log.unparsed) is not text.startswith(("-- ", "== j")) or not text


def test_a_log_with_continued_lines_is_a_log() -> None:
    log = parse((FIXTURES / "off-the-bus.dmesg.txt").read_text())

    assert log.is_a_log
    assert log.first_at is None
    assert [one.message for one in log.matching(re.compile("pcieport"))] == [
        "pcieport 0000:00:03.1: AER: Multiple Corrected error message received from 0000:0f:00.0"
    ]


def test_relative_times_add_up() -> None:
    log = parse(
        f"[Jul28 00:03] Linux version 5\n[  +5.000000] usb 1\n[  +1.500000] {SAID}\n"
        f"[  +9.000000] {SAID.replace('79', '13')}\n"
    )

    first, second = (one.entry.clock for one in log.xids)
    assert first is not None
    assert second is not None
    assert second - first == pytest.approx(9)


def test_what_the_host_left_out_is_counted() -> None:
    log = parse("[ 1.0] usb 1\n== 106311 lines left out\n[ 9.0] usb 2\n")

    assert log.total_lines == 106313


def test_why_there_is_no_such_log() -> None:
    assert parse("== absent: No such boot ID in journal\n").absent == "No such boot ID in journal"


def test_a_flood_is_bounded_and_hides_no_xid() -> None:
    flood = "".join(f"[{n:6}.0] pcieport 0000:00:03.1: AER: Corrected\n" for n in range(40_000))
    xids = "".join(f"[{n:6}.5] {SAID}\n" for n in range(40_000, 40_000 + MOST_EVENTS + 5))

    log = parse(flood + xids)

    assert len(log.lines) == MOST_LINES
    assert len(log.xids) == MOST_EVENTS


@pytest.mark.parametrize(
    "text",
    [
        *(
            lambda size, line=line: "".join(line.format(n % 60) for n in range(size // len(line)))
            for line in (
                "2026-01-30T18:00:{:02}.000001+0100 rig kernel: pcieport 0000:00:03.1: AER: Corr\n",
                "[{:12}.000000] usb 1-1: nothing that matters to anyone who is looking at cards\n",
                "rubbish {} without any timestamp, as a log of something else altogether has it\n",
                "[ [ [ [ {} ] 12:34:56 2023 [ [ [ [ [ [ [ [ [ [ [ [ [ [ [ [ [ [ [ [ [ [ [ [\n",
            )
        ),
        lambda size: "x" * size,
        lambda size: "[ " * (size // 2),
        lambda size: " " * size + "x",
    ],
)
def test_twice_the_log_takes_twice_the_time(text: Callable[[int], str]) -> None:
    assert slow_growth(parse, text, 128 * 1024) is None


@given(
    st.sampled_from(sorted(ROWS)),
    st.integers(0, 3000),
    st.integers(0, 3000),
    st.text(max_size=40),
)
def test_no_damage_makes_it_raise(file: str, start: int, end: int, rubbish: str) -> None:
    text = (FIXTURES / file).read_text()

    for damaged in (text[:end] + rubbish, text[start:end], text[:start] + rubbish + text[end:]):
        log = parse(damaged)
        assert log.total_lines >= 0


@given(st.text())
def test_no_rubbish_is_passed_over_in_silence(text: str) -> None:
    log = parse(f"zz{text}")

    assert log.unparsed or log.total_lines


def test_the_beginning_is_that_of_the_last_boot() -> None:
    line = "2026-01-{}T18:00:00+0000 rig kernel: usb 1-1: reset\n"
    log = parse(f"{line.format(29)}-- Reboot --\n{line.format(30)}{line.format(31)}")

    assert log.first_at == "2026-01-30T18:00:00Z"
