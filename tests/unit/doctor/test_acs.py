"""Redirection between cards."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.doctor import pcie_rigs
from tests.unit.doctor.examining import spec
from tests.unit.doctor.pcie_rigs import (
    BOOT,
    HEALTHY,
    NO_REDIRECTION,
    ONE,
    OTHER,
    PCI,
    ROOT_PORTS,
    SWITCHES,
    card,
    findings,
    found,
    look,
    port,
    smi,
    smi_card,
)
from tests.unit.probe import answers

PATH = "acs.path"
GEFORCE = ROOT_PORTS.replace("AD102GL [RTX 5880 Ada Generation] [10de:26b3]", "AD102 [GeForce X]")
RTX_4090 = GEFORCE.replace("[GeForce X]", "[GeForce RTX 4090] [10de:2684]")
_ON = "ACSCtl:\tSrcValid+ TransBlk- ReqRedir+ CmpltRedir+"
_OFF = "ACSCtl:\tSrcValid+ TransBlk- ReqRedir- CmpltRedir-"
CLEARED = {"acs_redirect": "off"}
TOPOLOGY = "\tGPU0\tGPU1\nGPU0\t X \t{0}\nGPU1\t{0}\t X \n\nLegend:\n"


def test_root_ports_that_redirect_are_the_first_failure_of_a_listing_alone() -> None:
    worst = findings({"lspci": ROOT_PORTS})[0]

    assert (worst.id, worst.status, worst.subject) == (PATH, "fail", "host")
    assert worst.evidence[0].line.startswith("0000:40:01.1 PCI bridge")
    assert "ReqRedir+ CmpltRedir+" in worst.evidence[1].line
    assert worst.fix is not None
    assert (worst.fix.kind, worst.fix.concern) == ("apply", "acs")
    assert worst.fix.declare == {"acs_redirect": "off"}


@pytest.mark.parametrize(
    ("declared", "status"),
    [
        ({}, "unknown"),
        ({"p2p": "measure"}, "unknown"),
        ({"p2p": "required"}, "fail"),
        (CLEARED, "fail"),
    ],
)
def test_where_a_lost_card_keeps_the_topology_from_being_read_it_is_unknown(
    declared: dict[str, str], status: str
) -> None:
    gone = f"Unable to determine the device handle for GPU{OTHER}: GPU is lost.\n"
    unread = dict.fromkeys(("nvidia-smi-xml", "nvidia-smi-topo", "nvidia-smi-p2p-read"), gone)

    (path,) = found(PATH, {**HEALTHY, "lspci": GEFORCE, **unread}, spec(**declared))

    assert path.status == status
    assert (path.fix is None) == (status == "unknown")


def test_where_the_kernel_is_locked_down_a_person_clears_them_as_plan_says() -> None:
    lockdown = "== /sys/kernel/security/lockdown\nnone [integrity] confidentiality\n"
    fix = found(PATH, {"lspci": ROOT_PORTS, "secure-boot": lockdown})[0].fix

    assert fix is not None
    assert (fix.kind, fix.declare) == ("hands", None)
    assert "pci=disable_acs_redir=" in fix.text


def test_by_hand_only_the_ports_between_the_cards_are_cleared() -> None:
    fix = found(PATH, {"lspci": SWITCHES})[0].fix

    assert fix is not None
    assert "setpci -s 0000:02:01.0 ECAP_ACS+6.w=0:2c" in fix.by_hand
    assert "setpci -s 0000:40:01.1 ECAP_ACS+6.w=0:2c" in fix.by_hand
    assert "0000:01:00.0" not in fix.by_hand


def test_below_a_switch_its_own_ports_count_and_not_the_root() -> None:
    one_switch = SWITCHES[: SWITCHES.index("0000:40:00.0")]
    finding = found(PATH, {"lspci": one_switch})[0]

    assert finding.status == "fail"
    assert finding.summary == "2 ports redirect what the cards send to each other"
    cited = [one.line.split()[0] for one in finding.evidence if "PCI bridge" in one.line]
    assert cited == ["0000:02:00.0", "0000:02:01.0"]


@pytest.mark.parametrize(
    ("listing", "matrix", "status"),
    [
        (ROOT_PORTS, "OK", "fail"),
        (ROOT_PORTS, "U", "fail"),
        (ROOT_PORTS, "CNS", "info"),
        (GEFORCE, "OK", "warn"),
        (GEFORCE, "U", "warn"),
        (GEFORCE, None, "warn"),
        (GEFORCE, "NS", "info"),
        (GEFORCE.replace("AD102 [GeForce X]", "Device"), None, "warn"),
        (RTX_4090, None, "info"),
        (RTX_4090, "U", "info"),
        (RTX_4090, "OK", "warn"),
        (NO_REDIRECTION, "OK", "ok"),
        (NO_REDIRECTION, "CNS", "ok"),
    ],
)
def test_what_the_driver_grants_decides(listing: str, matrix: str | None, status: str) -> None:
    texts = {
        "lspci": listing,
        "nvidia-smi-p2p-read": answers.MATRIX.format(matrix) if matrix else None,
    }
    (finding,) = found(PATH, {"boot": BOOT, **texts})

    assert finding.status == status
    assert (finding.fix is not None) == (status in {"fail", "warn"})
    assert finding.evidence


def test_geforces_below_a_shared_switch_fail_unless_p2p_is_refused() -> None:
    cards = SWITCHES[: SWITCHES.index("0000:40:00.0")].replace("GB202GL [RTX PRO", "X [GeForce")

    assert found(PATH, {"lspci": cards})[0].status == "fail"
    refused = {"lspci": cards, "nvidia-smi-p2p-read": answers.MATRIX.format("CNS")}
    assert found(PATH, refused)[0].status == "info"


def test_a_pair_that_is_clear_does_not_make_the_others_unknown() -> None:
    first, second = "0000:02:00.0", "0000:40:00.0"
    start, end = SWITCHES.index(first), SWITCHES.index(second)
    half = SWITCHES[:start] + SWITCHES[start:end].replace(_ON, _OFF) + SWITCHES[end:]
    columns = "\tGPU0\tGPU1\tGPU2\tGPU3\n"
    rows = [["X" if i == j else "CNS" for j in range(4)] for i in range(4)]
    matrix = columns + "".join(f" GPU{i}\t" + "\t".join(row) + "\n" for i, row in enumerate(rows))

    assert found(PATH, {"lspci": half, "nvidia-smi-p2p-read": matrix})[0].status == "info"


def test_nvlink_does_not_care() -> None:
    assert look(PATH, lspci=ROOT_PORTS, nvidia_smi_topo=TOPOLOGY.format("NV4")).status == "info"
    assert look(PATH, lspci=ROOT_PORTS, nvidia_smi_topo=TOPOLOGY.format("SYS")).status == "fail"


def test_what_is_declared_must_be_so() -> None:
    refused = answers.MATRIX.format("CNS")
    declared = spec(acs_redirect="off")

    assert look(PATH, declared, lspci=ROOT_PORTS, nvidia_smi_p2p_read=refused).status == "fail"
    assert look(PATH, declared).status == "ok"
    (finding,) = found(PATH, {"lspci": GEFORCE}, spec(p2p="required"))
    assert finding.status == "fail"


@pytest.mark.parametrize("bit", ["EgressCtrl", "CmpltRedir"])
def test_each_bit_that_redirects(bit: str) -> None:
    listing = NO_REDIRECTION.replace(f"{bit}-", f"{bit}+")

    assert look(PATH, lspci=listing).status == "fail"


@pytest.mark.parametrize(
    ("listing", "said"),
    [
        (None, "not collected"),
        ("", "no lspci"),
        (NO_REDIRECTION.replace("\tCapabilities: [2a0", "\tCapabilities: <access denied> ["), ""),
        (NO_REDIRECTION.replace("ACSCtl:", "ACSCtl: ?").replace("Redir-", "Redir"), ""),
        (NO_REDIRECTION[: NO_REDIRECTION.index("0000:60:03.1")], ""),
    ],
)
def test_ports_that_cannot_be_read_are_unknown(listing: str | None, said: str) -> None:
    listing = listing.replace("ACSCtl:\tSrc", "Src") if listing and "denied" in listing else listing
    finding = look(PATH, lspci=listing)

    assert finding.status == "unknown"
    assert said in finding.summary


def test_ports_that_have_no_acs_redirect_nothing() -> None:
    lines = NO_REDIRECTION.splitlines(keepends=True)
    without = "".join(line for line in lines if "ACS" not in line and "Access Control" not in line)

    assert look(PATH, lspci=without).status == "ok"


def test_where_the_ways_are_not_told_bridges_that_all_redirect_fail() -> None:
    lines = ROOT_PORTS.splitlines(keepends=True)
    placeless = "".join(line for line in lines if "Bus:" not in line)
    some = placeless.replace(_ON, _OFF, 1)
    none = placeless.replace(_ON, _OFF)

    assert found(PATH, {"lspci": placeless})[0].status == "fail"
    assert found(PATH, {"lspci": some})[0].status == "unknown"
    assert found(PATH, {"lspci": none})[0].status == "unknown"


def test_in_a_virtual_machine_nothing_is_said_to_be_well() -> None:
    guest = BOOT.replace("\nnone\n", "\nkvm\n")

    for listing in (ROOT_PORTS, NO_REDIRECTION):
        assert look(PATH, lspci=listing, boot=guest).status == "unknown"
    assert look("acs.in_vm", boot=guest).status == "unknown"
    assert look("acs.in_vm").status == "ok"
    assert look("acs.in_vm", boot=answers.BOOT).status == "unknown"


def test_source_validation_alone_is_harmless() -> None:
    check = "acs.srcvalid"

    assert look(check).status == "ok"
    finding = look(check, lspci=NO_REDIRECTION)
    assert finding.status == "info"
    assert "0000:40:01.1, 0000:60:03.1" in finding.summary
    assert look(check, lspci=ROOT_PORTS).status == "ok"
    assert look(check, lspci=None).status == "unknown"


@pytest.mark.parametrize(
    ("groups", "status"), [("", "info"), (answers.TRANSLATED, "info"), (None, "unknown")]
)
def test_whether_there_is_an_iommu(groups: str | None, status: str) -> None:
    assert look("iommu.present", iommu_groups=groups).status == status


@pytest.mark.parametrize("check", [one.id for one in pcie_rigs.CHECKS])
def test_every_check_says_something_whatever_is_known(check: str) -> None:
    for texts in ({}, {"pci": answers.NO_GPU}, {"pci": answers.ONE_GPU}, HEALTHY):
        said = found(check, texts)
        assert said
        assert all(one.fix for one in said if one.status in {"fail", "warn"})
        assert texts or {one.status for one in said} <= {"unknown", "skipped"}


# Two cards, of which one has lost lanes and counts errors, behind ports that redirect.
SICK = {
    **HEALTHY,
    "lspci": ROOT_PORTS.replace("LnkSta:\tSpeed 16GT/s, Width x16", "LnkSta:\tWidth x8", 1)
    .replace("(downgraded), Width x16", "(downgraded), Width x8 (downgraded)", 1)
    .replace("64G]", "256M]"),
    "pci": port("pci0000:40/0000:40:01.1")
    + card(f"pci0000:40/0000:40:01.1/{ONE}", lanes="2.5,8", window=str(256 << 20))
    + PCI[PCI.index("0000:60:03.1") :].replace(str(64 << 30), str(256 << 20)),
    "nvidia-smi-xml": smi(smi_card(ONE, width=8, window=256)),
    "aer": HEALTHY["aer"]
    .replace("BadTLP 0\nTOTAL_ERR_COR 0", "BadTLP 9000\nTOTAL_ERR_COR 9000")
    .replace("SDES 0\nTOTAL_ERR_FATAL 0", "SDES 2\nTOTAL_ERR_FATAL 2"),
}
# One card answers nothing any more, and the other hangs on the chipset.
LOST = {
    **HEALTHY,
    "lspci": NO_REDIRECTION.replace("[10de:26b3] (rev a1)", "[10de:26b3] (rev ff)", 2).replace(
        "(rev ff)", "(rev a1)", 1
    ),
    "nvidia-smi-xml": "Unable to determine the device handle for GPU0000:61:00.0: Unknown Error\n",
}
CHIPSET = {
    **HEALTHY,
    "lspci": NO_REDIRECTION.replace("Starship/Matisse GPP", "500 Series Chipset Switch GPP", 1),
    "pci": PCI.replace("link=2.5,16", "link=2.5,4", 1),
    "nvidia-smi-xml": smi(smi_card(ONE, width=4), smi_card(OTHER)),
}
DECLARED = spec(p2p="required", gpus=2)


def _bad(texts: dict[str, str | None]) -> set[str]:
    return {one.id for one in findings(texts, DECLARED) if one.status in {"fail", "warn"}}


def test_a_sick_rig() -> None:
    assert _bad(dict(SICK)) == {
        "acs.path",
        "gpu.count",
        "pci.width",
        "pci.aer.corr",
        "pci.aer.uncorr",
        "bar1.size",
    }


def test_other_sick_rigs() -> None:
    assert _bad(dict(LOST)) == {"gpu.count", "gpu.lost"}
    assert _bad(dict(CHIPSET)) == {"pci.chipset_lane", "pci.width"}


@given(
    rig=st.sampled_from((SICK, LOST, CHIPSET)),
    section=st.sampled_from(sorted(SICK)),
    share=st.floats(0, 1),
    rubbish=st.one_of(st.none(), st.text(max_size=20)),
)
def test_damage_never_turns_what_is_bad_into_well(
    rig: dict[str, str], section: str, share: float, rubbish: str | None
) -> None:
    text = rig[section]
    damaged = None if rubbish is None else text[: int(share * len(text))] + rubbish

    judged = findings({**rig, section: damaged}, DECLARED)
    well = {one.id for one in judged if one.status == "ok"}
    assert not well & _bad(dict(rig))
