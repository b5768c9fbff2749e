from __future__ import annotations

import pytest

from rigops.catalog import find_branch, find_cut, find_gpu, find_xid, load, similar_names


@pytest.mark.parametrize(
    ("typed", "model"),
    [
        ("GeForce RTX 3090", "GeForce RTX 3090"),
        ("NVIDIA GeForce RTX 3090", "GeForce RTX 3090"),
        ("rtx3090", "GeForce RTX 3090"),
        ("RTX 3090", "GeForce RTX 3090"),
        ("3090", "GeForce RTX 3090"),
        ("NVIDIA GeForce GTX 1060 6GB", "GeForce GTX 1060"),
        ("GeForce GTX 1060 3GB", "GeForce GTX 1060"),
        ("Tesla V100-SXM2-16GB", "Tesla V100-SXM2-16GB"),
        ("v100 sxm2 32gb", "Tesla V100-SXM2-32GB"),
        ("NVIDIA RTX A6000", "RTX A6000"),
        ("nvidia h200", "H200"),
        ("2204", "GeForce RTX 3090"),
        ("10de:2684", "GeForce RTX 4090"),
        ("0x2b85", "GeForce RTX 5090"),
        ("0x1DB510DE", "Tesla V100-SXM2-32GB"),
        ("2544", "GeForce RTX 3060"),
        ("1b84", "GeForce GTX 1060"),
        ("K80", "Tesla K80"),
        ("NVIDIA TITAN X (Pascal)", "TITAN X (Pascal)"),
        ("Quadro RTX 8000", "Quadro RTX 8000"),
        ("NVIDIA A100-SXM4-80GB", "A100-SXM4-80GB"),
        ("NVIDIA A100 80GB PCIe", "A100 80GB PCIe"),
        ("NVIDIA L4", "L4"),
        ("NVIDIA A10", "A10"),
        ("2080", "GeForce RTX 2080"),
        ("4070 ti super", "GeForce RTX 4070 Ti SUPER"),
        ("NVIDIA H100 80GB HBM3", "H100 80GB HBM3"),
        ("10de:2bb1", "RTX PRO 6000 Blackwell Workstation Edition"),
        ("1eb8", "Tesla T4"),
    ],
)
def test_a_card_is_found_by_what_people_and_programs_write(typed: str, model: str) -> None:
    found = find_gpu(load(), typed).only

    assert found is not None
    assert found.name == model


@pytest.mark.parametrize(
    ("typed", "models"),
    [
        ("V100-PCIE", "Tesla V100-PCIE-16GB, Tesla V100-PCIE-32GB"),
        ("V100-SXM2", "Tesla V100-SXM2-16GB, Tesla V100-SXM2-32GB"),
        ("A100", "A100 80GB PCIe, A100-PCIE-40GB, A100-SXM4-40GB, A100-SXM4-80GB"),
        ("TITAN X", "GeForce GTX TITAN X, TITAN X (Pascal), TITAN Xp"),
        ("RTX 6000", "Quadro RTX 6000, RTX 6000 Ada Generation"),
        ("gtx 9", "GeForce GTX 970, GeForce GTX 980, GeForce GTX 980 Ti"),
        ("H100", "H100 80GB HBM3, H100 NVL, H100 PCIe"),
    ],
)
def test_an_ambiguous_name_returns_every_candidate(typed: str, models: str) -> None:
    match = find_gpu(load(), typed)

    assert ", ".join(sorted(gpu.name for gpu in match.found)) == models
    assert match.only is None


@pytest.mark.parametrize("device", ["1e30", "1e78", "17fd", "25b6"])
def test_a_device_id_of_two_cards_is_none_of_them(device: str) -> None:
    assert find_gpu(load(), f"10de:{device}").found == ()


def test_an_alias_wins_over_a_part_of_another_name() -> None:
    match = find_gpu(load(), "A6000")

    assert [gpu.name for gpu in match.found] == ["RTX A6000"]


@pytest.mark.parametrize(
    "typed", ["GeForce RTX 3090 Super", "RTX 4080 D", "H200 NVL", "RTX PRO 4000 SFF"]
)
def test_a_sibling_is_not_mistaken_for_the_card(typed: str) -> None:
    assert find_gpu(load(), typed).found == ()
    assert similar_names(load(), typed)


def test_a_near_miss_gets_a_suggestion() -> None:
    assert find_gpu(load(), "GeForce RXT 3090").found == ()
    assert similar_names(load(), "GeForce RXT 3090")[0] == "GeForce RTX 3090"


@pytest.mark.parametrize("typed", ["", "  ", "NVIDIA", "Radeon VII", "ffff"])
def test_what_is_no_card_of_ours_finds_nothing(typed: str) -> None:
    assert find_gpu(load(), typed).found == ()


def test_an_xid_is_found_by_its_number() -> None:
    xid = find_xid(load(), 79)

    assert xid is not None
    assert xid.severity == "fail"
    assert find_xid(load(), 4711) is None


def test_a_branch_is_found_by_its_name() -> None:
    assert find_branch(load(), "580") is not None
    assert find_branch(load(), "58") is None


@pytest.mark.parametrize(
    ("cut", "mebibytes", "name"),
    [
        ("Quadro RTX 800...", None, "Quadro RTX 8000"),
        ("RTX 6000 Ada Gene...", 49140, "RTX 6000 Ada Generation"),
        ("Tesla V100-SXM2...", 32768, "Tesla V100-SXM2-32GB"),
        ("Tesla V100-SXM2...", None, None),
        ("GeForce RTX 40...", 24564, None),  # 4090 or 4090 D
        ("GeForce RTX 30...", 24576, None),  # 3090 or 3090 Ti
        ("GeForce RTX 3070...", 8192, None),  # 3070 Ti or one of a laptop
        ("GeForce ...", None, None),
        ("Quadro RTX 8000...", None, None),
        ("Quadro RTX 800", None, None),
    ],
)
def test_a_cut_name_is_a_card_where_one_alone_fits(
    cut: str, mebibytes: int | None, name: str | None
) -> None:
    found = find_cut(load(), cut, mebibytes)

    assert (found and found.name) == name
