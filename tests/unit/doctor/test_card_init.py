"""gpu.init, and what else the kernel logs of a card that is not there any more.

Layouts of public reports: NVIDIA/gpu-operator#1146 and #649, NVIDIA/open-gpu-kernel-modules#1151,
Bumblebee-Project/Bumblebee#111 (two numbers, no card), system76/firmware-open#259,
clearlinux/distribution#3291.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.unit.doctor.examining import catalog, check_of
from tests.unit.doctor.logged import BOOTED_BEFORE, journal, look, xid
from tests.unit.doctor.pcie_rigs import smi, smi_card
from tests.unit.probe import answers

if TYPE_CHECKING:
    from rigops.doctor.check import Check

INIT = check_of("gpu.init")
GSP = check_of("drv.gsp")
LOST = check_of("gpu.lost")
NO_DEVICES = {"nvidia-smi-xml": "No devices were found\n", "nvidia-smi-p2p-read": None}
ANSWERING = {"nvidia-smi-xml": smi(smi_card("0000:0a:00.0"), smi_card("0000:0b:00.0"))}
CARD = "NVRM: GPU 0000:0a:00.0: "
UNREACHABLE = "0000:0a:00.0: Unable to change power state from D3cold to D0, device inaccessible"
OLD_UNREACHABLE = (
    "0000:0a:00.0: can't change power state from D3cold to D0 (config space inaccessible)"
)
IS_LOST = (
    "NVRM: nvCheckOkFailedNoLog: Check failed: GPU lost from the bus [NV_ERR_GPU_IS_LOST] "
    "(0x0000000F) returned from kgspWaitForRmInitDone_HAL(pGpu, pKernelGsp) @ kernel_gsp.c:4100"
)


def test_a_log_without_it_is_well() -> None:
    (found,) = look(INIT)

    assert found.status == "ok"


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("0x10:0x56:1500", "registers"),
        ("0x11:0x45:2525", "interrupts of the card do not arrive"),
        ("0x22:0x56:894", "does not support the card"),
        ("0x22:0x65:884", "attach"),
        ("0x23:0x3b:1206", "prepared"),
        ("0x24:0x72:1568", "a memory error of the card"),
        ("0x25:0x40:1470", "valid state"),
        ("0x25:0xffff:1470", "no reason is given"),
        ("0x26:0x56:1463", "DMA"),
        ("0x30:0xffff:660", "VBIOS could not be read"),
        ("0x31:0x40:2936", "VBIOS did not run"),
        ("0x61:0x56:1927", "GSP firmware's file"),
        ("0x24:1423", "engines could not be set up"),
        ("0x7e:0x99:1", "not documented"),
    ],
)
def test_every_code_is_a_card_that_does_not_come_up(code: str, said: str) -> None:
    line = f"{CARD}RmInitAdapter failed! ({code})"
    (found,) = look(INIT, {**NO_DEVICES, "kernel-log": journal((60, line))})

    assert (found.status, found.subject) == ("fail", "gpu 0000:0a:00.0")
    assert said in found.summary
    assert found.evidence[0].line.endswith(line)
    assert found.evidence[-1].line == "No devices were found"
    assert found.fix is not None
    (gsp,) = look(GSP, {"kernel-log": journal((60, line))})
    assert gsp.status == "ok"


@pytest.mark.parametrize(
    "line",
    ["NVRM: RmInitAdapter failed! (0x30:0xffffffff:859)", "NVRM: RmInitAdapter failed!"],
)
def test_drivers_that_name_no_card(line: str) -> None:
    text = journal((60, line), (61, "NVRM: rm_init_adapter(0) failed"))
    (found,) = look(INIT, {**NO_DEVICES, "kernel-log": text})

    assert (found.status, found.subject) == ("fail", "gpu unknown")
    assert ("no reason is given" in found.summary) is ("0x30" in line)


@pytest.mark.parametrize(
    "line",
    [
        f"{CARD}rm_init_adapter failed, device minor number 5",
        "nvidia 0000:0a:00.0: probe with driver nvidia failed with error -1",
        "nvidia: probe of 0000:0a:00.0 failed with error -1",
    ],
)
def test_what_follows_a_failure_counts_where_the_failure_is_lost(line: str) -> None:
    (found,) = look(INIT, {**NO_DEVICES, "kernel-log": journal((60, line))})
    coded = journal((59, f"{CARD}RmInitAdapter failed! (0x24:0x72:1568)"), (60, line))
    (known,) = look(INIT, {**NO_DEVICES, "kernel-log": coded})
    gsp = journal((59, f"{CARD}RmInitAdapter failed! (0x62:0x55:1941)"), (60, line))

    assert (found.status, found.subject) == ("fail", "gpu 0000:0a:00.0")
    assert "times" not in known.summary
    assert "0x24:0x72" in known.summary
    assert look(INIT, {**NO_DEVICES, "kernel-log": gsp})[0].status == "ok"


@pytest.mark.parametrize(
    ("before", "said", "fix"),
    [
        (f"nvidia {UNREACHABLE}", "did not answer when it was woken", "d3cold_allowed"),
        (f"vfio-pci {UNREACHABLE}", "did not answer when it was woken", "d3cold_allowed"),
        ("NVRM: BAR1 is 0M @ 0x0 (PCI:0000:0a:00.0)", "no room", "pci=realloc"),
        ("NVRM: Xid (PCI:0000:0a:00): 79, GPU has fallen off the bus.", "fallen off", "reseat"),
    ],
)
def test_what_the_kernel_said_before_is_the_cause(before: str, said: str, fix: str) -> None:
    line = f"{CARD}RmInitAdapter failed! (0x22:0x56:667)"
    log = journal((60, before), (61, line))
    (found,) = look(INIT, {**NO_DEVICES, "kernel-log": log})
    (after,) = look(INIT, {**NO_DEVICES, "kernel-log": journal((60, line), (61, before))})

    assert said in found.summary
    assert "0x22:0x56" in found.summary
    assert "does not support the card" in found.why
    assert fix in str(found.fix)
    assert before in found.evidence[0].line
    assert said == "no room" or said not in after.summary


ALPHA = "NVRM: Open nvidia.ko is only ready for use on Data Center GPUs."
NO_ENGINE = "NVRM kgspInitRm_IMPL: missing NVDEC0 engine, cannot initialize GSP-RM"
OFF_ON = "NVRM: osInitNvMapping: *** Cannot attach gpu"


@pytest.mark.parametrize(
    ("check", "line", "code", "fix"),
    [
        (INIT, ALPHA, "0x63:0x0:0", "proprietary module"),
        (GSP, NO_ENGINE, "0x62:0x40:1760", "proprietary module"),
        (INIT, OFF_ON, "0x7e:0x99:751", "switch the machine off and on"),
        (GSP, "NVRM: RmFetchGspRmImages: No firmware image found", "0x62:0x40:1", "firmware of"),
    ],
)
def test_a_known_line_that_says_why_a_card_did_not_start_has_the_fix(
    check: Check, line: str, code: str, fix: str
) -> None:
    """NVIDIA/open-gpu-kernel-modules#230, #116: the proprietary module cured both."""
    log = journal((60, line), (61, f"{CARD}RmInitAdapter failed! ({code})"))
    (found,) = look(check, {**NO_DEVICES, "kernel-log": log})

    assert found.status == "fail"
    assert fix in str(found.fix)
    assert "power cord" not in str(found.fix)


@pytest.mark.parametrize("bus", ["10", "10@0"])
def test_the_x_server_says_that_a_card_did_not_start(bus: str) -> None:
    line = f"(EE) NVIDIA(GPU-0): Failed to initialize the NVIDIA GPU at PCI:{bus}:0:0.  Please"
    log = f"{journal()}[  656.668] {line}\n"
    found = look(INIT, {"nvidia-smi-xml": None, "kernel-log": log})[0]

    assert (found.status, f"PCI:{bus}:0:0" in found.summary) == ("fail", True)


def test_a_card_that_the_driver_ignores_is_told_once() -> None:
    text = journal(
        (4, "NVRM: The NVIDIA Tesla V100-SXM2-16GB GPU installed in this system is"),
        (4, "NVRM:  supported through the NVIDIA 580.xx Legacy drivers. Please"),
        (5, "nvidia 0000:0a:00.0: probe with driver nvidia failed with error -1"),
    )
    (found,) = look(INIT, {**NO_DEVICES, "kernel-log": text})

    assert found.status == "ok"


def test_the_only_card_is_the_one_that_is_meant() -> None:
    log = journal((60, "NVRM: RmInitAdapter failed! (0x26:0xffff:1155)"))
    alone = {**NO_DEVICES, "pci": answers.ONE_GPU, "kernel-log": log}
    (found,) = look(INIT, alone)

    assert found.subject == "gpu 0000:0a:00.0"


def test_tries_are_counted_and_each_card_is_a_finding() -> None:
    tries = [(30.0 * n, f"{CARD}RmInitAdapter failed! (0x24:0x72:1568)") for n in range(1, 17)]
    other = (600, "NVRM: GPU 0000:0b:00.0: RmInitAdapter failed! (0x25:0x65:1461)")
    one, two = look(INIT, {**NO_DEVICES, "kernel-log": journal(*tries, other)})

    assert "16 times" in one.summary
    assert len(one.evidence) == 4
    assert (two.subject, two.status) == ("gpu 0000:0b:00.0", "fail")


def test_a_card_that_answers_now_did_start_in_the_end() -> None:
    line = f"{CARD}RmInitAdapter failed! (0x25:0x65:1461)"
    (now,) = look(INIT, {**ANSWERING, "kernel-log": journal((60, line))})
    before = {"kernel-log-previous": journal((60, line), booted=BOOTED_BEFORE)}
    (earlier,) = look(INIT, {**ANSWERING, **before})
    (still,) = look(INIT, {**before, **NO_DEVICES})

    assert (now.status, earlier.status, still.status) == ("warn", "info", "fail")
    assert "it answers now" in now.summary
    assert "previous boot" in earlier.summary
    assert earlier.fix is None


def test_this_boot_comes_before_the_one_before() -> None:
    text = {
        "kernel-log": journal((60, f"{CARD}RmInitAdapter failed! (0x24:0x72:1568)")),
        "kernel-log-previous": journal(
            *((n, f"{CARD}RmInitAdapter failed! (0x25:0x65:1461)") for n in range(5, 99)),
            booted=BOOTED_BEFORE,
        ),
    }
    (found,) = look(INIT, {**NO_DEVICES, **text})

    assert "0x24:0x72" in found.summary
    assert found.evidence[0].section == "kernel-log"


def test_the_firmware_of_the_card_is_judged_once() -> None:
    log = journal((60, f"{CARD}RmInitAdapter failed! (0x62:0x55:1941)"))

    assert look(INIT, {"kernel-log": log})[0].status == "ok"
    assert look(GSP, {"kernel-log": log})[0].status == "fail"


@pytest.mark.parametrize(
    ("changed", "status"),
    [
        ({"kernel-log": None}, "unknown"),
        ({"kernel-log": "[ 9000.0] usb 1-1: x\n"}, "info"),
        ({"pci": answers.NO_GPU, "nvidia-smi-p2p-read": None}, "skipped"),
        ({"nvidia-version": "", "nvidia-smi-p2p-read": None}, "skipped"),
    ],
)
def test_where_it_cannot_be_judged(changed: dict[str, str | None], status: str) -> None:
    (found,) = look(INIT, changed)

    assert found.status == status


@pytest.mark.parametrize(
    "line",
    [
        f"nvidia {UNREACHABLE}",
        f"nvidia {OLD_UNREACHABLE}",
        "vfio-pci 0000:0a:00.0: not ready 65535ms after bus reset; giving up",
    ],
)
def test_a_card_that_the_kernel_cannot_reach_is_lost(line: str) -> None:
    found = look(LOST, {**NO_DEVICES, "kernel-log": journal((60, line))})

    assert [(one.status, one.subject) for one in found] == [("fail", "gpu 0000:0a:00.0")]
    assert found[0].evidence[0].line.endswith(line)


def test_another_device_that_the_kernel_cannot_reach_is_no_card() -> None:
    line = f"atlantic {UNREACHABLE.replace('0a', '06')}"
    found = look(LOST, {**NO_DEVICES, "kernel-log": journal((60, line))})

    assert [one.status for one in found] == ["unknown"]


@pytest.mark.parametrize(("log", "subject"), [((), "unknown"), ((xid(79),), "0000:0a:00.0")])
def test_a_lost_card_belongs_to_the_one_that_fell_off_the_bus(
    log: tuple[str, ...], subject: str
) -> None:
    text = journal(*enumerate([*log, IS_LOST, IS_LOST], 60))
    (found,) = look(LOST, {**NO_DEVICES, "kernel-log": text})

    assert (found.status, found.subject) == ("fail", f"gpu {subject}")


def test_a_card_that_answers_again_is_not_lost() -> None:
    text = journal((60, xid(79)), (60, IS_LOST))

    (found,) = look(LOST, {**ANSWERING, "lspci": None, "kernel-log": text})

    assert found.status != "fail"


def test_codes_are_written_as_the_driver_writes_them() -> None:
    codes = [one.code for one in catalog().init_codes]

    assert {"0x22", ":0x56", "0x22:0x56", ":0xffff"} <= set(codes)
    assert len(set(codes)) == len(codes)
