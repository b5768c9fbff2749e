from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from rigops.catalog import find_branch, find_gpu, judge, load, runs_on

if TYPE_CHECKING:
    from rigops.catalog.model import Gpu, ModuleFlavor, Purpose, Verdict


def _card(name: str) -> Gpu:
    gpu = find_gpu(load(), name).only
    assert gpu is not None
    return gpu


def _judge(version: str, card: str, purpose: Purpose = "any") -> list[Verdict]:
    found = judge(load(), version, _card(card))
    return [one for one in found if purpose == "any" or one.purpose in {"any", purpose}]


def _flavors(branch: str, card: str) -> tuple[ModuleFlavor, ...]:
    found = find_branch(load(), branch)
    assert found is not None
    return runs_on(found, _card(card)).flavors


@pytest.mark.parametrize("version", ["545.23.06", "545.29.06", "545.99.01"])
@pytest.mark.parametrize("purpose", ["any", "p2p"])
def test_545_is_bad_on_every_card(version: str, purpose: Purpose) -> None:
    for gpu in load().gpus:
        worst = _judge(version, gpu.name, purpose)[0]

        assert worst.status == "bad", gpu.name
        assert {"NVIDIA/nccl#1127", "vllm-project/vllm#1801", "pytorch/pytorch#119638"} <= {
            one.where for one in worst.evidence
        }, gpu.name


def test_early_525_lies_about_p2p_on_a_4090() -> None:
    worst = _judge("525.89.02", "4090", "p2p")[0]

    assert (worst.status, worst.purpose) == ("bad", "p2p")


def test_early_525_tells_a_3090_no_lie_but_has_the_gsp_fault() -> None:
    p2p = _judge("525.89.02", "3090", "p2p")
    stability = _judge("525.89.02", "3090", "stability")

    assert all(verdict.status != "bad" for verdict in p2p)
    assert (stability[0].status, stability[0].purpose) == ("bad", "stability")
    assert "GSP" in stability[0].why


def test_the_gsp_fault_spares_cards_without_gsp() -> None:
    assert all(verdict.status != "bad" for verdict in _judge("525.89.02", "V100-SXM2-16GB"))


@pytest.mark.parametrize("card", ["3090", "4090"])
def test_525_105_17_cured_both_faults(card: str) -> None:
    assert all(verdict.status != "bad" for verdict in _judge("525.105.17", card))


def test_535_is_known_good_on_a_3090() -> None:
    verdicts = _judge("535.261.03", "3090")

    assert [verdict.status for verdict in verdicts] == ["known-good"]
    assert "host memory" in verdicts[0].why
    assert "June 2026" in verdicts[0].why


@pytest.mark.parametrize(
    ("version", "cautioned"),
    [("535.86.05", False), ("535.104.05", True), ("535.154.05", True), ("535.161.07", False)],
)
def test_some_535_do_not_build_on_some_kernels(version: str, *, cautioned: bool) -> None:
    install = [one for one in _judge(version, "3090", "install") if one.purpose == "install"]

    assert [verdict.status for verdict in install] == (["caution"] if cautioned else [])


@pytest.mark.parametrize("version", ["555.58.02", "560.35.03", "565.77"])
def test_the_branches_around_the_nccl_hang_are_a_caution(version: str) -> None:
    assert _judge(version, "3090")[0].status == "caution"


def test_580_is_known_good_on_every_card() -> None:
    for gpu in load().gpus:
        found = [verdict.status for verdict in _judge("580.126.09", gpu.name)]
        assert found == ["known-good"], gpu.name


def test_the_worst_verdict_comes_first() -> None:
    statuses = [verdict.status for verdict in judge(load(), "535.129.03")]

    assert statuses == ["caution", "known-good"]


def test_without_a_card_every_card_is_meant() -> None:
    assert any("GeForce RTX 4090" in one.gpus for one in judge(load(), "525.60.13"))


@pytest.mark.parametrize("version", ["595.45.04", "999.10.01"])
def test_nothing_known_is_no_verdict(version: str) -> None:
    assert _judge(version, "3090") == []


def test_what_is_no_version_is_refused() -> None:
    with pytest.raises(ValueError, match="535"):
        judge(load(), "535")


@pytest.mark.parametrize(
    ("branch", "card", "flavors"),
    [
        ("580", "V100-SXM2-16GB", ("proprietary",)),
        ("590", "V100-SXM2-16GB", ()),
        ("595", "V100-SXM2-32GB", ()),
        ("580", "1060", ("proprietary",)),
        ("590", "1060", ()),
        ("535", "5090", ()),
        ("565", "5090", ()),
        ("570", "5090", ("open",)),
        ("580", "5090", ("open",)),
        ("595", "5090", ("open",)),
        ("470", "3090", ("proprietary",)),
        ("535", "3090", ("proprietary", "open")),
        ("595", "3090", ("proprietary", "open")),
        ("620", "3090", ("open",)),
        ("470", "4090", ()),
        ("525", "4090", ("proprietary", "open")),
        ("535", "H200", ()),
        ("550", "H200", ("proprietary", "open")),
    ],
)
def test_a_branch_drives_a_card_with_these_flavors(
    branch: str, card: str, flavors: tuple[ModuleFlavor, ...]
) -> None:
    assert _flavors(branch, card) == flavors


def test_a_card_without_a_driver_gets_the_reason() -> None:
    too_new, too_old = find_branch(load(), "590"), find_branch(load(), "535")
    assert too_new is not None
    assert too_old is not None

    v100 = runs_on(too_new, _card("V100-SXM2-16GB"))
    blackwell = runs_on(too_old, _card("5090"))

    assert not v100
    assert "580 is the last branch" in v100.reason
    assert not blackwell
    assert "from branch 570 on" in blackwell.reason


def test_a_single_flavor_comes_with_its_reason() -> None:
    branch = find_branch(load(), "580")
    assert branch is not None

    assert "needs the open modules" in runs_on(branch, _card("5090")).reason
