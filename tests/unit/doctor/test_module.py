"""Machines whose driver is not loaded, for one reason each."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.doctor import module_rigs as rigs
from tests.unit.doctor.examining import spec
from tests.unit.probe import answers

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rigops.doctor.finding import Finding

UNLOADED = {
    "nvidia-version": "",
    "nvidia-smi-xml": None,
    "pci": answers.PCI.replace("=nvidia", "=-"),
}


def test_a_rig_that_is_well() -> None:
    found = rigs.statuses(rigs.find(rigs.WELL))

    assert {status for check, status in found.items() if check != "drv.params"} == {"ok"}
    assert found["drv.params"] == "skipped"


def test_a_host_without_cards_is_asked_nothing() -> None:
    found = rigs.find({**rigs.WELL, "pci": answers.NO_GPU, "nvidia-smi-xml": None} | dict.fromkeys(
        ("nvidia-smi-topo", "nvidia-smi-p2p-read")))  # fmt: skip

    assert set(rigs.statuses(found).values()) == {"skipped"}


@pytest.mark.parametrize(
    ("machine", "cause", "well"),
    [
        (rigs.REFUSED, "drv.secureboot", "drv.dkms"),
        (rigs.OTHER_KERNEL, "drv.dkms", "drv.secureboot"),
        (rigs.TAKEN, "drv.nouveau", "drv.dkms"),
        (rigs.UNBUILT, "drv.dkms", "drv.secureboot"),
        (rigs.SILENT, "drv.dkms", "drv.secureboot"),
    ],
)
def test_one_message_and_four_causes(machine: Mapping[str, str], cause: str, well: str) -> None:
    found = rigs.find(machine)

    failed = {each.id for each in found if each.status == "fail"}
    assert failed == {cause, "drv.loaded"}
    assert rigs.statuses(found)[well] in {"unknown", "info"}
    loaded, reason = rigs.one(found, "drv.loaded"), rigs.one(found, cause)
    assert loaded.data == {"cause": cause}
    assert reason.summary in loaded.summary
    assert loaded.fix == reason.fix
    assert reason.fix is not None
    assert reason.evidence


@pytest.mark.parametrize("machine", [rigs.REFUSED, rigs.OTHER_KERNEL, rigs.TAKEN, rigs.UNBUILT])
def test_a_listing_without_drivers_leaves_the_cause(machine: Mapping[str, str]) -> None:
    bare = rigs.lspci().partition("\n")[0] + "\n"

    assert rigs.statuses(rigs.find({**machine, "lspci": bare}))["drv.loaded"] == "fail"


def test_nothing_is_installed() -> None:
    found = rigs.one(
        rigs.find({**rigs.WELL, **UNLOADED, "dkms": "", "packages": "",
                   "nvidia-modinfo": rigs.without_module(rigs.KERNEL)}, spec(driver="535")),
        "drv.loaded",
    )  # fmt: skip

    assert found.status == "fail"
    assert "none is installed" in found.summary
    assert found.fix is not None
    assert (found.fix.kind, found.fix.declare) == ("apply+reboot", {"driver": "535"})


def test_a_module_that_nobody_has_loaded() -> None:
    found = rigs.one(rigs.find({**rigs.WELL, **UNLOADED}), "drv.loaded")

    assert found.status == "fail"
    assert found.fix is not None
    assert "modprobe nvidia" in found.fix.text


def test_the_next_kernel_is_no_reason_why_this_one_has_no_driver() -> None:
    found = rigs.find({**rigs.WELL, **UNLOADED, "nvidia-modinfo": rigs.modinfo(rigs.KERNEL),
                       "dkms": rigs.dkms(rigs.KERNEL)})  # fmt: skip

    assert rigs.statuses(found)["drv.dkms"] == "fail"
    assert rigs.one(found, "drv.loaded").data == {}


@pytest.mark.parametrize(
    ("changed", "status"),
    [
        ({"nvidia-version": None, "nvidia-smi-xml": None}, "unknown"),
        ({"nvidia-version": "rubbish", "nvidia-smi-xml": None}, "unknown"),
        ({"nvidia-version": None}, "ok"),
        ({"nvidia-version": ""}, "ok"),  # as under WSL: nvidia-smi shows the cards
        ({"nvidia-version": answers.VERSION.format("610.57.04-p2p")}, "ok"),
        ({"nvidia-version": "", "nvidia-smi-xml": None}, "fail"),
    ],
)
def test_how_it_is_known_whether_it_is_loaded(changed: dict[str, str | None], status: str) -> None:
    found = rigs.one(rigs.find({**rigs.WELL, **changed}), "drv.loaded")

    assert found.status == status
    assert found.essential


def test_no_driver_where_nobody_knows_of_a_card() -> None:
    bare = {"nvidia-version": "", "uname": rigs.uname(rigs.KERNEL)}

    assert rigs.one(rigs.find(bare), "drv.loaded").status == "unknown"
    wanted = rigs.one(rigs.find(bare, spec(gpus=2)), "drv.loaded")
    assert wanted.status == "fail"


_FAULTY: dict[str, Mapping[str, str | None]] = {
    "refused": rigs.REFUSED,
    "refused at all": {**rigs.WELL, **UNLOADED, "kernel-log": rigs.LOCKDOWN,
                       "secure-boot": "SecureBoot enabled\n"},
    "unsigned": {**rigs.WELL, **UNLOADED, "secure-boot": "SecureBoot enabled\n"},
    "other kernel": rigs.OTHER_KERNEL,
    "taken": rigs.TAKEN,
    "unbuilt": rigs.UNBUILT,
    "silent": rigs.SILENT,
    "next": {**rigs.WELL, "nvidia-modinfo": rigs.modinfo(rigs.KERNEL)
             + rigs.without_module(rigs.NEXT), "dkms": rigs.dkms(rigs.KERNEL)},
    "updated": {**rigs.WELL, "nvidia-modinfo": rigs.modinfo(rigs.KERNEL, version="535.274.02"),
                "packages": rigs.PACKAGES.replace(rigs.DRIVER, "535.274.02"),
                "nvidia-smi-xml": "Failed to initialize NVML: Driver/library version mismatch\n"
                                  "NVML library version: 535.274\n"},
    "open": {**rigs.WELL, "pci": answers.PCI.replace("0x2204", "0x1db1"),
             "nvidia-version": answers.OPEN_VERSION.replace("580.95.05", rigs.DRIVER),
             "nvidia-smi-xml": rigs.WELL["nvidia-smi-xml"].replace(
                 "NVIDIA GeForce RTX 3090", "Tesla V100-SXM2-16GB")},
    "idle": {**rigs.WELL, "nvidia-smi-xml": rigs.smi("Enabled", "Disabled")},
    "stuck": {**rigs.WELL, "processes": rigs.TASKS.replace("state=S", "state=D")},
    "headers": {**rigs.WELL, "dkms": rigs.dkms(rigs.KERNEL, rigs.NEXT).replace(
        f"/lib/modules/{rigs.NEXT}/build\n", "")},
    "nodes": {**rigs.WELL, "dev-nodes": rigs.NODES.replace("511, ", "509, ")},
}  # fmt: skip
MACHINES = {
    name: {section: text for section, text in machine.items() if text is not None}
    for name, machine in _FAULTY.items()
}
BEFORE = {name: rigs.find(machine) for name, machine in MACHINES.items()}


@pytest.mark.parametrize("name", MACHINES)
def test_each_of_these_machines_has_a_fault(name: str) -> None:
    assert {"fail", "warn"} & set(rigs.statuses(BEFORE[name]).values())


@pytest.mark.parametrize("name", MACHINES)
def test_what_is_lost_or_cut_off_never_makes_a_fault_well(name: str) -> None:
    machine = MACHINES[name]
    for section in machine:
        lost = rigs.find({**machine, section: None})
        cut = rigs.find(machine, codes={section: 1})
        late = rigs.find(machine, codes={section: 124}, timed_out=[section])
        for after in (lost, cut, late):
            _is_no_better(BEFORE[name], after)


@settings(max_examples=min(300, settings().max_examples))
@given(st.sampled_from(sorted(MACHINES)), st.data())
def test_two_sections_less_are_no_better_either(name: str, data: st.DataObject) -> None:
    machine = MACHINES[name]
    less = data.draw(st.lists(st.sampled_from(sorted(machine)), min_size=2, max_size=4))

    _is_no_better(BEFORE[name], rigs.find({**machine, **dict.fromkeys(less)}))


@settings(max_examples=min(300, settings().max_examples))
@given(st.sampled_from(sorted(MACHINES)), st.data())
def test_a_section_whose_end_is_missing_is_no_better(name: str, data: st.DataObject) -> None:
    machine = MACHINES[name]
    section = data.draw(st.sampled_from(sorted(set(machine) - {"kernel-log", "pci", "lspci"})))
    length = data.draw(st.integers(0, len(machine[section])))
    code = data.draw(st.sampled_from([0, 1, 124]))

    _is_no_better(
        BEFORE[name],
        rigs.find({**machine, section: machine[section][:length]}, codes={section: code}),
    )


@pytest.mark.parametrize("length", [24, 40, 60])
def test_a_list_of_processes_without_its_end_is_unknown(length: int) -> None:
    stuck = MACHINES["stuck"]
    found = rigs.find({**stuck, "processes": stuck["processes"][:length]})

    assert [one.status for one in found if one.id == "drv.hang"] == ["unknown"]


@settings(max_examples=min(300, settings().max_examples))
@given(st.sampled_from(sorted(MACHINES)), st.data(), st.text(max_size=40))
def test_no_text_makes_a_check_raise(name: str, data: st.DataObject, rubbish: str) -> None:
    machine = MACHINES[name]
    section = data.draw(st.sampled_from(sorted(machine)))
    length = data.draw(st.integers(0, len(machine[section])))

    found = rigs.find({**machine, section: machine[section][:length] + rubbish})

    assert {each.id for each in found} == {check.id for check in rigs.CHECKS}
    for each in found:
        assert (each.fix is not None) == (each.status in {"fail", "warn"})


def _is_no_better(before: list[Finding], after: list[Finding]) -> None:
    bad = {each.id for each in before if each.status in {"fail", "warn"}}
    well = {each.id for each in after if each.status == "ok"}
    assert not bad & well


@pytest.mark.parametrize(
    "lines",
    [
        (
            "Error! Could not locate dkms.conf file.\n"
            "File: /var/lib/dkms/nvidia/415.18/source/dkms.conf does not exist.\n"
        ),
        "Error! Could not locate dkms.conf file.\nFile:  does not exist.\n",
        (
            "nvidia/415.18: broken\nError! nvidia/415.18: Missing the module source directory or "
            "the symbolic link pointing to it.\nManual intervention is required!\n"
        ),
    ],
)
def test_a_module_without_its_source_stops_dkms(lines: str) -> None:
    """Layouts: public notes of 415.18 to 415.22, an apt log of linux-headers-5.4."""
    text = f"{rigs.dkms(rigs.KERNEL, rigs.NEXT)}{lines}"
    finding = rigs.one(rigs.find({**rigs.WELL, "dkms": text}), "drv.dkms")
    bare = rigs.one(rigs.find({"lspci": rigs.lspci(), "dkms": lines}), "drv.dkms")

    assert finding.status == "warn"
    assert bare.status in {"warn", "fail"}
    assert finding.evidence[0].line in lines
    assert finding.fix is not None
    assert ("nvidia/415.18" in finding.fix.text) is ("415.18" in lines)
