"""AER lines in the layouts of kernels from 4.4 to 6.16, added up by device.

pop-os/pop#3363, wilicc/gpu-burn#1, rwth-i6/returnn#1500, endlessm/linux#131,
GSConnect/gnome-shell-extension-gsconnect#1052, DualCoder/vgpu_unlock#114, and messages of the
kernel's lists (aer_ratelimit, DPC).
"""

from __future__ import annotations

import pytest

from rigops.probe.kernel_log.parser import parse

OLD = """\
[74785.660366] pcieport 0000:00:02.0: AER: Corrected error received: id=0010
[74785.660380] pcieport 0000:00:02.0: PCIe Bus Error: severity=Corrected, type=Data Link Layer, \
id=0010(Transmitter ID)
[74785.660496] pcieport 0000:00:02.0:   device [8086:6f04] error status/mask=00001000/00002000
[74785.660559] pcieport 0000:00:02.0:    [12] Replay Timer Timeout  
[74889.542031] pcieport 0000:00:02.0: AER: Uncorrected (Fatal) error received: id=0010
[74889.542044] pcieport 0000:00:02.0: PCIe Bus Error: severity=Uncorrected (Fatal), \
type=Transaction Layer, id=0010(Receiver ID)
[74889.542125] pcieport 0000:00:02.0:   device [8086:6f04] error status/mask=00000020/00000000
[74889.542184] pcieport 0000:00:02.0:    [ 5] Surprise Down Error    (First)
[74889.542234] pcieport 0000:00:02.0: broadcast error_detected message
[74889.542239] nvidia 0000:02:00.0: device has no AER-aware driver
"""  # noqa: W291 - the kernel writes it so
NEW = """\
pcieport 0000:00:03.1: AER: Multiple Correctable error message received from 0000:07:00.0
pcieport 0000:00:03.1: PCIe Bus Error: severity=Correctable, type=Data Link Layer, (Transmitter ID)
pcieport 0000:00:03.1:   device [1022:1453] error status/mask=000011c0/00006000
pcieport 0000:00:03.1:    [ 6] BadTLP
pcieport 0000:00:03.1:    [ 7] BadDLLP
nvidia 0000:07:00.0: PCIe Bus Error: severity=Correctable, type=Data Link Layer, (Transmitter ID)
nvidia 0000:07:00.0:   device [10de:2184] error status/mask=00001000/0000a000
nvidia 0000:07:00.0:    [12] Timeout
snd_hda_intel 0000:07:00.1: PCIe Bus Error: severity=Correctable, type=Data Link Layer, \
(Receiver ID)
snd_hda_intel 0000:07:00.1:   device [10de:1aeb] error status/mask=00001000/0000a000
"""
WITH_AER_TWICE = """\
kernel: pcieport 0000:00:1c.5: AER: PCIe Bus Error: severity=Corrected, type=Physical Layer, (R
kernel: pcieport 0000:00:1c.5: AER:   device [8086:9d15] error status/mask=00000001/00002000
kernel: pcieport 0000:00:1c.5: AER:    [ 0] RxErr                  (First)
"""
NONFATAL = """\
[  +0.000001] pcieport 0000:00:03.0: AER: Multiple Uncorrected (Non-Fatal) error received: \
0000:00:03.0
[  +0.000004] pcieport 0000:00:03.0: PCIe Bus Error: severity=Uncorrectable (Non-Fatal), \
type=Transaction Layer, (Requester ID)
[  +0.000921] nvidia 0000:03:00.0: AER: can't recover (no error_detected callback)
"""
CONTAINED = """\
pcieport 0000:64:02.0: DPC: containment event, status:0x1f07 source:0x0000
pcieport 0000:64:02.0: DPC: RP PIO error detected
nvidia 0000:65:00.0: AER: can't recover (no error_detected callback)
"""


def rows(text: str) -> list[tuple[str, str, int]]:
    return [(one.address, one.severity, one.most.count) for one in parse(text).link_errors]


def test_old_kernels() -> None:
    corrected, fatal = parse(OLD).link_errors

    assert (corrected.severity, corrected.names) == ("corrected", ["Replay Timer Timeout"])
    assert (fatal.severity, fatal.names) == ("fatal", ["Surprise Down Error"])
    assert fatal.cards_below == {"0000:02:00.0"}
    assert "PCIe Bus Error" in fatal.most.first.line


def test_new_kernels() -> None:
    port, card, sound = parse(NEW).link_errors

    assert (port.names, port.vendor, port.below) == (
        ["BadTLP", "BadDLLP"],
        "1022",
        {"0000:07:00.0"},
    )
    assert (card.address, card.driver, card.vendor) == ("0000:07:00.0", "nvidia", "10de")
    assert (sound.address, sound.driver) == ("0000:07:00.1", "snd_hda_intel")


def test_every_severity() -> None:
    assert rows(WITH_AER_TWICE) == [("0000:00:1c.5", "corrected", 1)]
    assert rows(NONFATAL) == [("0000:00:03.0", "nonfatal", 1)]
    assert rows(CONTAINED) == [("0000:64:02.0", "fatal", 1)]
    assert parse(CONTAINED).link_errors[0].cards_below == {"0000:65:00.0"}


def test_a_note_counts_where_the_error_is_not_described() -> None:
    note = "pcieport 0000:00:01.1: AER: Corrected error received: id=0900\n"
    (found,) = parse(note * 3).link_errors

    assert (found.address, found.most.count, found.below) == ("0000:00:01.1", 3, {"0000:09:00.0"})


def test_a_storm_is_added_up() -> None:
    line = "pcieport 0000:00:1c.0: PCIe Bus Error: severity=Correctable, type=Data Link Layer\n"
    storm = f"[  280.1] {line}" + "".join(
        f"[  28{n}.2] aer_ratelimit: 30 callbacks suppressed\n[  28{n}.3] {line}" for n in range(3)
    )

    assert rows(storm) == [("0000:00:1c.0", "corrected", 94)]
    assert rows(f"aer_ratelimit: 30 callbacks suppressed\n{line}") == [
        ("0000:00:1c.0", "corrected", 31)
    ]


def test_the_same_log_in_two_forms_has_the_errors_once() -> None:
    messages = [line for line in NEW.splitlines() if "Bus Error" in line] * 3
    dmesg = "".join(f"[  28{at}.5] {one}\n" for at, one in enumerate(messages))
    journal = "".join(f"Mar 02 20:00:0{at} rig kernel: {one}\n" for at, one in enumerate(messages))

    assert rows(dmesg + journal) == rows(dmesg)
    assert rows(dmesg + journal * 2) == rows(dmesg)
    last = parse(dmesg + journal).link_errors[0].most.last
    assert last.line.startswith("[  28")


def test_boots_are_apart() -> None:
    text = f"-- Boot a --\n{NEW}-- Boot b --\n{NEW}"
    boots = [one.most.first.boot for one in parse(text).link_errors]

    assert sorted(boots) == [-1, -1, -1, 0, 0, 0]


def test_what_is_no_error_is_none() -> None:
    text = """\
[    0.6] pcieport 0000:00:01.1: AER: enabled with IRQ 34
[    0.6] acpi PNP0A08:00: _OSC: OS now controls [PCIeHotplug PME AER PCIeCapability LTR]
[    0.6] pcieport 0000:00:01.1: DPC: error containment capabilities: Int Msg #0, RPExt+
"""

    assert not rows(text)


@pytest.mark.parametrize(
    ("line", "row"),
    [
        ("PCIe Bus Error: severity=Corr>", [("0000:07:00.0", "corrected", 1)]),
        ("AER: Corrected error message rece>", [("0000:07:00.0", "corrected", 1)]),
        ("AER: Corrected error message received from 0000:0>", [("0000:07:00.0", "corrected", 1)]),
        ("PCIe Bus Error: severity=Uncorrected (Non", []),
    ],
)
def test_a_line_that_a_pager_cut_counts_where_its_severity_is_certain(
    line: str, row: list[tuple[str, str, int]]
) -> None:
    assert rows(f"nvidia 0000:07:00.0: {line}\n") == row
