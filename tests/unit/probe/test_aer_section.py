"""The counters of the links, and the shell that reads them."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rigops.probe.sections import aer
from tests.unit import programs
from tests.unit.probe.snippets import TOOLS, as_collected, called
from tests.unit.programs import SHELLS

if TYPE_CHECKING:
    from pathlib import Path

COUNTERS = """\
== /sys/bus/pci/devices/0000:0a:00.0/aer_dev_correctable
RxErr 0
BadTLP 231
BadDLLP 7
Rollover 0
Timeout 12
NonFatalErr 0
CorrIntErr 0
HeaderOF 0
TOTAL_ERR_COR 250
== /sys/bus/pci/devices/0000:0a:00.0/aer_dev_nonfatal
Undefined 0
UnsupReq 0
TOTAL_ERR_NONFATAL 0
== /sys/bus/pci/devices/0000:0a:00.0/aer_dev_fatal
SDES 1
TOTAL_ERR_FATAL 1
== /sys/bus/pci/devices/0000:00:03.1/aer_dev_correctable
RxErr 0
TOTAL_ERR_COR 0
== /sys/bus/pci/devices/0000:00:03.1/aer_rootport_total_err_cor
250
== /sys/bus/pci/devices/0000:00:03.1/power/control
auto
"""


def test_counters() -> None:
    found = aer.parse(COUNTERS.replace("\n", "\r\n"))
    card = found.device("0000:0a:00.0", "correctable")

    assert card is not None
    assert card.total == 250
    assert card.counts["BadTLP"] == 231
    assert card.lines == ("BadTLP 231", "BadDLLP 7", "Timeout 12", "TOTAL_ERR_COR 250")
    below = found.device("0000:00:03.1", "below")
    assert below is not None
    assert below.total == 250
    assert [(one.address, one.control) for one in found.powers] == [("0000:00:03.1", "auto")]
    assert not found.unparsed


def test_names_of_several_words_and_a_total_that_is_too_small() -> None:
    head = "== /sys/devices/pci0000:00/0000:00:1c.0/aer_dev_correctable\n"
    found = aer.parse(f"{head}Receiver Error 2\nReplay Timer Timeout 3\nTOTAL_ERR_COR 4\n")

    assert found.devices[0].address == "0000:00:1c.0"
    assert found.devices[0].counts == {"Receiver Error": 2, "Replay Timer Timeout": 3}
    assert found.devices[0].total == 5


@pytest.mark.parametrize(
    "text",
    [
        "RxErr 0\n",
        "== /sys/bus/pci/devices/0000:0a:00.0/aer_dev_fatal\nSDES 1\n",
        "== /sys/bus/pci/devices/0000:0a:00.0/aer_dev_fatal\ncat: Permission denied\n",
        "== /sys/bus/pci/devices/0000:0a:00.0/power/control\nmaybe\n",
        "== somewhere\n1\n",
        f"== /sys/bus/pci/devices/0000:0a:00.0/aer_dev_fatal\nTOTAL_ERR_FATAL {'9' * 5000}\n",
    ],
)
def test_what_cannot_be_read_is_unparsed(text: str) -> None:
    found = aer.parse(text)

    assert not found.devices
    assert not found.powers
    assert found.unparsed


@given(at=st.integers(0, len(COUNTERS)), text=st.text(max_size=30))
def test_a_cut_loses_counters_and_never_makes_them_smaller(at: int, text: str) -> None:
    aer.parse(text)
    aer.parse(COUNTERS[:at] + text)

    whole = aer.parse(COUNTERS)
    for one in aer.parse(COUNTERS[:at]).devices:
        known = whole.device(one.address, one.kind)
        assert known is not None
        assert one.total == known.total or one.kind == "below"


def _function(sys: Path, folder: str, vendor: str, pci_class: str) -> None:
    here = sys / "devices" / folder
    (here / "power").mkdir(parents=True)
    (here / "vendor").write_text(f"{vendor}\n")
    (here / "class").write_text(f"{pci_class}\n")
    (here / "power/control").write_text("auto\n")
    for kind in ("correctable", "nonfatal", "fatal"):
        (here / f"aer_dev_{kind}").write_text("RxErr 1\nTOTAL_ERR_X 1\n")
    link = sys / "bus/pci/devices" / here.name
    link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to(here)


@pytest.mark.parametrize("shell", SHELLS)
def test_the_snippet_reads_each_card_and_the_ports_above_it_once(
    shell: str, tmp_path: Path
) -> None:
    _function(tmp_path, "pci0000:00/0000:00:01.1", "0x1022", "0x060400")
    (tmp_path / "devices/pci0000:00/0000:00:01.1/aer_rootport_total_err_cor").write_text("3\n")
    _function(tmp_path, "pci0000:00/0000:00:01.1/0000:01:00.0", "0x10de", "0x030000")
    _function(tmp_path, "pci0000:00/0000:00:01.1/0000:01:00.1", "0x10de", "0x040300")
    _function(tmp_path, "pci0000:00/0000:00:01.1/0000:02:00.0", "0x10de", "0x030200")
    _function(tmp_path, "pci0000:00/0000:00:02.1", "0x1022", "0x060400")
    snippet = aer.SECTION.snippet.replace("/sys", str(tmp_path))

    answer = subprocess.run(
        [*programs.shell(shell), "-c", f"{TOOLS}\n{called(snippet)}"],
        capture_output=True,
        text=True,
        check=False,
    )
    found = aer.parse(as_collected(answer.stdout).replace(str(tmp_path), "/sys"))

    assert (answer.returncode, answer.stderr) == (0, "")
    assert [(one.address, one.kind) for one in found.devices] == [
        ("0000:01:00.0", "correctable"),
        ("0000:01:00.0", "nonfatal"),
        ("0000:01:00.0", "fatal"),
        ("0000:00:01.1", "correctable"),
        ("0000:00:01.1", "nonfatal"),
        ("0000:00:01.1", "fatal"),
        ("0000:00:01.1", "below"),
        ("0000:02:00.0", "correctable"),
        ("0000:02:00.0", "nonfatal"),
        ("0000:02:00.0", "fatal"),
    ]
    assert [one.address for one in found.powers] == ["0000:00:01.1"]
    assert not found.unparsed
