"""NVIDIA's own report, split into sections."""

from __future__ import annotations

import gzip
import tracemalloc
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from rigops.errors import UsageError
from rigops.probe import pcie_routes
from rigops.probe.bundles import bug_report
from rigops.probe.bundles.reading import read_all
from rigops.probe.sections.dev_nodes import SECTION as DEV_NODES
from rigops.probe.sections.iommu_groups import SECTION as IOMMU_GROUPS
from rigops.probe.sections.lspci import SECTION as LSPCI
from rigops.probe.sections.nvidia_smi_topo import SECTION as TOPOLOGY
from rigops.probe.sections.nvidia_version import SECTION as NVIDIA_VERSION
from rigops.probe.sections.os_release import SECTION as OS_RELEASE
from rigops.probe.sections.packages import SECTION as PACKAGES
from rigops.probe.snapshot import HostSnapshot

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rigops.probe.bundle import Bundle

REPORT = Path(__file__).parents[3] / "fixtures/bundles/nvidia-bug-report.log"
RULE = "____________________________________________\n\n"
MIB = 1024 * 1024


def report() -> str:
    return REPORT.read_text()


def read(text: str, size: int = 4096) -> Bundle:
    content = text.encode()
    return bug_report.read(
        (content[at : at + size] for at in range(0, len(content), size)), host="file-name"
    )


def test_each_answer_becomes_its_section() -> None:
    bundle = read(report())

    texts = {name: one.text for name, one in bundle.sections.items()}
    assert bundle.host == "trp64"
    assert bundle.collected_at == "2023-03-02T23:50:11Z"
    assert bundle.root
    assert texts["uname"].startswith("Linux trp64 6.1.0-18-amd64 #1 SMP")
    assert texts["proc-cmdline"].startswith("BOOT_IMAGE=/vmlinuz-6.1.0-18-amd64 root=UUID=")
    assert texts["nvidia-version"].splitlines() == [
        "NVRM version: NVIDIA UNIX x86_64 Kernel Module  525.60.13  Wed Nov 30 06:39:21 UTC 2022",
        "GCC version:  gcc version 12.2.0 (Debian 12.2.0-14)",
    ]
    assert texts["nvidia-params"] == "ModifyDeviceFiles: 1\nEnableResizableBar: 0\n"
    assert texts["nvidia-smi-xml"].startswith("==============NVSMI LOG==============\n")
    assert "Attached Units" not in texts["nvidia-smi-xml"]
    assert texts["nvidia-smi-nvlink"].endswith("\t Link 0: <inactive>\n")
    assert "\t Link 0: Replay Errors: 0\n" in texts["nvidia-smi-nvlink"]
    assert texts["kernel-log"].splitlines()[0].startswith("[    0.000000] Linux version")
    assert len(texts["kernel-log"].splitlines()) == 3
    assert "Xid (PCI:0000:0b:00): 31" in texts["kernel-log-previous"]
    whole = {name for name, one in bundle.sections.items() if one.is_complete}
    assert whole == set(texts) - {"nvidia-modinfo", "kernel-log-previous"}


def test_nothing_that_the_report_does_not_have_is_made_up() -> None:
    known = HostSnapshot(read(report()))

    assert known[IOMMU_GROUPS].value is None
    assert known[PACKAGES].value is None
    assert known[DEV_NODES].value is None
    assert known[OS_RELEASE].value is None
    assert known[TOPOLOGY].value is None


def test_the_configuration_space_is_left_out_and_the_list_of_devices_is_whole() -> None:
    lspci = read(report()).sections["lspci"]

    assert lspci.is_complete
    assert "de 10 84 26" not in lspci.text
    assert lspci.text.count("VGA compatible controller") == 2
    assert "LnkSta:\tSpeed 2.5GT/s" in lspci.text


def test_of_the_modules_only_the_driver_itself() -> None:
    modinfo = read(report()).sections["nvidia-modinfo"]

    assert modinfo.text.startswith("vermagic:       6.1.0-18-amd64 SMP preempt")
    assert "of-another-module" not in modinfo.text
    assert not modinfo.is_complete  # only one of its lines was asked for


def test_a_brief_list_of_devices_does_not_say_what_they_can_do() -> None:
    text = report()
    start = text.index("/usr/bin/lspci -nnDvvvxxx")
    bundle = read(text[:start] + text[text.index("/sbin/modinfo") :])

    assert "[10de:2684]" in bundle.sections["lspci"].text
    assert not bundle.sections["lspci"].is_complete


def test_a_brief_list_of_devices_comes_with_the_tree_that_says_what_is_below_what() -> None:
    text = report()
    start = text.index("/usr/bin/lspci -nntv")
    old = (
        '/usr/bin/lspci -d "10de:*" -v -xxx\n\n'
        "0a:00.0 VGA compatible controller: NVIDIA Corporation AD102 (rev a1)\n\n"
        f"{RULE}/usr/bin/lspci -t\n\n"
        "-[0000:00]-+-00.0\n           \\-01.1-[0a]----00.0\n\n"
        f"{RULE}/usr/bin/lspci -nn\n\n"
        "00:00.0 Host bridge [0600]: Advanced Micro Devices, Inc. [AMD] Device [1022:14a4]\n"
        "00:01.1 PCI bridge [0604]: Advanced Micro Devices, Inc. [AMD] Device [1022:14ab]\n"
        "0a:00.0 VGA compatible controller [0300]: NVIDIA Corporation AD102 [10de:2684]\n\n"
    )
    bundle = read(text[:start] + old + RULE + text[text.index("/sbin/modinfo") :])

    known = HostSnapshot(bundle)
    assert [one.address for one in known[LSPCI].or_empty.nvidia_gpus] == ["0000:0a:00.0"]
    assert pcie_routes.route_to(known, "0000:0a:00.0") == pcie_routes.Route(
        "0000:0a:00.0", ("0000:00:01.1",)
    )
    assert not bundle.sections["lspci"].is_complete


def test_error_counters_and_states_of_links_are_one_section() -> None:
    text = read(report()).sections["nvidia-smi-nvlink"].text

    assert "Link 0: <inactive>" in text
    assert "Link 0: Replay Errors: 0" in text


@pytest.mark.parametrize("states", ["", "/usr/bin/nvidia-smi nvlink --status\n\n\n"])
def test_error_counters_without_the_states_are_not_the_whole_section(states: str) -> None:
    text = report()
    start = text.index("/usr/bin/nvidia-smi nvlink --status")
    end = text.index("____", start)
    bundle = read(text[:start] + states + text[end:])

    assert "Replay Errors: 0" in bundle.sections["nvidia-smi-nvlink"].text
    assert not bundle.sections["nvidia-smi-nvlink"].is_complete


def test_a_driver_that_is_not_loaded_is_known_and_an_empty_answer_is_none() -> None:
    text = report()
    gone = text[: text.index("*** /proc/driver/nvidia/./version")] + (
        "*** /proc/driver/nvidia/./version does not exist\n\n"
        f"{RULE}/usr/bin/nvidia-smi --query\n\n\n"
        f"{RULE}*** /proc/driver/nvidia/./params is not readable\n\n"
        f"{RULE}End of NVIDIA bug report log file.\n"
    )
    bundle = read(gone)

    version = HostSnapshot(bundle)[NVIDIA_VERSION].value
    assert version is not None
    assert not version.is_loaded
    assert bundle.sections["nvidia-version"].is_complete
    assert not bundle.sections["nvidia-smi-xml"].is_complete
    assert not bundle.sections["nvidia-params"].is_complete


def test_a_ring_buffer_that_lost_its_start_is_completed_from_the_journal() -> None:
    text = report()
    start = text.index("[    0.000000] Linux version")
    bundle = read(text[:start] + text[text.index("[ 1800.000000]") :])

    log = bundle.sections["kernel-log"]
    assert [line[:20] for line in log.text.splitlines()] == [
        "Mar 02 20:00:02 trp6",
        "[ 1800.000000] NVRM:",
    ]
    assert not log.is_complete


def test_without_a_ring_buffer_the_journal_is_a_part() -> None:
    text = report()
    start = text.index("[    0.000000] Linux version")
    bundle = read(text[:start] + text[text.index("____", start) :])

    assert "Xid (PCI:0000:0a:00): 79" in bundle.sections["kernel-log"].text
    assert not bundle.sections["kernel-log"].is_complete


def test_the_older_layout_without_asterisks() -> None:
    old = (
        f"{RULE}Start of NVIDIA bug report log file.  Please include this file\n\n"
        "Date: Tue Oct 27 14:31:54 EDT 2009\n"
        "uname: Linux old 2.6.31-14-generic #48-Ubuntu SMP x86_64 GNU/Linux\n\n"
        f"{RULE}/proc/cmdline\nroot=/dev/sda1 ro\n\n"
        f"{RULE}/proc/driver/nvidia/version\nNVRM version: NVIDIA UNIX x86_64 Kernel Module  185.18"
        ".14  Wed\n\n"
        f"{RULE}End of NVIDIA bug report log file.\n"
    ).replace("\n", "\r\n")
    bundle = read(old)

    assert bundle.host == "old"
    assert bundle.collected_at is None  # the letters of a time zone stand for several
    assert bundle.sections["proc-cmdline"].text.strip() == "root=/dev/sda1 ro"
    assert HostSnapshot(bundle)[NVIDIA_VERSION].value is not None


@pytest.mark.parametrize(
    ("date", "stamp", "expected"),
    [
        ("Thu Oct 27 08:50:11 PM -03 2022", "", "2022-10-27T23:50:11Z"),
        ("Thu 27 Oct 2022 12:05:11 AM UTC", "", "2022-10-27T00:05:11Z"),
        (
            "Sun Jul  2 23:11:55 CEST 2023",
            "2023-07-02 22:00:00.000000000 +0200",
            "2023-07-02T21:11:55Z",
        ),
        ("Sun Jul  2 23:11:55 IST 2023", "2023-07-01 22:00:00.000000000 +0530", None),
        ("Fri Mar  3 04:23:22 +0530 2023", "", "2023-03-02T22:53:22Z"),
        ("mar 13 set 2011, 23.11.55, CEST", "", None),
        ("Thu Feb 31 08:50:11 UTC 2022", "", None),
        ("Date", "", None),
        ("", "", None),
    ],
)
def test_dates(date: str, stamp: str, expected: str | None) -> None:
    assert (
        bug_report.rfc3339(date, [f"*** ls: -r--r--r-- 1 root root 0 {stamp} /proc/cmdline"])
        == expected
    )


def test_the_size_of_the_pieces_does_not_matter() -> None:
    whole = read(report(), 10 * MIB)

    for size in (1, 7, 64, 1000):
        assert read(report(), size) == whole


@pytest.mark.parametrize("packed", [False, True])
def test_a_report_cut_anywhere_is_never_whole_where_it_was_cut(
    tmp_path: Path, *, packed: bool
) -> None:
    full = read(report())
    content = gzip.compress(report().encode()) if packed else report().encode()
    file = tmp_path / "copy.log"
    for length in range(0, len(content), 97):
        file.write_bytes(content[:length])
        try:
            (bundle,) = read_all(file)
        except UsageError:
            continue
        for name, one in bundle.sections.items():
            if one.is_complete:
                assert one.text == full.sections[name].text, (length, name)


def test_several_gzip_streams_one_after_the_other(tmp_path: Path) -> None:
    file = tmp_path / "nvidia-bug-report.log.gz"
    file.write_bytes(
        b"".join(gzip.compress(line.encode()) for line in report().splitlines(keepends=True))
    )

    assert read_all(file) == [read(report())]


def test_a_pasted_report_is_known_by_what_it_says(tmp_path: Path) -> None:
    file = tmp_path / "issue.md"
    file.write_text(f"This is the bug report of my rig\n\n```\n{report()}```\n")

    assert read_all(file) == [read(report())]


def lazily(megabytes: int) -> Iterator[bytes]:
    """The report with a kernel log that has grown without end, and a line that has too."""
    before, after = report().split("dmesg:\n\n")
    line = b"[    1.000000] AMD-Vi: Event logged [IO_PAGE_FAULT device=0000:0a:00.0]\n"
    yield before.encode() + b"dmesg:\n\n"
    yield b"[    0.000000] Linux version 6.1\n"
    block = line * (MIB // len(line))
    for _ in range(megabytes):
        yield block
    yield b"[ 9999.000000] NVRM: Xid (PCI:0000:0b:00): 79, the last words\n"
    yield after[after.index("____") :].split("/usr/bin/nvidia-debugdump")[0].encode()
    yield b"/usr/bin/nvidia-debugdump -D\n\n"
    for _ in range(megabytes // 3):
        yield b"A" * MIB
    yield b"\n____________________________________________\n\nEnd of NVIDIA bug report log file.\n"


def test_a_log_without_end_is_read_within_bounds() -> None:
    tracemalloc.start()
    bundle = bug_report.read(lazily(90), host="rig")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()

    log = bundle.sections["kernel-log"]
    assert peak < 40 * MIB
    assert len(log.text) < 5 * MIB
    assert log.text.startswith("[    0.000000] Linux version")
    assert log.text.endswith("the last words\n")
    assert not log.is_complete  # something in the middle was dropped
    assert {len(line) for line in log.text.splitlines()[1:-1]} == {71}  # no line was cut in two
    assert bundle.sections["nvidia-smi-xml"].is_complete


def test_an_answer_that_is_too_long_and_no_log_keeps_its_beginning() -> None:
    text = report().replace("EnableResizableBar: 0\n", "EnableResizableBar: 0\n" * 300_000)
    params = read(text, MIB).sections["nvidia-params"]

    assert len(params.text) < 5 * MIB
    assert params.text.startswith("ModifyDeviceFiles: 1\n")
    assert set(params.text.splitlines()[1:]) == {"EnableResizableBar: 0"}
    assert not params.is_complete


def test_old_reports_list_only_the_devices_of_nvidia() -> None:
    """As nvidia-bug-report.sh of 396 and older writes it."""
    text = (
        f"{RULE}Start of NVIDIA bug report log file.  Please include this file\n"
        f'{RULE}/usr/bin/lspci -d "10de:*" -v -xxx\n\n'
        "41:00.0 VGA compatible controller: NVIDIA Corporation Device 1b06 (rev a1)\n"
        "\tFlags: bus master, fast devsel, latency 0, IRQ 87\n"
        "\tKernel driver in use: nvidia\n"
        "00: de 10 06 1b 07 04 10 00 a1 00 00 03 10 00 80 00\n\n"
        f"{RULE}End of NVIDIA bug report log file.\n"
    )
    answer = HostSnapshot(read(text))[LSPCI]

    assert [(one.address, one.driver) for one in answer.or_empty.nvidia_gpus] == [
        ("0000:41:00.0", "nvidia")
    ]
    assert not answer.is_complete
