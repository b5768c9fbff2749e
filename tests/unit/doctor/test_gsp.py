from __future__ import annotations

import pytest

from tests.unit.doctor.examining import check_of
from tests.unit.doctor.logged import BOOTED_BEFORE, journal, look, xid
from tests.unit.probe import answers

GSP = check_of("drv.gsp")
TIMEOUT = xid(119, rest="pid=9, name=nvidia-persiste, Timeout after 6s of waiting for RPC response")


def test_no_trouble_is_well() -> None:
    (found,) = look(GSP)

    assert found.status == "ok"


@pytest.mark.parametrize(
    ("line", "subject"),
    [
        (TIMEOUT, "gpu 0000:0a:00.0"),
        (xid(120), "gpu 0000:0a:00.0"),
        ("NVRM: Timeout waiting for RPC from GSP! Expected function 4097", "gpu unknown"),
        ("NVRM: _kgspRpcRecvPoll: GSP RPC Timeout", "gpu unknown"),
        ("NVRM: GPU 0000:0a:00.0: RmInitAdapter failed! (0x62:0x55:1941)", "gpu 0000:0a:00.0"),
    ],
)
def test_firmware_that_does_not_answer(line: str, subject: str) -> None:
    (found,) = look(GSP, {"kernel-log": journal((60, line))})

    assert (found.status, found.subject) == ("fail", subject)
    assert found.evidence[0].line.endswith(line)
    assert found.fix is not None


def test_other_failures_of_the_driver_are_none_of_this() -> None:
    lines = ["NVRM: RmInitAdapter failed! (0x25:0x65:1461)", "NVRM: _kgspLogXid119: ****", xid(79)]
    (found,) = look(GSP, {"kernel-log": journal(*enumerate(lines, 9))})

    assert found.status == "ok"


def test_many_lines_of_one_card_are_one_finding() -> None:
    said = [(45.0 * n, TIMEOUT) for n in range(1, 100)]
    (found,) = look(GSP, {"kernel-log": journal(*said, (9000, "NVRM: GSP RPC Timeout"))})

    assert "99 times" in found.summary
    assert len(found.evidence) == 3


def test_a_driver_with_that_fault_is_to_be_replaced() -> None:
    loaded = {"nvidia-version": answers.VERSION.format("525.60.13")}
    (found,) = look(GSP, {**loaded, "kernel-log": journal((60, TIMEOUT))})

    assert found.fix is not None
    assert (found.fix.kind, found.fix.concern) == ("apply+reboot", "nvidia_driver")
    assert found.fix.declare is not None
    assert str(found.fix.declare["driver"]) not in {"525", "525.60.13"}
    assert str(found.fix.declare["driver"]) in found.fix.by_hand


@pytest.mark.parametrize(
    ("version", "can_be_left_out"),
    [(answers.VERSION.format("535.261.03"), True), (answers.OPEN_VERSION, False), (None, False)],
)
def test_gsp_can_be_left_out_with_the_closed_modules_only(
    version: str | None, *, can_be_left_out: bool
) -> None:
    text = journal((60, TIMEOUT))
    (found,) = look(GSP, {"nvidia-version": version, "kernel-log": text})

    assert found.fix is not None
    assert found.fix.kind == "hands"
    assert ("NVreg_EnableGpuFirmware=0" in found.fix.text) is can_be_left_out


def test_the_previous_boot() -> None:
    before = journal((60, TIMEOUT), booted=BOOTED_BEFORE)
    (found,) = look(GSP, {"kernel-log-previous": before})

    assert found.status == "fail"
    assert "previous boot" in found.summary
    assert found.evidence[0].section == "kernel-log-previous"


NO_START = "NVRM: GPU 0000:0a:00.0: RmInitAdapter failed! (0x62:0x55:1941)"
NO_FIRMWARE = "NVRM: RmInitAdapter: Cannot initialize GSP firmware RM"


@pytest.mark.parametrize(
    ("now", "subjects"),
    [
        ([NO_FIRMWARE, NO_START], ["gpu 0000:0a:00.0", "gpu 0000:42:00.0"]),
        ([NO_FIRMWARE], ["host", "gpu 0000:42:00.0"]),
    ],
)
def test_what_fails_now_comes_before_what_failed_in_the_boot_before(
    now: list[str], subjects: list[str]
) -> None:
    before = journal((60, xid(120, "42:00")), booted=BOOTED_BEFORE)
    found = look(GSP, {"kernel-log-previous": before, "kernel-log": journal(*enumerate(now, 9))})

    assert [one.subject for one in found] == subjects
    assert ["previous boot" in one.summary for one in found] == [False, True]
    assert found[0].evidence[0].section == "kernel-log"
    assert found[0].evidence[0].line.endswith(now[-1])


def test_a_card_that_fails_now_is_judged_by_this_boot_alone() -> None:
    before = journal((60, xid(120)), (90, xid(120)), booted=BOOTED_BEFORE)
    (found,) = look(GSP, {"kernel-log-previous": before, "kernel-log": journal((9, NO_START))})

    assert found.summary == "GSP firmware did not answer the driver"
    assert [one.section for one in found.evidence] == ["kernel-log"]


def test_a_log_that_goes_back_beyond_this_boot() -> None:
    both = journal((60, TIMEOUT), booted=BOOTED_BEFORE) + journal()
    (found,) = look(GSP, {"kernel-log-previous": None, "kernel-log": both})

    assert "previous boot" in found.summary
    assert found.evidence[0].section == "kernel-log"


@pytest.mark.parametrize(
    ("changed", "status"),
    [
        ({"kernel-log": None}, "unknown"),
        ({"kernel-log": ""}, "unknown"),
        ({"kernel-log": "[ 9000.0] usb 1-1: x\n"}, "info"),
        ({"pci": answers.NO_GPU, "nvidia-smi-p2p-read": None}, "skipped"),
        ({"nvidia-version": "", "nvidia-smi-p2p-read": None}, "skipped"),
    ],
)
def test_where_it_cannot_be_judged(changed: dict[str, str | None], status: str) -> None:
    (found,) = look(GSP, changed)

    assert found.status == status
