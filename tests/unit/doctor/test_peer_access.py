from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.doctor import peer_rigs as rigs

GRANT = "p2p.grant"
MIXED = "mixed.gpus"
DISPLAY = "display.p2p"
UNPROVEN = "advertised, not proven: run preflight"

PAIR = rigs.rig(rigs.RTX_3090, rigs.RTX_3090, cell="OK")
NVLINK = rigs.rig(*[rigs.V100] * 4, cell="OK", way="NV2")
EPYC = rigs.rig(*[rigs.RTX_4090] * 8)
DESKTOP = rigs.rig(rigs.RTX_3060, rigs.GTX_1060)
ONE_WRITE_REFUSED = {
    **PAIR,
    "nvidia-smi-p2p-write": rigs.matrix([["X", "OK"], ["CNS", "X"]]),
}


def test_four_cards_on_nvlink_are_advertised_and_not_healthy() -> None:
    one = rigs.look(GRANT, NVLINK)

    assert one.status == "info"
    assert UNPROVEN in one.summary
    assert "6 of 6 pairs over NVLink" in one.summary
    assert any(evidence.section == "nvidia-smi-topo" for evidence in one.evidence)


def test_a_refusal_that_nobody_declared_is_explained_and_no_fault() -> None:
    one = rigs.look(GRANT, EPYC)

    assert one.status == "info"
    assert "CNS" in one.summary
    assert "lacks the mailbox" in one.why
    assert UNPROVEN not in one.summary
    assert one.fix is None


def test_different_cards_never_have_it_over_pcie() -> None:
    one = rigs.look(GRANT, DESKTOP)

    assert one.status == "info"
    assert "same chip" in one.why
    assert "GeForce RTX 3060:" in one.why
    assert "GeForce GTX 1060:" in one.why


def test_in_a_virtual_machine_a_refusal_is_usual() -> None:
    boot = "== systemd-detect-virt\nkvm\n"

    assert "virtual machine (kvm)" in rigs.look(GRANT, {**EPYC, "boot": boot}).why
    assert "virtual machine" not in rigs.look(GRANT, EPYC).why


@pytest.mark.parametrize(
    ("texts", "p2p", "status"),
    [
        (PAIR, "measure", "info"),
        (PAIR, "required", "info"),
        (PAIR, "skip", "skipped"),
        (PAIR, "nvlink", "fail"),
        (EPYC, "required", "fail"),
        (EPYC, "nvlink", "fail"),
        (EPYC, "measure", "info"),
        (NVLINK, "nvlink", "info"),
        (rigs.rig(*[rigs.V100] * 4, cell="CNS", way="NV2"), "nvlink", "fail"),
        (rigs.rig(*[rigs.V100] * 4, cell="U", way="NV2"), "nvlink", "unknown"),
        (rigs.rig(rigs.RTX_3090, rigs.RTX_3090, cell="U"), "required", "unknown"),
        (rigs.without(EPYC, "nvidia-smi-topo"), "nvlink", "unknown"),
        (ONE_WRITE_REFUSED, "required", "fail"),
        (rigs.rig(rigs.RTX_3090), "required", "skipped"),
    ],
)
def test_what_is_declared_decides(texts: dict[str, str], p2p: str, status: str) -> None:
    one = rigs.look(GRANT, texts, p2p=p2p)

    assert one.status == status
    assert (one.fix is not None) is (status == "fail")
    assert one.essential


def test_declared_nvlink_concerns_only_pairs_that_it_connects() -> None:
    ways = [["X", "NV4", "PHB"], ["NV4", "X", "PHB"], ["PHB", "PHB", "X"]]
    cells = [["X", "OK", "CNS"], ["OK", "X", "CNS"], ["CNS", "CNS", "X"]]
    texts = {
        **rigs.rig(*[rigs.RTX_3090] * 3),
        "nvidia-smi-topo": rigs.matrix(ways).replace(" GPU", "GPU"),
        "nvidia-smi-p2p-read": rigs.matrix(cells),
        "nvidia-smi-p2p-write": rigs.matrix(cells),
    }

    one = rigs.look(GRANT, texts, p2p="nvlink")

    assert one.status == "info"
    assert f"{UNPROVEN}; 2 of 3 pairs are refused" in one.summary


@pytest.mark.parametrize(
    ("cell", "said"),
    [("DR", "NVreg_RegistryDwords"), ("TNS", "one processor"), ("GNS", "topo -p2p")],
)
def test_the_letter_chooses_the_fix(cell: str, said: str) -> None:
    texts = rigs.rig(rigs.A6000, rigs.A6000, cell=cell)

    fix = rigs.look(GRANT, texts, p2p="required").fix

    assert fix is not None
    assert (fix.kind, said in fix.text) == ("hands", True)


def test_cards_that_never_have_it_can_only_be_accepted() -> None:
    fix = rigs.look(GRANT, EPYC, p2p="required").fix

    assert fix is not None
    assert (fix.kind, fix.declare) == ("accept", {"p2p": "measure"})


def test_reading_without_writing_is_a_warning() -> None:
    one = rigs.look(GRANT, ONE_WRITE_REFUSED)

    assert one.status == "warn"
    assert one.fix is not None
    assert {"nvidia-smi-p2p-read", "nvidia-smi-p2p-write"} == {e.section for e in one.evidence}


@pytest.mark.parametrize(
    ("texts", "said"),
    [
        (rigs.without(PAIR, "nvidia-smi-p2p-read"), "collected"),
        ({**PAIR, "nvidia-smi-p2p-read": "NVIDIA-SMI has failed\n"}, "did not report"),
        (rigs.rig(rigs.RTX_3090, rigs.RTX_3090, cell="U"), "0 of 1 pairs"),
        (rigs.without(PAIR, "pci", "nvidia-smi-xml"), "not known"),
        ({**PAIR, "pci": rigs.bus(*[rigs.RTX_3090] * 3)}, "of 3 pairs"),
    ],
)
def test_what_the_driver_did_not_tell_is_unknown(texts: dict[str, str], said: str) -> None:
    one = rigs.look(GRANT, texts)

    assert one.status == "unknown"
    assert said in one.summary


@pytest.mark.parametrize("check", [GRANT, MIXED, DISPLAY])
def test_less_than_two_cards_have_no_peers(check: str) -> None:
    assert rigs.look(check, {"pci": ""}).status == "skipped"
    assert rigs.look(check, rigs.rig(rigs.RTX_3090)).status == "skipped"


@pytest.mark.parametrize(
    ("devices", "status"),
    [
        ((rigs.RTX_3090, rigs.RTX_3090), "ok"),
        ((rigs.RTX_3090, rigs.A6000), "ok"),
        ((rigs.RTX_3060, rigs.GTX_1060), "info"),
        ((rigs.RTX_3090, rigs.RTX_4090), "info"),
        (("2487", "2504"), "info"),
    ],
)
def test_the_chip_counts_and_not_the_name(devices: tuple[str, ...], status: str) -> None:
    one = rigs.look(MIXED, rigs.rig(*devices))

    assert one.status == status
    assert ("same chip" in one.why) is (status == "info")


def test_cards_that_were_not_all_seen_are_not_called_equal() -> None:
    assert rigs.look(MIXED, PAIR, {"pci": 124}).status == "unknown"
    assert rigs.look(MIXED, DESKTOP, {"pci": 124}).status == "info"


@pytest.mark.parametrize(
    ("texts", "status"),
    [
        ({**PAIR, "nvidia-smi-xml": rigs.smi(2, 1)}, "warn"),
        (PAIR, "ok"),
        ({**NVLINK, "nvidia-smi-xml": rigs.smi(4, 1)}, "skipped"),
        ({**EPYC, "nvidia-smi-xml": rigs.smi(8, 1)}, "skipped"),
        (rigs.without(PAIR, "nvidia-smi-xml"), "unknown"),
        (
            {**rigs.without(PAIR, "nvidia-smi-p2p-read"), "nvidia-smi-xml": rigs.smi(2, 1)},
            "unknown",
        ),
    ],
)
def test_a_display_on_a_card_with_peers(texts: dict[str, str], status: str) -> None:
    one = rigs.look(DISPLAY, texts)

    assert one.status == status
    if status == "warn":
        assert one.subject == "gpu 0000:42:00.0"
        assert one.fix is not None


@given(
    check_and_texts=st.sampled_from(
        [
            (GRANT, {**EPYC}, "required"),
            (GRANT, {**ONE_WRITE_REFUSED}, "required"),
            (GRANT, {**ONE_WRITE_REFUSED}, "measure"),
            (DISPLAY, {**PAIR, "nvidia-smi-xml": rigs.smi(2, 0)}, "measure"),
        ]
    ),
    section=st.sampled_from(sorted(PAIR)),
    length=st.integers(0, 2000),
    is_cut=st.booleans(),
    is_lost=st.booleans(),
)
def test_damage_never_makes_well_what_is_not(
    check_and_texts: tuple[str, dict[str, str], str],
    section: str,
    length: int,
    *,
    is_cut: bool,
    is_lost: bool,
) -> None:
    check, texts, p2p = check_and_texts
    damaged = {**texts, section: texts[section][:length]}
    if is_lost:
        damaged = rigs.without(texts, section)

    cut = {section.replace("-", "_"): 124} if is_cut and not is_lost else None
    for one in rigs.found(check, damaged, cut, p2p=p2p):
        assert one.status != "ok"
