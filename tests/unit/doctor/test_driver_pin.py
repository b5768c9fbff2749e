from __future__ import annotations

import pytest

from tests.unit.doctor.examining import look, spec
from tests.unit.probe import answers

PIN = "drv.pin"


def loaded(version: str) -> str:
    return answers.VERSION.format(version)


def test_545_fails_with_what_the_host_said_and_who_reported_it() -> None:
    found = look(PIN)

    assert found.status == "fail"
    assert "545.29.06 is known to be bad" in found.summary
    assert found.evidence[0].section == "nvidia-version"
    assert found.evidence[0].line.startswith("NVRM version: NVIDIA UNIX x86_64")
    assert any("nccl#1127" in one.line for one in found.evidence if one.section == "catalog")
    assert found.why


def test_a_declared_driver_is_what_the_fix_installs() -> None:
    found = look(PIN, spec(driver="535"))

    assert found.status == "fail"
    assert found.summary.endswith("and 535 is declared")
    assert found.fix is not None
    assert (found.fix.kind, found.fix.concern) == ("apply+reboot", "nvidia_driver")
    assert found.fix.declare == {"driver": "535"}


def test_without_a_declaration_the_catalog_says_what_to_declare() -> None:
    fix = look(PIN).fix

    assert fix is not None
    assert fix.declare == {"driver": "580"}


def test_a_fix_never_is_the_bad_driver_that_was_declared() -> None:
    fix = look(PIN, spec(driver="545")).fix

    assert fix is not None
    assert fix.declare == {"driver": "580"}


def test_where_the_deploy_is_not_in_this_version_hands_do_it() -> None:
    fix = look(PIN, spec(driver="535"), concerns=frozenset()).fix

    assert fix is not None
    assert (fix.kind, fix.concern, fix.declare) == ("hands", None, {"driver": "535"})
    assert "apt-mark hold" in fix.text


@pytest.mark.parametrize(
    ("version", "declared", "status"),
    [
        ("535.261.03", {}, "ok"),
        ("535.261.03", {"driver": "535"}, "ok"),
        ("535.261.03", {"driver": "535.261.03"}, "ok"),
        ("535.261.03", {"driver": "535.183.01"}, "fail"),
        ("535.261.03", {"driver": ">=580"}, "fail"),
        ("550.163.01", {}, "warn"),
        ("550.163.01", {"driver": "550"}, "info"),
        ("545.29.06", {"driver": "545"}, "fail"),
        ("545.29.06", {"driver": "545", "driver_allow_bad": True}, "warn"),
        ("545.29.06", {"driver": "535", "driver_allow_bad": True}, "fail"),
        ("700.10.01", {}, "info"),
        ("700.10.01", {"driver": "700"}, "info"),
        ("525.60.13", {}, "fail"),
        ("525.105.17", {}, "warn"),
    ],
)
def test_judgements(version: str, declared: dict[str, object], status: str) -> None:
    assert look(PIN, spec(**declared), nvidia_version=loaded(version)).status == status


def test_with_modules_of_the_owner_s_own_no_other_release_of_the_branch_is_the_declared_one() -> (
    None
):
    digest, folder = "a" * 64, "/var/lib/rigops/driver-modules"
    there = (
        f"== ls OWN MODULES\n{folder}/{digest}.tar.gz\n"
        f"== {folder}/6.1.0-18-amd64/set\ndigest {digest}\nversion 535.309.01\n"
    )
    declared = {"driver": "535", "driver_modules": "tree"}
    other = look(PIN, spec(**declared), nvidia_version=loaded("535.261.03"), own_modules=there)
    same = look(PIN, spec(**declared), nvidia_version=loaded("535.309.01"), own_modules=there)

    assert (other.status, same.status == "fail") == ("fail", False)
    assert other.summary.endswith("and driver_modules is of 535.309.01")


def test_what_is_bad_for_other_cards_only_does_not_fail_here() -> None:
    v100 = answers.PCI.replace("0x2204", "0x1db1")

    assert look(PIN, nvidia_version=loaded("525.60.13"), pci=v100).status == "warn"


def test_a_driver_that_is_bad_for_some_is_not_well_on_cards_that_could_not_be_read() -> None:
    found = look(PIN, nvidia_version=loaded("525.60.13"), pci=None)

    assert found.status == "unknown"


def test_no_driver() -> None:
    assert look(PIN, nvidia_version="").status == "unknown"
    declared = look(PIN, spec(driver="535"), nvidia_version="")
    assert declared.status == "fail"
    assert declared.fix is not None
    assert declared.fix.declare == {"driver": "535"}


@pytest.mark.parametrize(
    ("version", "status"),
    [("545.29.06", "fail"), ("550.163.01", "info"), ("591.44", "info"), ("535.261.03", "ok")],
)
def test_without_proc_the_version_that_nvidia_smi_names_is_judged(
    version: str, status: str
) -> None:
    head = f"| NVIDIA-SMI {version}    Driver Version: {version}    CUDA Version: 12.3     |\n"
    found = look(PIN, nvidia_version=None, nvidia_smi_xml=head)

    assert found.status == status
    assert found.evidence[0].section == "nvidia-smi-xml"


@pytest.mark.parametrize("text", [None, "NVRM version: NVIDIA UNIX x86_64 Kernel Module  545.2"])
def test_a_version_that_could_not_be_read(text: str | None) -> None:
    found = look(PIN, spec(driver="535"), nvidia_version=text)

    assert found.status == "unknown"
    assert found.essential
    assert not look(PIN, nvidia_version=text).essential


def test_no_gpu() -> None:
    alone = {"pci": answers.NO_GPU, "nvidia-smi-p2p-read": None}

    assert look(PIN, instead=alone).status == "skipped"
    assert look(PIN, spec(gpus=2), instead=alone).status == "fail"


ONE_OF_545 = """\
==============NVSMI LOG==============

Driver Version                            : 545.29.06
CUDA Version                              : 12.3

Attached GPUs                             : {}
GPU 00000000:0B:00.0
    Performance State                     : P2
"""


@pytest.mark.parametrize(("attached", "status"), [(1, "unknown"), (2, "fail")])
def test_545_is_bad_for_cards_that_copy_to_each_other(attached: int, status: str) -> None:
    shown = ONE_OF_545.format(attached)
    alone = {"nvidia-version": None, "pci": None, "nvidia-smi-p2p-read": None}

    assert look(PIN, instead={**alone, "nvidia-smi-xml": shown}).status == status
