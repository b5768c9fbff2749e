"""AER in kernel logs, where a bug report or the boot before a crash has nothing else.

Layouts: pop-os/pop#3363, wilicc/gpu-burn#1, endlessm/linux#131, DualCoder/vgpu_unlock#114.
"""

from __future__ import annotations

from typing import Final

import pytest

from rigops.catalog import load
from rigops.doctor.registry import examine
from rigops.probe.bundles.reading import read_content
from rigops.probe.snapshot import HostSnapshot
from tests.unit.doctor.examining import checks_of, judge
from tests.unit.doctor.pcie_rigs import AER, HEALTHY, ONE, OTHER, counters, found, look

CORRECTED = "pci.aer.corr"
UNCORRECTED = "pci.aer.uncorr"
PORT, OTHER_PORT, NVME = "0000:40:01.1", "0000:60:03.1", "0000:01:00.0"
OLD = "severity={}, type=Physical Layer, id=00e8(Receiver ID)"
NEW = "severity={}, type=Data Link Layer, (Transmitter ID)"


def log(*lines: str, every: float = 1.0) -> str:
    first = "[    0.511000] acpi PNP0A08:00: _OSC: OS now controls [PCIeHotplug PME AER]\n"
    return first + "".join(f"[{900 + n * every:12.6f}] {line}\n" for n, line in enumerate(lines))


def error(device: str, severity: str = "Corrected", *, layout: str = NEW) -> str:
    return f"{device}: PCIe Bus Error: {layout.format(severity)}"


def surprise(port: str) -> str:
    return log(
        f"pcieport {port}: AER: Uncorrected (Fatal) error received: {port}",
        error(f"pcieport {port}", "Uncorrected (Fatal)"),
        f"pcieport {port}:    [ 5] Surprise Down Error    (First)",
    )


@pytest.mark.parametrize("section", ["kernel-log", "kernel-log-previous"])
@pytest.mark.parametrize("aer", [AER, None])
@pytest.mark.parametrize(
    "severity", ["Uncorrected (Fatal)", "Uncorrectable (Fatal)", "Uncorrected (Non-Fatal)"]
)
def test_an_uncorrected_error_of_a_cards_port(section: str, aer: str | None, severity: str) -> None:
    text = log(error(f"pcieport {PORT}", severity, layout=OLD))
    (finding,) = found(UNCORRECTED, {**HEALTHY, "aer": aer, section: text})

    assert (finding.status, finding.subject) == ("fail", f"gpu {ONE}")
    assert ("previous boot" in finding.summary) is (section == "kernel-log-previous")
    assert finding.evidence[0].line in text
    assert finding.fix is not None


def test_surprise_down_is_named() -> None:
    assert "Surprise Down" in look(UNCORRECTED, kernel_log=surprise(PORT)).summary


def test_what_the_counters_have_is_told_once() -> None:
    text = AER.replace(counters(OTHER), counters(OTHER, fatal=1))
    (finding,) = found(
        UNCORRECTED,
        {
            **HEALTHY,
            "aer": text,
            "kernel-log": log(error(f"nvidia {OTHER}", "Uncorrected (Fatal)")),
        },
    )

    assert "since the start" in finding.summary


@pytest.mark.parametrize(
    ("count", "every", "status"),
    [(3, 1.0, "info"), (16, 0.1, "warn"), (2000, 1.0, "fail"), (30, 600.0, "info")],
)
@pytest.mark.parametrize("layout", [OLD, NEW])
def test_a_storm_of_corrected_errors(count: int, every: float, status: str, layout: str) -> None:
    text = log(*[error(f"nvidia {ONE}", layout=layout)] * count, every=every)
    (finding,) = found(CORRECTED, {**HEALTHY, "aer": None, "kernel-log": text})

    assert (finding.status, finding.subject) == (status, f"gpu {ONE}")
    assert f"{count} corrected" in finding.summary


ALONE: Final = [error(f"pcieport {PORT}"), f"pcieport {PORT}:    [ 6] BadTLP"]
SEVERAL: Final = f"pcieport {PORT}: AER: Multiple Corrected error received: {PORT}"


@pytest.mark.parametrize(
    ("lines", "every", "others", "status"),
    [
        (ALONE * 3, 0.1, 0, "warn"),
        (ALONE * 3, 60.0, 0, "info"),
        (ALONE * 2, 0.1, 0, "info"),
        ([SEVERAL, *ALONE], 0.1, 0, "info"),
        ([SEVERAL, SEVERAL, *ALONE], 0.1, 0, "warn"),
        (ALONE * 3, 0.1, 100, "info"),
    ],
)
def test_a_burst_is_a_storm_where_it_is_all_that_was_pasted(
    lines: list[str], every: float, others: int, status: str
) -> None:
    text = log(*lines, *["usb 1-1: new device"] * others, every=every)
    (bundle,) = read_content(text.encode(), place="post", host="post", is_known=lambda _: True)
    found = examine(HostSnapshot(bundle), None, load(None))

    assert [one.status for one in found if one.id == CORRECTED] == [status]


def test_counters_say_it_better_than_the_log_of_this_boot() -> None:
    storm = log(*[error(f"nvidia {ONE}")] * 2000)

    assert look(CORRECTED, kernel_log=storm).status == "ok"
    assert look(CORRECTED, kernel_log_previous=storm).status == "warn"


def test_other_devices_do_not_count() -> None:
    storm = log(
        *[error(f"nvme {NVME}")] * 2000, error("pcieport 0000:00:1d.0", "Uncorrected (Fatal)")
    )
    texts = {**HEALTHY, "kernel-log": storm}

    assert [one.status for one in found(CORRECTED, texts)] == ["info", "ok"]
    assert [one.status for one in found(UNCORRECTED, texts)] == ["info", "ok"]


def bare(text: str, check: str) -> list[tuple[str, str, str]]:
    """A pasted log and nothing else."""
    found = judge({"kernel-log": text}, checks=checks_of(check))
    return [(one.status, one.subject, one.summary) for one in found]


def test_without_the_tree_it_is_not_known_whose_port_it_is() -> None:
    ((status, subject, summary),) = bare(surprise("0000:00:02.0"), UNCORRECTED)

    assert (status, subject) == ("warn", "host")
    assert "not known" in summary
    assert "0000:00:02.0" in summary


def test_corrected_errors_of_a_port_are_those_of_the_card_that_it_lost_later() -> None:
    storm = log(*[error("pcieport 0000:00:02.0")] * 50)
    text = f"{storm}{surprise('0000:00:02.0')}nvidia 0000:02:00.0: device has no AER-aware driver\n"

    assert bare(text, CORRECTED)[0][:2] == ("warn", "gpu 0000:02:00.0")


@pytest.mark.parametrize(
    "more",
    [
        "nvidia 0000:02:00.0: device has no AER-aware driver",
        "nvidia 0000:02:00.0: AER: can't recover (no error_detected callback)",
    ],
)
def test_without_the_tree_the_driver_names_the_card(more: str) -> None:
    text = f"{surprise('0000:00:02.0')}[  901.000001] {more}\n"
    ((status, subject, _),) = bare(text, UNCORRECTED)

    assert (status, subject) == ("fail", "gpu 0000:02:00.0")


def test_the_source_of_a_note_is_below_the_port() -> None:
    text = surprise("0000:00:02.0").replace("received: 0000:00:02.0", "received: 0000:02:00.0")
    card = "[  902.0] NVRM: Xid (PCI:0000:02:00): 79, GPU has fallen off the bus.\n"

    assert bare(text, UNCORRECTED)[0][1] == "host"
    assert bare(text + card, UNCORRECTED)[0][:2] == ("fail", "gpu 0000:02:00.0")


def test_the_cards_own_vendor_is_in_the_log() -> None:
    text = log(
        *[error("pci 0000:02:00.1")] * 20,
        "pci 0000:02:00.1:   device [10de:1aeb] error status/mask=00001000/0000a000",
    )

    assert bare(text, CORRECTED)[0][:2] == ("warn", "gpu 0000:02:00.0")


def test_lines_that_were_left_out_make_it_at_least() -> None:
    text = log(*[error(f"nvidia {ONE}")] * 20) + "\n== 4000 lines left out\n"

    assert bare(text, CORRECTED)[0][2].startswith("at least 20 ")
