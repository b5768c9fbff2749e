from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.doctor import peer_rigs as rigs
from tests.unit.probe import host_sections

LEVEL = "nccl.level"
STALE = "nccl.conf_stale"
CACHE = "vllm.cache"

THREE = rigs.rig(*[rigs.RTX_3090] * 3, cell="OK", way="PHB")


def with_conf(line: str, texts: dict[str, str] = THREE) -> dict[str, str]:
    return {**texts, "nccl": rigs.NCCL.format("AuthenticAMD", line)}


@pytest.mark.parametrize(
    ("texts", "before", "since"),
    [
        (THREE, "P2P", "SHM"),
        (rigs.rig(*[rigs.RTX_3090] * 2, cell="OK"), "P2P", "P2P"),
        (rigs.rig(*[rigs.RTX_3090] * 2, cell="OK", way="SOC"), "P2P", "P2P"),
        (rigs.rig(*[rigs.RTX_3090] * 2, cell="OK", processor="GenuineIntel"), "SHM", "SHM"),
        (rigs.rig(*[rigs.V100] * 4, cell="OK", way="NV2"), "P2P", "P2P"),
        (rigs.rig(*[rigs.RTX_4090] * 8), "SHM", "SHM"),
        (rigs.without(rigs.rig(*[rigs.V100] * 4, cell="OK", way="NV2"), "nccl"), "P2P", "P2P"),
    ],
)
def test_the_transport_before_and_since(texts: dict[str, str], before: str, since: str) -> None:
    one = rigs.look(LEVEL, texts)

    assert one.status == "info"
    assert one.data == {"before": before, "since": since}
    assert f"NCCL will use {since}" in one.summary


@pytest.mark.parametrize(
    ("lost", "said"),
    [
        (("nvidia-smi-p2p-read",), "grants"),
        (("nvidia-smi-topo",), "connected"),
        (("nccl",), "processor"),
    ],
)
def test_what_is_not_known_is_not_guessed(lost: tuple[str, ...], said: str) -> None:
    one = rigs.look(LEVEL, rigs.without(THREE, *lost))

    assert one.status == "unknown"
    assert said in one.summary


def test_settings_that_change_the_transport_are_shown() -> None:
    one = rigs.look(LEVEL, with_conf("NCCL_P2P_LEVEL=SYS\n"))

    assert "settings were found" in one.summary
    assert "NCCL_P2P_LEVEL=SYS" in [evidence.line for evidence in one.evidence]


@pytest.mark.parametrize(
    ("line", "status"),
    [
        ("NCCL_P2P_DISABLE=1", "warn"),
        ("NCCL_P2P_DISABLE=0", "ok"),
        ("NCCL_P2P_LEVEL=LOC", "warn"),
        ("NCCL_P2P_LEVEL=SYS", "ok"),
        ("NCCL_IB_HCA=mlx5_0", "warn"),
        ("NCCL_SHM_DISABLE=1", "warn"),
        ("NCCL_DEBUG=INFO", "ok"),
        ("# NCCL_P2P_DISABLE=1", "ok"),
        ("", "ok"),
        ("rubbish", "unknown"),
    ],
)
def test_a_setting_that_was_left_behind(line: str, status: str) -> None:
    one = rigs.look(STALE, with_conf(f"# first line\n{line}\n"))

    assert one.status == status
    if status == "warn":
        assert one.subject == "/etc/nccl.conf"
        assert one.fix is not None
        assert "/etc/nccl.conf line 2" in one.fix.text


def test_a_declared_setting_is_meant_and_another_value_is_not() -> None:
    texts = with_conf("NCCL_P2P_DISABLE=1\n")

    assert rigs.look(STALE, texts, nccl={"NCCL_P2P_DISABLE": "1"}).status == "ok"
    assert rigs.look(STALE, texts, nccl={"NCCL_P2P_DISABLE": "0"}).status == "warn"


def test_every_place_is_a_finding() -> None:
    found = rigs.found(STALE, {**THREE, "nccl": host_sections.NCCL})

    assert [(one.subject, one.status) for one in found] == [
        ("/etc/nccl.conf", "warn"),
        ("/etc/environment", "warn"),
        ("/etc/systemd/system/vllm.service.d/env.conf", "warn"),
    ]


@pytest.mark.parametrize("check", [STALE, CACHE])
def test_closed_homes_and_cut_answers_are_not_well(check: str) -> None:
    closed = THREE["nccl"].replace("looked into\n", "looked into\n/root\n")

    one = rigs.look(check, {**THREE, "nccl": closed})

    assert one.status == "unknown"
    assert "/root" in one.summary
    assert rigs.look(check, THREE, {"nccl": 124}).status == "unknown"
    assert rigs.look(check, rigs.without(THREE, "nccl")).status == "unknown"
    assert rigs.look(check, THREE).status == "ok"


def test_an_old_verdict_of_vllm_is_shown_with_its_day() -> None:
    one = rigs.look(CACHE, {**THREE, "nccl": host_sections.NCCL})

    assert one.status == "info"
    assert one.subject.endswith("gpu_p2p_access_cache_for_0,1.json")
    assert "2024-05-01" in one.summary


@pytest.mark.parametrize("check", [LEVEL, STALE, CACHE])
def test_without_a_card_there_is_nothing_to_say(check: str) -> None:
    assert rigs.look(check, {"pci": ""}).status == "skipped"


@given(length=st.integers(0, 160), is_lost=st.booleans())
def test_a_lost_end_never_makes_a_forgotten_setting_well(length: int, *, is_lost: bool) -> None:
    texts = with_conf("NCCL_P2P_DISABLE=1\n")
    damaged = {**texts, "nccl": texts["nccl"][:length]}
    if is_lost:
        damaged = rigs.without(texts, "nccl")

    for one in rigs.found(STALE, damaged):
        assert one.status in {"warn", "unknown"}
