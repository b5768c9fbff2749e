from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.doctor import pcie_rigs
from tests.unit.doctor.examining import check_of, judge, look, spec
from tests.unit.probe import answers

MODE = "iommu.mode"
NO_GRUB = "== ls /boot\nvmlinuz-linux\n"
UNCONFIGURED = answers.GRUB.replace(" iommu=pt", "")


def test_translated_cards_with_granted_p2p_fail() -> None:
    found = look(MODE)

    assert found.status == "fail"
    assert "DMA-FQ" in found.summary
    assert [one.line for one in found.evidence if one.section == "iommu-groups"] == [
        "13 DMA-FQ 0000:0a:00.0",
        "14 DMA-FQ 0000:0b:00.0",
    ]


@pytest.mark.parametrize(
    ("matrix", "status"),
    [
        (answers.MATRIX.format("OK"), "fail"),
        (answers.MATRIX.format("CNS"), "info"),
        (answers.MATRIX.format("U"), "fail"),
        (answers.MATRIX.format("CNS").partition(" GPU1\tCNS")[0], "fail"),
        ("NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.\n", "fail"),
        (None, "fail"),
    ],
)
def test_p2p_of_which_nothing_is_known_counts_as_granted(matrix: str | None, status: str) -> None:
    assert look(MODE, nvidia_smi_p2p_read=matrix).status == status


@pytest.mark.parametrize(
    ("link", "status"), [("NV4", "info"), ("PHB", "fail")], ids=["over NVLink", "over PCIe"]
)
def test_what_goes_over_nvlink_does_not_meet_the_iommu(link: str, status: str) -> None:
    topology = f"\tGPU0\tGPU1\nGPU0\t X \t{link}\nGPU1\t{link}\t X \n"

    assert look(MODE, nvidia_smi_topo=topology).status == status
    assert look(MODE, nvidia_smi_topo=topology, cut={"nvidia_smi_topo": 124}).status == "fail"


@pytest.mark.parametrize(
    ("devices", "status", "granted"),
    [
        (("2206", "2206"), "info", "fail"),  # 3080
        (("2684", "2684"), "info", "fail"),  # 4090
        (("2204", "2684"), "info", "fail"),  # two chips
        (("1db1", "1db1"), "info", "info"),  # V100-SXM2, on one board
        (("2204", "2204"), "fail", "fail"),  # 3090: a driver that is patched, or bad, grants it
        (("2230", "2230"), "fail", "fail"),  # A6000
        (("0666", "0666"), "fail", "fail"),
    ],
)
def test_cards_without_p2p_over_pcie_have_none_to_lose(
    devices: tuple[str, str], status: str, granted: str
) -> None:
    one, other = devices
    pci = answers.PCI.replace("0x2204", f"0x{one}", 1).replace("0x2204", f"0x{other}")
    matrix = answers.MATRIX.format("OK")
    texts = {"pci": pci, "nvidia-smi-topo": None, "nvidia-smi-xml": None}
    found = look(MODE, instead={**texts, "nvidia-smi-p2p-read": None})

    assert found.status == status
    assert (found.fix is None) is (status == "info")
    assert look(MODE, instead={**texts, "nvidia-smi-p2p-read": matrix}).status == granted


def test_a_matrix_of_fewer_cards_than_there_are_refuses_nothing() -> None:
    third = answers.PCI.splitlines()[3].replace("0b:00", "0c:00")

    found = look(
        MODE, pci=f"{answers.PCI}{third}\n", nvidia_smi_p2p_read=answers.MATRIX.format("CNS")
    )

    assert found.status == "fail"


@pytest.mark.parametrize(
    ("groups", "status"),
    [
        (answers.PASSTHROUGH, "ok"),
        ("", "ok"),
        (None, "unknown"),
        (answers.TRANSLATED.replace("DMA-FQ", "DMA"), "fail"),
        (answers.TRANSLATED.replace("DMA-FQ", "-"), "unknown"),
        (answers.TRANSLATED.replace("DMA-FQ", "blocked"), "unknown"),
        (answers.PASSTHROUGH.splitlines(keepends=True)[0], "unknown"),
        (answers.PASSTHROUGH.replace("14 identity", "14 DMA"), "fail"),
        ("rubbish", "unknown"),
    ],
)
def test_the_groups_decide(groups: str | None, status: str) -> None:
    assert look(MODE, iommu_groups=groups).status == status


def test_groups_that_were_cut_off_are_no_proof_that_the_iommu_is_off() -> None:
    assert look(MODE, iommu_groups="", cut={"iommu_groups": 124}).status == "unknown"


@pytest.mark.parametrize(
    ("pci", "groups", "status"),
    [
        (None, answers.TRANSLATED, "unknown"),
        (None, "", "ok"),
        (answers.NO_GPU, answers.TRANSLATED, "skipped"),
        (answers.ONE_GPU, answers.TRANSLATED, "ok"),
        (answers.ONE_GPU, answers.PASSTHROUGH, "ok"),
    ],
)
def test_the_cards_that_there_are(pci: str | None, groups: str, status: str) -> None:
    found = look(MODE, pci=pci, iommu_groups=groups, nvidia_smi_p2p_read=None)

    assert found.status == status


def test_a_card_that_the_list_of_functions_lost() -> None:
    assert look(MODE, pci=answers.ONE_GPU).status == "fail"
    assert look(MODE, pci=answers.ONE_GPU, iommu_groups=answers.PASSTHROUGH).status == "unknown"
    lost = look(MODE, pci=answers.ONE_GPU, nvidia_smi_p2p_read=None, cut={"pci": 124})
    assert lost.status == "unknown"


def test_an_argument_that_is_configured_needs_the_reboot_only() -> None:
    fix = look(MODE, spec(kernel_args=["iommu=pt"])).fix

    assert fix is not None
    assert (fix.kind, fix.concern) == ("apply+reboot", "kernel_args")
    assert fix.declare == {"kernel_args": ["iommu=pt"]}
    assert "only the reboot is missing" in fix.text


def test_configured_is_what_boots_next_and_not_what_the_menu_is_made_from() -> None:
    stale = answers.GRUB.replace("quiet iommu=pt\n", "quiet\n")
    unreadable = answers.GRUB.replace("== grep linux", "== cat")

    assert "only the reboot" not in str(look(MODE, bootloader=stale).fix)
    assert "99-rigops.cfg" in str(look(MODE, bootloader=unreadable).fix)


def test_the_inventory_line_keeps_what_is_declared() -> None:
    fix = look(MODE, spec(kernel_args=["quiet"]), bootloader=UNCONFIGURED).fix

    assert fix is not None
    assert fix.declare == {"kernel_args": ["quiet", "iommu=pt"]}
    assert "rigops apply" in fix.text


@pytest.mark.parametrize(
    ("bootloader", "said"),
    [
        (UNCONFIGURED, "update-grub"),
        (NO_GRUB, "bootloader"),
        (None, "bootloader"),
        (answers.GRUB, "systemctl reboot"),
    ],
)
def test_by_hand_where_the_deploy_is_not_in_this_version(bootloader: str | None, said: str) -> None:
    fix = look(MODE, bootloader=bootloader, concerns=frozenset()).fix

    assert fix is not None
    assert (fix.kind, fix.concern) == ("hands", None)
    assert fix.declare == {"kernel_args": ["iommu=pt"]}
    assert said in fix.text


def test_an_argument_that_is_live_and_does_nothing_is_for_hands() -> None:
    fix = look(MODE, proc_cmdline="root=/dev/sda1 iommu=pt iommu=nopt\n").fix

    assert fix is not None
    assert fix.kind == "hands"


@given(
    st.sampled_from(sorted(answers.BROKEN)),
    st.integers(0, 1000),
    st.one_of(st.none(), st.text(max_size=20)),
)
def test_damage_never_turns_a_failure_into_well(
    section: str, length: int, rubbish: str | None
) -> None:
    if rubbish is None and length % 2:
        damaged = None
    else:
        damaged = answers.BROKEN[section][:length] + (rubbish or "")
    if section == "iommu-groups" and damaged is not None and not damaged.strip():
        return  # an empty list says, by contract, that the IOMMU is off

    for check in (MODE, "drv.pin"):
        assert look(check, instead={section: damaged}).status not in {"ok", "info"}


TWO_LISTED = pcie_rigs.smi(pcie_rigs.smi_card(pcie_rigs.ONE), pcie_rigs.smi_card(pcie_rigs.OTHER))
ENUMERATED = """\
[    0.000000] Linux version 6.1.0-18-amd64
[    0.41] pci 0000:41:00.0: Adding to iommu group 13
[    0.41] pci 0000:61:00.0: Adding to iommu group 14
[    0.42] iommu: Default domain type: {}
[    4.18] nvidia 0000:41:00.0: enabling device (0000 -> 0003)
[    4.19] nvidia 0000:61:00.0: enabling device (0000 -> 0003)
"""


@pytest.mark.parametrize(
    ("kind", "smi", "status"),
    [
        ("DMA-FQ", TWO_LISTED, "fail"),
        ("identity", TWO_LISTED, "ok"),
        ("identity", TWO_LISTED[:-40], "unknown"),
        ("identity", None, "unknown"),
    ],
)
def test_cards_that_nvidia_smi_alone_names(kind: str, smi: str | None, status: str) -> None:
    groups = f"13 {kind} {pcie_rigs.ONE}\n14 {kind} {pcie_rigs.OTHER}\n"
    (found,) = judge({"iommu-groups": groups, "nvidia-smi-xml": smi}, checks=[check_of(MODE)])

    assert found.status == status
    assert found.why


@pytest.mark.parametrize(
    ("kind", "smi", "status"),
    [
        ("Translated", TWO_LISTED, "fail"),
        ("Translated", None, "fail"),
        ("Passthrough (set via kernel command line)", TWO_LISTED, "ok"),
        ("Passthrough", None, "unknown"),
    ],
)
def test_the_kernel_log_alone(kind: str, smi: str | None, status: str) -> None:
    log = ENUMERATED.format(kind)
    (found,) = judge({"kernel-log": log, "nvidia-smi-xml": smi}, checks=[check_of(MODE)])

    assert found.status == status
    assert "Default domain type" in found.evidence[0].line


def test_the_default_domain_alone_proves_no_iommu() -> None:
    log = ENUMERATED.format("Translated").replace("Adding to iommu group", "PME# supported")
    (found,) = judge({"kernel-log": log, "nvidia-smi-xml": TWO_LISTED}, checks=[check_of(MODE)])

    assert found.status == "unknown"
