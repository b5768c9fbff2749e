"""gpu.count and gpu.lost."""

from __future__ import annotations

import pytest

from rigops.probe.lost_cards import ADVICE
from tests.unit.doctor.examining import changed_from, checks_of, judge, spec
from tests.unit.doctor.logged import journal, xid
from tests.unit.doctor.pcie_rigs import (
    HEALTHY,
    NO_REDIRECTION,
    ONE,
    OTHER,
    PCI,
    RISERS,
    ROOT_PORTS,
    card,
    found,
    look,
    smi,
    smi_card,
)
from tests.unit.probe import answers

COUNT = "gpu.count"
LOST = "gpu.lost"
UUID = "GPU-11111111-0000-0000-0000-0000000000"
LOST_LINE = (
    "Unable to determine the device handle for GPU0000:61:00.0: GPU is lost.  "
    "Reboot the system to recover this GPU\n"
)


def test_all_cards_of_all_sources() -> None:
    assert (look(COUNT).status, look(LOST).status) == ("ok", "ok")
    assert len(look(COUNT).evidence) == 2


def test_no_card_and_none_declared_is_information_and_skips_the_rest() -> None:
    texts = {"pci": answers.NO_GPU}

    assert found(COUNT, texts)[0].status == "info"
    assert found(LOST, texts)[0].status == "skipped"
    assert found(COUNT, texts, spec(gpus=1))[0].status == "fail"


@pytest.mark.parametrize(
    ("declared", "status", "said"),
    [
        (2, "ok", "as declared"),
        (1, "info", "1 declared"),
        (3, "fail", "3 declared, 2 there"),
        ({"RTX 5880 Ada": 2}, "ok", "as declared"),
        ({"RTX 5880 Ada": 1, "RTX 3090": 1}, "fail", "1 of RTX 3090 missing"),
        ({"RTX 3090": 3}, "fail", "3 of RTX 3090 missing"),
        ([f"{UUID}41", f"{UUID}61"], "ok", "as declared"),
        ([f"{UUID}41", f"{UUID}99"], "fail", f"{UUID}99 missing"),
    ],
)
def test_what_is_declared(declared: object, status: str, said: str) -> None:
    finding = look(COUNT, spec(gpus=declared))

    assert finding.status == status
    assert said in finding.summary
    assert (finding.fix is not None) == (status == "fail")


def test_uuids_that_nobody_could_be_asked_for_are_unknown() -> None:
    assert look(COUNT, spec(gpus=[f"{UUID}41"]), nvidia_smi_xml=None).status == "unknown"


def test_a_card_that_the_driver_has_lost_is_named() -> None:
    finding = look(COUNT, nvidia_smi_xml=smi(smi_card(ONE)))

    assert finding.status == "fail"
    assert OTHER in finding.summary
    assert ONE not in finding.summary


def test_a_card_that_another_driver_has_is_not_missed() -> None:
    passed_on = PCI.replace(f"{OTHER} ", f"{OTHER} ", 1).splitlines(keepends=True)
    passed_on[3] = passed_on[3].replace("driver=nvidia", "driver=vfio-pci")

    texts = {"pci": "".join(passed_on), "nvidia-smi-xml": smi(smi_card(ONE))}
    assert found(COUNT, {**HEALTHY, **texts})[0].status == "ok"


@pytest.mark.parametrize(
    "said",
    [
        "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.\n",
        "Failed to initialize NVML: Driver/library version mismatch\n",
        smi(smi_card(ONE), smi_card(OTHER))[:900],
        None,
    ],
)
def test_nvidia_smi_that_fails_as_a_whole_is_neither_no_card_nor_well(said: str | None) -> None:
    assert look(COUNT, nvidia_smi_xml=said).status == "unknown"
    assert look(LOST, nvidia_smi_xml=said).status == "unknown"


def test_without_a_driver_the_bus_alone_counts() -> None:
    bare = PCI.replace("driver=nvidia", "driver=-")
    nobody = NO_REDIRECTION.replace("in use: nvidia", "in use: -")
    texts = {"pci": bare, "lspci": nobody.replace("\tKernel driver in use: -\n", "")}

    finding = found(COUNT, {**HEALTHY, **texts, "nvidia-version": "", "nvidia-smi-xml": ""})[0]
    assert finding.status == "ok"


def test_no_devices_were_found_although_the_driver_has_them() -> None:
    finding = look(COUNT, nvidia_smi_xml="No devices were found\n")

    assert finding.status == "fail"
    assert ONE in finding.summary


def test_a_list_that_is_not_whole_is_no_count() -> None:
    for damaged in (PCI[:-200], f"{PCI}rubbish\n"):
        texts = {"pci": damaged, "boot": HEALTHY["boot"]}
        assert found(COUNT, texts)[0].status == "unknown"
    assert found(COUNT, {"pci": PCI}, cut={"pci": 124})[0].status == "unknown"


def test_a_card_that_nvidia_smi_cannot_reach() -> None:
    (count,) = found(COUNT, {**HEALTHY, "nvidia-smi-xml": LOST_LINE})
    (lost,) = found(LOST, {**HEALTHY, "nvidia-smi-xml": LOST_LINE})

    assert (count.status, lost.status) == ("fail", "fail")
    assert lost.subject == f"gpu {OTHER}"
    assert lost.evidence[0].line == LOST_LINE.strip()
    assert ONE not in count.summary


def test_a_lost_card_has_one_advice_and_no_fix_that_apply_refuses() -> None:
    dropped = xid(79, OTHER[5:10], "GPU has fallen off the bus.")
    texts = {
        **HEALTHY,
        "lspci": ROOT_PORTS,
        "nvidia-smi-xml": LOST_LINE,
        "nvidia-smi-p2p-read": LOST_LINE,
        "kernel-log": journal((700, dropped)),
    }

    checks = checks_of("xid", LOST, COUNT, "acs.path", "pwr.limit")
    found = [one for one in judge(texts, checks=checks) if one.status in {"fail", "warn"}]

    assert [one.id for one in found] == ["xid", LOST, COUNT]
    assert {one.fix.text for one in found if one.fix} == {ADVICE}
    assert {one.fix.kind for one in found if one.fix} == {"hands"}
    assert found[1].summary.startswith("lost since 2026-01-30 17:11 UTC: ")


def test_a_card_that_left_the_bus_is_lost_though_nvidia_smi_leaves_it_out() -> None:
    gone = PCI.splitlines(keepends=True)
    gone[3] = gone[3].replace("link=2.5,16", "link=Unknown,63")
    texts = {**HEALTHY, "pci": "".join(gone), "lspci": None}

    (asleep,) = found(LOST, changed_from(HEALTHY, texts))
    texts["nvidia-smi-xml"] = smi(smi_card(ONE))
    (lost,) = found(LOST, changed_from(HEALTHY, texts))

    assert asleep.status != "fail"
    assert (lost.status, lost.subject) == ("fail", f"gpu {OTHER}")


@pytest.mark.parametrize(
    ("named", "subject"),
    [
        ("GPU 00000000:61:00.0: ", "gpu 0000:61:00.0"),
        ("GPU 61:00.0: ", "gpu 0000:61:00.0"),
        ("GPU0: 0000:61:00.0: ", "gpu 0000:61:00.0"),
        ("GPU1: ", "gpu 0000:61:00.0"),
        ("GPU: ", "gpu unknown"),
    ],
)
def test_a_device_handle_that_cannot_be_had_is_a_lost_card(named: str, subject: str) -> None:
    line = f"Unable to determine the device handle for {named}Unknown Error\n"
    (lost,) = found(LOST, {**HEALTHY, "nvidia-smi-xml": line})

    assert (lost.status, lost.subject) == ("fail", subject)
    assert lost.evidence[0].line == line.strip()


def test_a_card_that_reads_as_ones() -> None:
    (finding,) = found(LOST, {"lspci": RISERS})
    (count,) = found(COUNT, {"lspci": RISERS}, spec(gpus=8))

    assert (finding.status, finding.subject) == ("fail", "gpu 0000:0f:00.0")
    assert "(rev ff)" in finding.evidence[0].line
    assert finding.fix is not None
    assert "8 declared, 2 there" in count.summary


@pytest.mark.parametrize(
    ("troubles", "status"),
    [
        ({"watts": "ERR!"}, "info"),
        ({"fan": "ERR!"}, "warn"),
        ({"mig": "Unknown Error"}, "info"),
        ({"fan": "ERR!", "mig": "ERR!"}, "warn"),
        ({"fan": "ERR!", "mig": "ERR!", "watts": "ERR!", "state": "ERR!"}, "fail"),
        ({"fan": "ERR!", "state": "[Unknown Error]"}, "fail"),
        ({"fan": "GPU is lost"}, "fail"),
    ],
)
def test_degrees_of_values_that_cannot_be_told(troubles: dict[str, str], status: str) -> None:
    finding = look(LOST, nvidia_smi_xml=smi(smi_card(ONE, **troubles), smi_card(OTHER)))

    assert (finding.status, finding.subject) == (status, f"gpu {ONE}")
    assert finding.evidence
    assert finding.why


# The lines and the layout of driver 560.35.03 for a healthy RTX 4090.
_ADDRESSING = """\
==============NVSMI LOG==============

Driver Version                            : 560.35.03
CUDA Version                              : 12.6

Attached GPUs                             : 1
GPU 00000000:41:00.0
    Product Name                          : NVIDIA GeForce RTX 4090
    Addressing Mode                       : Unknown Error
    Fan Speed                             : 30 %
    Performance State                     : P8
    Temperature
        GPU Current Temp                  : 35 C
    Clocks
        Graphics                          : 210 MHz
    Processes                             : None

"""


def test_a_property_that_the_driver_cannot_tell_is_no_fault_of_the_card() -> None:
    doubt, finding = found(LOST, {"nvidia-smi-xml": _ADDRESSING})

    assert (doubt.status, finding.status, finding.fix) == ("unknown", "info", None)
    assert finding.summary.endswith("nvidia-smi cannot read its addressing mode")


def test_a_measurement_that_is_missing_alone_is_watched_and_nobody_unplugs_cables() -> None:
    smi_text = _ADDRESSING.replace("30 %", "[Unknown Error]")
    (finding, *_) = found(LOST, {"nvidia-smi-xml": smi_text})

    assert finding.status == "warn"
    assert finding.fix is not None
    assert "cable" not in finding.fix.text


def test_a_card_that_one_source_alone_has_seen_is_not_said_to_answer() -> None:
    third = PCI + card("pci0000:80/0000:80:01.1/0000:81:00.0")

    assert look(LOST, pci=third).status == "unknown"
    assert look(LOST, lspci=None).status == "unknown"
    assert look(LOST, lspci="").status == "ok"  # there is no lspci on this host


@pytest.mark.parametrize(
    ("line", "subject"),
    [
        ("Unable to determine the device handle for GPU1: Unknown Error", OTHER),
        ("Unable to determine the device handle for GPU 1: Unknown Error", OTHER),
        ("Unable to determine the device handle for GPU7: Unknown Error", "unknown"),
        ("Unable to determine the device handle for GPU: GPU is lost", "unknown"),
        (f"Unable to determine the device handle for GPU1: {ONE}: Unknown Error", ONE),
    ],
)
def test_an_error_line_that_names_the_card_in_part(line: str, subject: str) -> None:
    texts = {"nvidia-smi-xml": f"{line}\n"}
    lost = [one for one in found(LOST, {**HEALTHY, **texts}) if one.status == "fail"]

    assert [one.subject for one in lost] == [f"gpu {subject}"]
    assert lost[0].evidence[0].line == line
    assert "lost" in found(COUNT, {**HEALTHY, **texts})[0].summary


def test_a_number_names_no_card_where_the_bus_was_not_read() -> None:
    texts = {"nvidia-smi-xml": "Unable to determine the device handle for GPU1: Unknown Error\n"}
    bare = judge(texts, checks=checks_of(LOST))

    assert [(one.status, one.subject) for one in bare] == [("fail", "gpu unknown")]
