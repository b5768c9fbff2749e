"""What settings of the firmware are called, by board."""

from __future__ import annotations

from typing import TYPE_CHECKING, get_args

import pytest

from rigops.catalog import load
from rigops.catalog.model import Setting
from rigops.concerns.preconditions.firmware import step
from rigops.errors import UsageError
from tests.unit.catalog.entries import EVIDENCE, write

if TYPE_CHECKING:
    from pathlib import Path

SETTINGS: tuple[Setting, ...] = get_args(Setting)


@pytest.mark.parametrize("cpu", ["amd", "intel", ""])
@pytest.mark.parametrize("vendor", ["", "Dell Inc.", "To Be Filled By O.E.M."])
def test_every_setting_has_words_for_a_board_that_nobody_knows(cpu: str, vendor: str) -> None:
    for setting in SETTINGS:
        found = step(load(), setting, "on", vendor=vendor, cpu=cpu)

        assert found.do.startswith('turn on "'), setting
        assert found.seen, setting


@pytest.mark.parametrize(
    ("vendor", "setting", "words"),
    [
        ("ASUSTeK COMPUTER INC.", "resizable-bar", '"Re-Size BAR Support"'),
        ("Gigabyte Technology Co., Ltd.", "above-4g", "Settings > IO Ports"),
        ("Micro-Star International Co., Ltd.", "above-4g", "Crypto Currency mining"),
        ("ASRock", "resizable-bar", "C.A.M. (Clever Access Memory)"),
        ("Supermicro", "above-4g", "PCIe/PCI/PnP Configuration"),
    ],
)
def test_a_maker_has_words_of_its_own(vendor: str, setting: Setting, words: str) -> None:
    assert words in step(load(), setting, "on", vendor=vendor).do


def test_asrock_rack_is_not_asrock() -> None:
    assert "C.A.M." not in step(load(), "resizable-bar", "on", vendor="ASRockRack").do
    # What only its sister has words for is better than nothing.
    assert "Chipset Configuration" in step(load(), "above-4g", "on", vendor="ASRockRack").do


def test_the_cpu_decides_what_the_iommu_is_called() -> None:
    amd, intel, unknown = (step(load(), "iommu", "on", cpu=cpu) for cpu in ("amd", "intel", ""))

    assert "VT-d" not in amd.do
    assert "IOMMU" not in intel.do
    assert "VT-d" in unknown.do
    assert '"IOMMU"' in unknown.do
    assert amd.along == ("SVM Mode on",)


def test_a_maker_whose_words_are_known_for_one_cpu_gets_those_of_most_for_the_other() -> None:
    found = step(load(), "iommu", "on", vendor="ASUSTeK COMPUTER INC.")

    assert "System Agent Configuration" in found.do
    assert "NBIO Common Options" in found.do


def test_what_goes_with_switching_on_does_not_go_with_switching_off() -> None:
    assert step(load(), "iommu", "off", cpu="amd").along == ()


def test_every_word_is_documented_somewhere() -> None:
    for entry in load().firmware:
        assert entry.evidence
        assert all(board.evidence for board in entry.boards)


BOARDS = f"""
[[firmware]]
setting = "acs"
boards = [{{ makers = ["ACME"], cpu = "any", words = [], place = "", {EVIDENCE} }}]
"""


@pytest.mark.parametrize(
    ("text", "faults"),
    [
        (BOARDS, {"makers[0] has a name that never matches", "words is empty"}),
        (
            BOARDS.replace("ACME", "acme").replace("words = []", 'words = ["ACS"]'),
            {"boards lacks words for all other boards"},
        ),
    ],
)
def test_a_users_entry_without_words_or_with_capitals_is_refused(
    tmp_path: Path, text: str, faults: set[str]
) -> None:
    with pytest.raises(UsageError) as refused:
        load(write(tmp_path, text))

    assert {one.message.removeprefix("boards[0].") for one in refused.value.problems} == faults
