from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.doctor.examining import check_of, judge
from tests.unit.doctor.logged import BOOTED_BEFORE, SECTIONS, journal, look, xid
from tests.unit.probe import answers

FAULT = check_of("iommu.fault")
AMD = "AMD-Vi: Event logged [IO_PAGE_FAULT device={} domain=0x000e address=0xf8000000 flags=0x0030]"
DMAR = "DMAR: [DMA Write NO_PASID] Request device [{}] fault addr 0xf0000000 [fault reason 0x05]"
NVME = (
    "0000:01:00.0 vendor=0x144d device=0xa808 class=0x010802 rev=00 driver=nvme link=8.0,4 "
    "max=8.0,4 numa=0 bar1=- path=/sys/devices/pci0000:00/0000:00:01.1/0000:01:00.0\n"
)
PT = {
    "proc-cmdline": "root=/dev/sda1 ro iommu=pt\n",
    "iommu-groups": answers.PASSTHROUGH,
}


def test_no_fault_is_well() -> None:
    (found,) = look(FAULT)

    assert found.status == "ok"


@pytest.mark.parametrize("form", [AMD, DMAR])
def test_a_card_that_was_stopped(form: str) -> None:
    line = form.format("0a:00.0")
    (found,) = look(FAULT, {"kernel-log": journal((60, line), (61, line))})

    assert (found.status, found.subject) == ("fail", "gpu 0000:0a:00.0")
    assert "2 times" in found.summary
    assert found.evidence[0].section == "kernel-log"
    assert found.evidence[0].line.endswith(line)
    assert found.fix is not None
    assert (found.fix.kind, found.fix.concern) == ("apply+reboot", "kernel_args")
    assert found.fix.declare == {"kernel_args": ["iommu=pt"]}


def test_the_previous_boot_counts_too() -> None:
    before = journal((60, AMD.format("0b:00.0")), booted=BOOTED_BEFORE)
    (found,) = look(FAULT, {"kernel-log-previous": before})

    assert (found.status, found.subject) == ("fail", "gpu 0000:0b:00.0")
    assert found.evidence[0].section == "kernel-log-previous"


def test_this_boot_is_cited_first() -> None:
    line = AMD.format("0b:00.0")
    logs = {
        "kernel-log-previous": journal((60, line), booted=BOOTED_BEFORE),
        "kernel-log": journal((60, line)),
    }
    (found,) = look(FAULT, logs)

    assert [one.section for one in found.evidence] == ["kernel-log", "kernel-log-previous"]


def test_the_sound_function_of_a_card_is_the_card() -> None:
    (found,) = look(FAULT, {"kernel-log": journal((60, AMD.format("0a:00.1")))})

    assert (found.status, found.subject) == ("fail", "gpu 0000:0a:00.0")


def test_a_card_that_has_gone_from_the_bus_is_known_by_its_xid() -> None:
    text = journal((60, AMD.format("0c:00.0")), (61, xid(79, "0c:00")))
    (found,) = look(FAULT, {"kernel-log": text})

    assert (found.status, found.subject) == ("fail", "gpu 0000:0c:00.0")


@pytest.mark.parametrize(
    ("address", "named"),
    [("01:00.0", "an NVMe disk (144d:a808)"), ("05:00.0", "a device that is not known")],
)
def test_other_devices_do_it_too(address: str, named: str) -> None:
    text = journal((60, AMD.format(address)))
    (found,) = look(FAULT, {"kernel-log": text, "pci": answers.PCI + NVME})

    assert (found.status, found.subject) == ("warn", f"/sys/bus/pci/devices/0000:{address}")
    assert named in found.summary
    assert found.fix is not None
    assert found.fix.kind == "hands"
    assert "iommu=pt is" not in found.fix.text


def test_a_fault_that_names_no_device() -> None:
    (found,) = look(FAULT, {"kernel-log": journal((60, "AMD-Vi: [IO_PAGE_FAULT domain=0x1]"))})

    assert (found.status, found.subject) == ("warn", "host")


def test_each_device_has_its_own_finding() -> None:
    text = journal((60, AMD.format("0a:00.0")), (61, AMD.format("01:00.0")))
    found = look(FAULT, {"kernel-log": text, "pci": answers.PCI + NVME})

    assert [one.status for one in found] == ["fail", "warn"]


def test_one_card_alone_has_no_peer_to_blame() -> None:
    text = journal((60, AMD.format("0a:00.0")))
    alone = {"kernel-log": text, "pci": answers.ONE_GPU, "nvidia-smi-p2p-read": None}
    (one,), (two,) = look(FAULT, alone), look(FAULT, {"kernel-log": text})

    assert (one.status, two.status) == ("fail", "fail")
    assert "no other card" in one.why
    assert one.why != two.why


def test_with_passthrough_live_something_else_remains() -> None:
    (found,) = look(FAULT, {**PT, "kernel-log": journal((60, AMD.format("0a:00.0")))})

    assert found.status == "fail"
    assert found.fix is not None
    assert found.fix.kind == "hands"
    assert "BIOS" in found.fix.text


def test_passthrough_that_came_with_this_boot_was_the_fix() -> None:
    before = journal((60, AMD.format("0a:00.0")), booted=BOOTED_BEFORE)
    (over,) = look(FAULT, {**PT, "kernel-log-previous": before})
    not_sure = look(FAULT, {**PT, "kernel-log-previous": before, "kernel-log": None})
    (no_groups,) = look(FAULT, {**PT, "kernel-log-previous": before, "iommu-groups": None})

    assert (over.status, over.fix) == ("info", None)
    assert [one.status for one in not_sure] == ["fail", "unknown"]
    assert no_groups.status == "fail"


@pytest.mark.parametrize(
    ("text", "rc", "status"),
    [
        (None, 0, "unknown"),
        ("", 0, "unknown"),
        ("Operation not permitted\n", 1, "unknown"),
        ("[ 9000.0] usb 1-1: x\n", 0, "info"),
    ],
)
def test_a_log_that_tells_little_proves_little(text: str | None, rc: int, status: str) -> None:
    (found,) = look(FAULT, {"kernel-log": text}, cut={"kernel-log": rc})

    assert found.status == status


def test_no_card_no_judgement() -> None:
    text = journal((60, AMD.format("01:00.0")))
    (found,) = look(FAULT, {"pci": answers.NO_GPU, "nvidia-smi-p2p-read": None, "kernel-log": text})

    assert found.status == "skipped"


@given(st.sampled_from(sorted(SECTIONS)), st.one_of(st.none(), st.integers(0, 2000)))
def test_losing_a_section_never_turns_a_failure_into_well(section: str, length: int | None) -> None:
    line = AMD.format("0a:00.0")
    texts = {
        "kernel-log": journal((60, line)),
        "kernel-log-previous": journal((60, line), booted=BOOTED_BEFORE),
    }
    whole = {**SECTIONS, **texts}[section]
    changed: dict[str, str | None] = {**texts, section: None if length is None else whole[:length]}

    found = {one.status for one in look(FAULT, changed, cut={section: 1})}

    assert found & {"fail", "warn"}
    assert not found & {"ok", "info", "skipped"}


def test_a_line_of_the_driver_names_the_card_where_nothing_else_does() -> None:
    log = (
        "[  312.4] nvidia 0000:41:00.0: AMD-Vi: Event logged [IO_PAGE_FAULT domain=0x000e "
        "address=0xd0139068 flags=0x0030]\n"
    )
    found = judge({"kernel-log": log}, checks=[check_of("iommu.fault")])

    assert [(one.status, one.subject) for one in found if one.status != "unknown"] == [
        ("fail", "gpu 0000:41:00.0")
    ]
