"""NVLinks by nvidia-smi's lists of them."""

from __future__ import annotations

from typing import Final

import pytest

from tests.unit.doctor.examining import check_of, judge
from tests.unit.probe import answers

V100: Final = "Tesla V100-SXM2-16GB"
RTX3090: Final = "NVIDIA GeForce RTX 3090"
NONE: Final = "NVML: Unable to retrieve NVLink information as all links are inActive\n"
UP, DOWN, SLOW = "25.781 GB/s", "<inactive>", "12.5 GB/s"


def cards(*links: list[str] | str, name: str = V100) -> str:
    return "".join(
        f"GPU {at}: {name} (UUID: GPU-{at:08}-0000-0000-0000-000000000000)\n"
        + (
            of
            if isinstance(of, str)
            else "".join(f"\t Link {number}: {one}\n" for number, one in enumerate(of))
        )
        for at, of in enumerate(links)
    )


def errors(*counts: int, kind: str = "CRC", name: str = V100) -> str:
    up = cards([UP] * len(counts), [UP] * len(counts), name=name)
    rows = [
        f"Replay Errors: {count if kind == 'Replay' else 0}\n"
        f"\t Link {number}: Recovery Errors: {count if kind == 'Recovery' else 0}\n"
        f"\t Link {number}: CRC Errors: {count if kind == 'CRC' else 0}"
        for number, count in enumerate(counts)
    ]
    return up + cards(rows, ["Replay Errors: 0"] * len(counts), name=name)


def statuses(check: str, text: str | None, *, code: int = 0) -> list[str]:
    texts = {"nvidia-smi-nvlink": text}
    found = judge(texts, checks=[check_of(check)], codes={"nvidia-smi-nvlink": code})
    return [one.status for one in found]


@pytest.mark.parametrize(
    ("text", "status"),
    [
        (cards([UP] * 6, [UP] * 6), ["ok"]),
        (cards([UP, DOWN], [UP, DOWN]), ["ok"]),  # one wire between two modules of an OEM board
        (cards([UP, UP, DOWN], [UP, UP, UP], [UP, UP, UP]), ["warn"]),
        (cards([UP, UP], [UP, SLOW]), ["warn"]),
        (cards(NONE, NONE), ["warn"] * 2),
        (cards(NONE), ["skipped"]),
        (cards([UP] * 4, [UP] * 4, name=RTX3090), ["ok"]),
        (cards([UP] * 4, [UP] * 4, NONE, name=RTX3090), ["ok"]),
        (cards([UP, UP, UP, DOWN], [UP, UP, UP, DOWN], name=RTX3090), ["warn"] * 2),
        (cards(NONE, NONE, name=RTX3090), ["skipped"]),
        (cards([DOWN] * 4, [DOWN] * 4, name=RTX3090), ["skipped"]),
        (cards("Device does not have or support Nvlink\n", name="RTX 4090"), ["skipped"]),
        (cards([UP] * 6, ""), ["unknown"]),
        ("Unable to determine the device handle for GPU0000:86:00.0: GPU is lost.\n", ["unknown"]),
        ("", ["unknown"]),
        (None, ["unknown"]),
    ],
)
def test_links(text: str | None, status: list[str]) -> None:
    assert statuses("nvl.state", text) == status


def test_a_list_that_was_cut_is_not_well() -> None:
    assert statuses("nvl.state", cards([UP] * 6, [UP] * 6), code=141) == ["unknown"]


@pytest.mark.parametrize(
    ("text", "status"),
    [
        (errors(0, 0), ["ok"]),
        (errors(0, 7), ["info"]),
        (errors(0, 100), ["warn"]),
        (errors(5, 0, kind="Replay"), ["info"]),
        (errors(1, 0, kind="Recovery"), ["warn"]),
        (errors(0, 0) + "\t Link 0: Effective Errors: 12\n", ["ok"]),
        (cards([UP], [UP]), ["unknown"]),
        (cards(NONE, NONE), ["skipped"]),
        (None, ["unknown"]),
    ],
)
def test_counters(text: str | None, status: list[str]) -> None:
    assert statuses("nvl.err", text) == status


def test_cards_without_nvlink_are_not_missed() -> None:
    pci = answers.ONE_GPU.replace("device=0x2204", "device=0x2684")  # a 4090

    for check in ("nvl.state", "nvl.err"):
        (found,) = judge({"pci": pci}, checks=[check_of(check)])
        assert (found.status, found.summary) == ("skipped", "these cards have no NVLink")
