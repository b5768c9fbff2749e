"""`nvidia-smi nvlink -s` and `-e`, which newer and older drivers indent in their own ways."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rigops.probe.sections import nvidia_smi_nvlink
from rigops.probe.sections.nvidia_smi_nvlink import NvLinkErrors, NvLinkGpu, NvLinkState

TWO = """\
GPU 0: NVIDIA GeForce RTX 3090 (UUID: GPU-00000000-aaaa-0000-0000-000000000001)
\t Link 0: 14.062 GB/s
\t Link 1: <inactive>
GPU 1: Tesla V100-SXM2-16GB (UUID: GPU-00000000-aaaa-0000-0000-000000000002)
         Link 0: 25 GB/s
"""
ERRORS = """\
GPU 0: NVIDIA GeForce RTX 3090 (UUID: GPU-00000000-aaaa-0000-0000-000000000001)
\t Link 0: Replay Errors: 0
\t Link 0: Recovery Errors: 3
\t Link 0: CRC Errors: 65535

GPU 1: Tesla V100-SXM2-16GB (UUID: GPU-00000000-aaaa-0000-0000-000000000002)
         Link 0: Replay Errors: 148
         Link 3: CRC Errors: 12
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
    assert not found.unparsed
    assert (
        nvidia_smi_nvlink.parse("$ nvidia-smi nvlink -s\r\n" + TWO.replace("\n", "\r\n")) == found
    )


@pytest.mark.parametrize("line", [ALL_INACTIVE, NOT_SUPPORTED])
def test_a_card_without_links_says_so(line: str) -> None:
    found = nvidia_smi_nvlink.parse(TWO + f"GPU 2: RTX 4090 (UUID: GPU-2)\n{line}\n")

    assert found.gpus[2] == NvLinkGpu(2, "RTX 4090", "GPU-2", (), line)
    assert [card.no_links for card in found.gpus[:2]] == [None, None]
    assert not found.unparsed


@pytest.mark.parametrize(
    "line",
    [
        "Unable to retrieve NVLink information",
        "         Link 2: Replay Errors: N/A",
        "         Link 2: Effective BER: 15e-255",
        "         Link 2: Data Tx: 0 KiB",
        "         Link 2: 25",
        "No devices were found",
    ],
)
def test_what_says_nothing_of_the_links_is_kept_and_proves_nothing(line: str) -> None:
    found = nvidia_smi_nvlink.parse(f"GPU 0: NVIDIA H100 (UUID: GPU-1)\n{line}\n")

    assert found.gpus == (NvLinkGpu(0, "NVIDIA H100", "GPU-1"),)
    assert found.unparsed == (line,)


def test_errors_of_each_link_and_of_what_is_not_listed_none() -> None:
    first, second = nvidia_smi_nvlink.parse(ERRORS).gpus

    assert first.errors == (
        NvLinkErrors(
            0,
            replay=0,
            recovery=3,
            crc=65535,
            lines=(
                "\t Link 0: Replay Errors: 0",
                "\t Link 0: Recovery Errors: 3",
                "\t Link 0: CRC Errors: 65535",
            ),
        ),
    )
    assert [(one.number, one.replay, one.recovery, one.crc) for one in second.errors] == [
        (0, 148, None, None),
        (3, None, None, 12),
    ]


def test_counters_alone_do_not_say_whether_a_link_is_up() -> None:
    found = nvidia_smi_nvlink.parse(ERRORS)

    assert [card.links for card in found.gpus] == [(), ()]
    assert not found.unparsed


def test_other_counters_keep_the_names_of_the_driver() -> None:
    found = nvidia_smi_nvlink.parse(
        "GPU 0: NVIDIA B300 SXM6 AC (UUID: GPU-1)\n"
        "\t Link 0: Link recovery failed events: 2\n"
        "\t Link 0: FEC Errors - 0: 123456789012\n"
    )

    (link,) = found.gpus[0].errors
    assert link.others == {"Link recovery failed events": 2, "FEC Errors - 0": 123456789012}
    assert (link.replay, link.recovery, link.crc) == (None, None, None)
    assert not found.unparsed


@pytest.mark.parametrize("text", [TWO + ERRORS, ERRORS + TWO, f"{TWO}$ nvidia-smi -e\n{ERRORS}"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_both_answers_are_put_together(text: str, end: str) -> None:
    found = nvidia_smi_nvlink.parse(text.replace("\n", end))
    counted = nvidia_smi_nvlink.parse(ERRORS)

    assert [card.links for card in found.gpus] == [card.links for card in WHOLE]
    assert [card.errors for card in found.gpus] == [card.errors for card in counted.gpus]
    assert not found.unparsed


def test_two_cards_under_one_masked_name_stay_two() -> None:
    heads = "".join(f"GPU {index}: NVIDIA H100 (UUID: GPU-xxxx)\n" for index in (0, 1))

    assert [card.index for card in nvidia_smi_nvlink.parse(heads).gpus] == [0, 1]


def test_a_count_that_was_cut_short_is_unparsed() -> None:
    found = nvidia_smi_nvlink.parse(ERRORS.removesuffix("2\n"))

    assert found.unparsed == ("         Link 3: CRC Errors: 1",)
    assert [link.number for link in found.gpus[1].errors] == [0]


@pytest.mark.parametrize("line", ["Link 0: 25 GB/s", "Link 0: CRC Errors: 1", ALL_INACTIVE])
def test_a_link_of_no_card_is_not_read(line: str) -> None:
    found = nvidia_smi_nvlink.parse(f"{line}\n")

    assert (found.gpus, found.unparsed) == ((), (line,))


@given(text=st.text(), at=st.integers(0, len(ERRORS)))
def test_damage_never_raises_and_a_cut_invents_no_count(text: str, at: int) -> None:
    nvidia_smi_nvlink.parse(ERRORS[:at] + text + ERRORS[at:])
    cut = nvidia_smi_nvlink.parse(ERRORS[:at]).gpus
    counts = {
        count
        for card in cut
        for link in card.errors
        for count in (link.replay, link.recovery, link.crc, *link.others.values())
    }
    assert counts <= {0, 3, 65535, 148, 12, None}


@given(text=st.text(), at=st.integers(0, len(TWO)))
def test_damage_never_raises_and_a_cut_invents_no_speed(text: str, at: int) -> None:
    nvidia_smi_nvlink.parse(text)
    nvidia_smi_nvlink.parse(TWO[:at] + text + TWO[at:])
    cut = nvidia_smi_nvlink.parse(TWO[:at]).gpus
    assert [card.uuid for card in cut] == [card.uuid for card in WHOLE[: len(cut)]]
    assert {link.gb_per_s for card in cut for link in card.links} <= {14.062, 25.0, None}
