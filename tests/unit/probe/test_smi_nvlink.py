"""`nvidia-smi nvlink -s`, which newer and older drivers indent in their own ways."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rigops.probe.sections import nvidia_smi_nvlink
from rigops.probe.sections.nvidia_smi_nvlink import NvLinkGpu, NvLinkState

TWO = """\
GPU 0: NVIDIA GeForce RTX 3090 (UUID: GPU-00000000-aaaa-0000-0000-000000000001)
\t Link 0: 14.062 GB/s
\t Link 1: <inactive>
GPU 1: Tesla V100-SXM2-16GB (UUID: GPU-00000000-aaaa-0000-0000-000000000002)
         Link 0: 25 GB/s
"""
WHOLE = nvidia_smi_nvlink.parse(TWO).gpus
ALL_INACTIVE = "NVML: Unable to retrieve Nvlink information as all links are inActive"
NOT_SUPPORTED = "Device does not have or support Nvlink"


def test_speeds_and_inactive_links() -> None:
    found = nvidia_smi_nvlink.parse(TWO)

    assert found.gpus == (
        NvLinkGpu(
            0,
            "NVIDIA GeForce RTX 3090",
            "GPU-00000000-aaaa-0000-0000-000000000001",
            (
                NvLinkState(0, 14.062, "\t Link 0: 14.062 GB/s"),
                NvLinkState(1, None, "\t Link 1: <inactive>"),
            ),
        ),
        NvLinkGpu(
            1,
            "Tesla V100-SXM2-16GB",
            "GPU-00000000-aaaa-0000-0000-000000000002",
            (NvLinkState(0, 25, "         Link 0: 25 GB/s"),),
        ),
    )
    assert not found.unread
    assert (
        nvidia_smi_nvlink.parse("$ nvidia-smi nvlink -s\r\n" + TWO.replace("\n", "\r\n")) == found
    )


@pytest.mark.parametrize("line", [ALL_INACTIVE, NOT_SUPPORTED])
def test_a_card_without_links_says_so(line: str) -> None:
    found = nvidia_smi_nvlink.parse(TWO + f"GPU 2: RTX 4090 (UUID: GPU-2)\n{line}\n")

    assert found.gpus[2] == NvLinkGpu(2, "RTX 4090", "GPU-2", (), line)
    assert [card.no_links for card in found.gpus[:2]] == [None, None]
    assert not found.unread


@pytest.mark.parametrize(
    "line",
    [
        "Unable to retrieve NVLink information",
        "         Link 2: Replay Errors: 0",
        "         Link 2: 25",
        "No devices were found",
    ],
)
def test_what_says_nothing_of_the_links_is_kept_and_proves_nothing(line: str) -> None:
    found = nvidia_smi_nvlink.parse(f"GPU 0: NVIDIA H100 (UUID: GPU-1)\n{line}\n")

    assert (found.gpus[0].links, found.gpus[0].no_links) == ((), None)
    assert found.unread == (line,)


@pytest.mark.parametrize("line", ["Link 0: 25 GB/s", ALL_INACTIVE])
def test_a_link_of_no_card_is_not_read(line: str) -> None:
    found = nvidia_smi_nvlink.parse(line)

    assert (found.gpus, found.unread) == ((), (line,))


@given(text=st.text(), at=st.integers(0, len(TWO)))
def test_damage_never_raises_and_a_cut_invents_no_speed(text: str, at: int) -> None:
    nvidia_smi_nvlink.parse(text)
    nvidia_smi_nvlink.parse(TWO[:at] + text + TWO[at:])
    cut = nvidia_smi_nvlink.parse(TWO[:at]).gpus
    assert [card.uuid for card in cut] == [card.uuid for card in WHOLE[: len(cut)]]
    assert {link.gb_per_s for card in cut for link in card.links} <= {14.062, 25.0, None}
