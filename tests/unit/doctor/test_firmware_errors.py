from __future__ import annotations

import pytest

from rigops.concerns.registry import read
from tests.unit.doctor.examining import checks_of, judge
from tests.unit.doctor.logged import BOOTED_BEFORE, OSC, WELL, journal, look
from tests.unit.probe import answers

APEI, BLIND = checks_of("pci.apei", "pci.aer.blind")
NO_GPU: dict[str, str | None] = {"pci": answers.NO_GPU, "nvidia-smi-p2p-read": None}
RECORD = (
    "Hardware error from APEI Generic Hardware Error Source: 514",
    "event severity: {severity}",
    " Error 0, type: {severity}",
    "  section_type: PCIe error",
    "  port_type: 4, root port",
    "  device_id: {address}",
    "  aer_cor_status: 0x00001000, aer_cor_mask: 0x00000000",
)


def record(address: str, severity: str = "corrected", number: int = 1) -> list[tuple[float, str]]:
    said = (line.format(address=address, severity=severity) for line in RECORD)
    return [(60.0, f"{{{number}}}[Hardware Error]: {line}") for line in said]


def test_no_record_is_well() -> None:
    (found,) = look(APEI)

    assert found.status == "ok"


@pytest.mark.parametrize(
    ("address", "severity", "status", "subject"),
    [
        ("0000:0a:00.0", "corrected", "warn", "gpu 0000:0a:00.0"),
        ("0000:0a:00.0", "fatal", "fail", "gpu 0000:0a:00.0"),
        ("0000:00:03.1", "corrected", "warn", "gpu 0000:0a:00.0"),
        ("0000:00:03.1", "recoverable", "fail", "gpu 0000:0a:00.0"),
        ("0000:00:1d.0", "corrected", "warn", "/sys/bus/pci/devices/0000:00:1d.0"),
        ("0000:00:1d.0", "fatal", "warn", "/sys/bus/pci/devices/0000:00:1d.0"),
    ],
)
def test_a_record_of_a_link(address: str, severity: str, status: str, subject: str) -> None:
    (found,) = look(APEI, {"kernel-log": journal(*record(address, severity))})

    assert (found.status, found.subject) == (status, subject)
    assert severity in found.summary
    assert "Hardware error from APEI" in found.evidence[0].line
    assert found.fix is not None
    assert found.fix.kind == "hands"


def test_records_of_two_devices_are_told_apart() -> None:
    said = [*record("0000:0a:00.0"), *record("0000:0b:00.0", number=2), *record("0000:0a:00.0")]
    found = look(APEI, {"kernel-log": journal(*said)})

    assert [one.subject for one in found] == ["gpu 0000:0a:00.0", "gpu 0000:0b:00.0"]


def test_without_the_bus_it_is_not_known_whose_port_it_is() -> None:
    log = {"kernel-log": journal(*record("0000:40:01.1", "fatal"))}
    (port,) = judge(log, checks=[APEI])
    vendor = (60.5, "{1}[Hardware Error]:   vendor_id: 0x10de, device_id: 0x2204")
    (card,) = judge(
        {"kernel-log": journal(*record("0000:41:00.0", "fatal"), vendor)}, checks=[APEI]
    )

    assert (port.status, "not known" in port.summary) == ("warn", True)
    assert (card.status, card.subject) == ("fail", "gpu 0000:41:00.0")


def test_records_are_counted() -> None:
    (found,) = look(APEI, {"kernel-log": journal(*record("0000:0a:00.0"), *record("0000:0a:00.0"))})

    assert "2 times" in found.summary


def test_a_record_that_names_no_device() -> None:
    said = [one for one in record("0000:0a:00.0") if "device_id" not in one[1]]
    (found,) = look(APEI, {"kernel-log-previous": journal(*said, booted=BOOTED_BEFORE)})

    assert (found.status, found.subject) == ("warn", "host")
    assert found.evidence[0].section == "kernel-log-previous"


@pytest.mark.parametrize(
    "line",
    [
        "GHES: APEI firmware first mode is enabled by APEI bit and WHEA _OSC.",
        "ERST: Error Record Serialization Table (ERST) support is initialized.",
        "mce: [Hardware Error]: Machine check events logged",
        "[Hardware Error]: Corrected error, no action required.",
    ],
)
def test_what_only_looks_like_it(line: str) -> None:
    (found,) = look(APEI, {"kernel-log": journal((9, line))})

    assert found.status == "ok"


def test_the_kernel_sees_errors() -> None:
    (found,) = look(BLIND)

    assert found.status == "ok"
    assert OSC in found.evidence[0].line


@pytest.mark.parametrize("argument", ["pci=noaer", "pci=nommconf,noaer"])
def test_an_argument_that_hides_errors(argument: str) -> None:
    cmdline = {"proc-cmdline": f"root=/dev/sda1 {argument} ro\n"}
    (foreign,) = look(BLIND, cmdline)
    (own,) = look(BLIND, cmdline, spec=read({"kernel_args": ["quiet", argument]}))

    assert (foreign.status, own.status) == ("warn", "warn")
    assert foreign.evidence[0].line == argument
    assert foreign.fix is not None
    assert (foreign.fix.kind, argument in foreign.fix.text) == ("hands", True)
    assert own.fix is not None
    assert (own.fix.kind, own.fix.concern) == ("apply+reboot", "kernel_args")
    assert own.fix.declare == {"kernel_args": ["quiet"]}


@pytest.mark.parametrize(
    "line",
    [
        "acpi PNP0A08:00: _OSC: OS now controls [PCIeHotplug PME PCIeCapability LTR]",
        "acpi PNP0A03:00: _OSC: platform does not support [SHPCHotplug AER]",
        "acpi PNP0A08:00: _OSC: not requesting OS control; OS requires [ExtendedConfig ASPM]",
        "acpi PNP0A03:00: _OSC failed (AE_NOT_FOUND); disabling ASPM",
    ],
)
def test_firmware_that_keeps_errors_to_itself(line: str) -> None:
    (found,) = look(BLIND, {"kernel-log": WELL.replace(OSC, line)})

    assert found.status == "info"
    assert found.evidence[0].line.endswith(line)
    assert found.fix is not None
    assert found.fix.kind == "bios"


def test_a_virtual_machine_has_no_bios_to_change() -> None:
    line = "acpi PNP0A08:00: _OSC: platform does not support [PCIeHotplug LTR AER]"
    guest = f"{answers.BOOT}\n== systemd-detect-virt\nkvm\n"
    (found,) = look(BLIND, {"kernel-log": WELL.replace(OSC, line), "boot": guest})

    assert (found.status, found.fix) == ("info", None)
    assert found.evidence[0].line.endswith(line)


@pytest.mark.parametrize(("hypervisor", "is_host"), [("KVM", False), ("Xen PV", True)])
def test_the_log_alone_tells_a_virtual_machine(hypervisor: str, *, is_host: bool) -> None:
    line = "acpi PNP0A08:00: _OSC: platform retains control of PCIe features (AE_NOT_FOUND)"
    text = journal((0.1, f"Hypervisor detected: {hypervisor}")).replace(OSC, line)
    (found,) = look(BLIND, {"kernel-log": text})

    assert (found.fix is not None) is is_host


def test_one_blind_bridge_among_seeing_ones() -> None:
    line = OSC.replace("PNP0A08:00", "PNP0A08:01").replace(" AER", "")
    (found,) = look(BLIND, {"kernel-log": journal((0.2, line))})

    assert found.status == "info"
    assert [one.line.rpartition("kernel: ")[2] for one in found.evidence] == [line]


@pytest.mark.parametrize(
    ("changed", "status"),
    [
        ({"kernel-log": None}, "unknown"),
        ({"kernel-log": WELL.replace(OSC, "x")}, "unknown"),
        ({"proc-cmdline": None}, "unknown"),
        (NO_GPU, "skipped"),
    ],
)
def test_blindness_that_cannot_be_judged(changed: dict[str, str | None], status: str) -> None:
    (found,) = look(BLIND, changed)

    assert found.status == status


@pytest.mark.parametrize(
    ("changed", "status"), [({"kernel-log": None}, "unknown"), (NO_GPU, "skipped")]
)
def test_records_that_cannot_be_judged(changed: dict[str, str | None], status: str) -> None:
    (found,) = look(APEI, changed)

    assert found.status == status


def test_a_log_cut_short_still_tells_of_its_records() -> None:
    text = journal(*record("0000:0a:00.0"))
    found = look(APEI, {"kernel-log": text}, cut={"kernel-log": 1})

    assert [one.status for one in found] == ["warn", "unknown"]
