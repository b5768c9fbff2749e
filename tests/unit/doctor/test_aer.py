"""Errors that links count."""

from __future__ import annotations

import pytest

from tests.unit.doctor.pcie_rigs import AER, HEALTHY, ONE, OTHER, counters, found, look
from tests.unit.probe import answers

CORRECTED = "pci.aer.corr"
UNCORRECTED = "pci.aer.uncorr"
MINUTES = 4099.41 / 60


@pytest.mark.parametrize(
    ("errors", "status"),
    [
        (9, "info"),
        (int(MINUTES * 0.9), "info"),
        (int(MINUTES * 2), "warn"),
        (int(MINUTES * 40), "fail"),
    ],
)
@pytest.mark.parametrize("address", [ONE, "0000:40:01.1"])
def test_corrected_errors_by_their_rate(errors: int, status: str, address: str) -> None:
    text = AER.replace(counters(address), counters(address, corrected=errors))
    finding = look(CORRECTED, aer=text)

    assert (finding.status, finding.subject) == (status, f"gpu {ONE}")
    assert f"BadTLP {errors}" in [one.line for one in finding.evidence]
    assert (finding.fix is not None) == (status in {"warn", "fail"})
    assert look(UNCORRECTED, aer=text).status == "ok"


def test_without_the_uptime_there_is_no_rate() -> None:
    text = AER.replace(counters(ONE), counters(ONE, corrected=5000))

    assert look(CORRECTED, aer=text, boot=None).status == "unknown"


def test_a_root_port_tells_where_nothing_below_it_counts() -> None:
    here = "== /sys/bus/pci/devices/0000:40:01.1/aer_rootport_total_err_cor\n"

    assert look(CORRECTED, aer=f"{AER}{here}400\n").status == "warn"
    assert look(CORRECTED, aer=f"{AER}{here}0\n").status == "ok"


@pytest.mark.parametrize("kind", ["fatal", "nonfatal"])
def test_an_error_that_was_not_corrected_is_a_failure(kind: str) -> None:
    worse = counters(OTHER, fatal=1) if kind == "fatal" else counters(OTHER, nonfatal=1)
    finding = look(UNCORRECTED, aer=AER.replace(counters(OTHER), worse))

    assert (finding.status, finding.subject) == ("fail", f"gpu {OTHER}")
    assert finding.fix is not None
    assert look(CORRECTED, aer=AER.replace(counters(OTHER), worse)).status == "ok"


@pytest.mark.parametrize(
    "texts",
    [
        {"aer": None},
        {"aer": ""},
        {"aer": AER.replace(counters(ONE), "")},
        {"aer": AER.replace(counters("0000:60:03.1"), "")},
        {"aer": f"{AER}rubbish\n== nothing\n"},
        {"proc-cmdline": f"{answers.CMDLINE.strip()} pci=nomsi,noaer\n"},
    ],
)
@pytest.mark.parametrize("check", [CORRECTED, UNCORRECTED])
def test_zeros_that_prove_nothing(check: str, texts: dict[str, str | None]) -> None:
    (finding,) = found(check, {**HEALTHY, **texts})

    assert finding.status == "unknown"


def test_counters_that_did_not_come_in_time_are_unknown() -> None:
    assert found(CORRECTED, HEALTHY, cut={"aer": 124})[0].status == "unknown"


@pytest.mark.parametrize(
    ("owned", "status"), [("PCIeHotplug PME AER PCIeCapability", "ok"), ("PCIeHotplug", "unknown")]
)
def test_where_the_firmware_keeps_the_errors_to_itself_zeros_prove_nothing(
    owned: str, status: str
) -> None:
    log = f"[    0.511000] acpi PNP0A08:00: _OSC: OS now controls [{owned}]\n"

    assert look(UNCORRECTED, kernel_log=log).status == status
