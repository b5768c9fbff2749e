"""The table that nvidia-smi prints without options, of every generation."""

from __future__ import annotations

import pytest

from rigops.probe.sections import nvidia_smi_xml
from rigops.probe.smi.report import SmiGpu, SmiProcess
from tests.unit.doctor.examining import judge
from tests.unit.probe.test_smi_report import read, text

TABLES = ("gtx-384", "one-dead-525", "h100-mig-590", "2080-610")


def test_each_cell_of_a_card_is_read() -> None:
    report = read("2080-610.table.txt")

    assert (report.driver, report.cuda, report.is_complete) == ("610.57.04", "13.3", True)
    assert report.gpus == (
        SmiGpu(
            address="0000:0c:00.0",
            name="NVIDIA GeForce RTX 2080 ...",
            persistence=False,
            display_active=True,
            fan_percent=38,
            performance_state="P8",
            memory_total_mib=8192,
            memory_used_mib=211,
            utilization_percent=3,
            celsius=33,
            watts=38,
            watts_limit=250,
            processes=(SmiProcess(pid=1720, kind="G", name="/usr/bin/gnome-shell"),),
            line="|   0  NVIDIA GeForce RTX 2080 ...    Off |   00000000:0C:00.0  On |"
            "                  N/A |",
        ),
    )
    assert (report.failure, report.unparsed) == (None, ())


def test_the_table_before_there_was_mig() -> None:
    first, second = read("gtx-384.table.txt").gpus

    assert (first.watts, first.watts_limit, first.ecc) == (None, 75, None)
    assert first.processes == (
        SmiProcess(pid=1234, kind="G", name="/usr/lib/xorg/Xorg"),
        SmiProcess(pid=5150, kind="C+G", name="python3 train.py --size 5"),
    )
    assert (second.ecc, second.ecc_volatile_uncorrected, second.processes) == (True, 3, ())


def test_mig_and_its_devices() -> None:
    first, second = read("h100-mig-590.table.txt").gpus

    assert (first.mig_current, first.mig_pending, first.utilization_percent) == (True, True, None)
    assert (second.mig_current, second.mig_pending) == (False, True)
    assert first.processes == (SmiProcess(pid=21180, kind="C", name="/root/tools/memhog"),)


def test_cells_with_an_error_are_troubles() -> None:
    alive, dead = read("one-dead-525.table.txt").gpus

    assert (dict(alive.troubles), alive.celsius) == ({}, 30)
    assert (dead.address, dead.name, dead.celsius) == ("0000:83:00.0", None, None)
    assert {"fan_speed", "temperature/gpu_temp", "performance_state"} <= dead.troubles.keys()
    assert "ERR!  ERR! ERR!" in dead.troubles["fan_speed"]


def test_a_dead_card_in_a_table_is_lost() -> None:
    found = judge({"nvidia-smi-xml": text("one-dead-525.table.txt")}, root=False)

    assert ("gpu.lost", "fail", "gpu 0000:83:00.0") in {
        (one.id, one.status, one.subject) for one in found
    }


@pytest.mark.parametrize("name", TABLES)
def test_without_its_last_border_a_table_is_incomplete(name: str) -> None:
    whole = text(f"{name}.table.txt")

    assert nvidia_smi_xml.parse(whole).is_complete
    assert not nvidia_smi_xml.parse(whole.rstrip()[:-1]).is_complete


def test_a_card_whose_name_is_cut_is_of_no_known_model() -> None:
    """It may be the Ti or the SUPER."""
    found = judge({"nvidia-smi-xml": text("2080-610.table.txt")}, root=False)

    assert not [one for one in found if "RTX 2080 Ti" in f"{one.summary} {one.why}"]


def test_of_several_tables_the_last_counts() -> None:
    both = text("gtx-384.table.txt") + text("2080-610.table.txt")

    assert nvidia_smi_xml.parse(both) == read("2080-610.table.txt")
