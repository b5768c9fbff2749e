"""The facts of `nvidia-smi -q -x`, `-q` and the plain table, in the layouts of twelve years."""

from __future__ import annotations

from pathlib import Path

import pytest

from rigops.probe.sections import nvidia_smi_xml
from rigops.probe.smi.report import SmiGpu, SmiProcess, SmiReport

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures/smi"
FILES = tuple(sorted(path.name for path in FIXTURES.iterdir()))
WHOLE = tuple(name for name in FILES if name != "half-dead-525.xml")


def read(name: str) -> SmiReport:
    return nvidia_smi_xml.parse(text(name))


def text(name: str) -> str:
    return (FIXTURES / name).read_text()


def test_every_field_of_a_card_is_read_from_its_own_element() -> None:
    report = read("two-3090-525.xml")

    assert (report.driver, report.cuda, report.attached) == ("525.147.05", "12.0", 2)
    assert report.gpus[1] == SmiGpu(
        address="0000:0b:00.0",
        name="NVIDIA GeForce RTX 3090",
        architecture="Ampere",
        uuid="GPU-00000000-aaaa-0000-0000-000000000002",
        vbios="94.02.42.00.a9",
        persistence=True,
        display_active=False,
        generation=1,
        generation_max=4,
        width=8,
        width_max=16,
        fan_percent=30,
        performance_state="P8",
        throttle=frozenset({"sw_power_cap", "hw_slowdown", "hw_power_brake"}),
        memory_total_mib=24576,
        memory_used_mib=17,
        bar1_total_mib=256,
        utilization_percent=12,
        remapped_uncorrected=2,
        remap_pending=True,
        remap_failed=False,
        celsius=41,
        celsius_slowdown=95,
        watts=284.1,
        watts_limit=285,
        watts_requested=285,
        watts_default=350,
        watts_min=100,
        watts_max=366,
        mhz_graphics=210,
        mhz_sm=211,
        mhz_memory=405,
        mhz_max_graphics=2100,
        mhz_max_sm=2101,
        mhz_max_memory=9751,
        listed_mhz={9751: (2100, 2085)},
        processes=(SmiProcess(pid=4711, kind="C", name='python3 -c "a < b && c"'),),
        line='<gpu id="00000000:0B:00.0">',
    )
    assert report.gpus[0].processes == ()
    assert report.gpus[0].throttle == frozenset({"gpu_idle"})


def test_the_oldest_xml_with_a_dtd_inside() -> None:
    report = read("k80-352.xml")
    card = report.gpus[0]

    assert (report.driver, report.cuda, len(report.gpus)) == ("352.99", None, 1)
    assert (card.address, card.line) == ("0000:04:00.0", '<gpu id="0000:04:00.0">')
    assert card.ecc is True
    assert card.ecc_volatile_uncorrected == 2
    assert (card.ecc_aggregate_uncorrected, card.ecc_aggregate_corrected) == (4, 31)
    assert (card.retired_single, card.retired_double, card.retired_pending) == (5, 1, True)
    assert (card.watts_limit, card.watts_requested, card.watts_default) == (135, 140, 149)
    assert (card.celsius, card.celsius_slowdown) == (30, 88)
    assert (card.mhz_application_graphics, card.mhz_application_memory) == (562, 2505)
    assert card.throttle == frozenset({"applications_clocks"})
    assert (card.processes, card.fan_percent, card.uuid) == (None, None, None)


def test_no_entity_is_expanded() -> None:
    report = read("k80-352.xml")

    assert report.gpus[0].watts is None
    assert report.unparsed == ("<power_draw>&lol; W</power_draw>",)


def test_the_newest_xml() -> None:
    card = read("a6000-595.xml").gpus[0]

    assert (card.address, card.serial) == ("0001:c1:00.0", "1320000000000")
    assert (card.fan_percent, card.celsius) == (31, 88)
    assert card.celsius_slowdown is None
    assert (card.watts, card.watts_limit, card.watts_requested) == (249.44, 270, 300)
    assert (card.watts_default, card.watts_min, card.watts_max) == (300, 100, 300)
    assert card.throttle == frozenset({"sw_thermal_slowdown"})
    assert card.ecc_volatile_uncorrected == 1 + 2 + 4
    assert (card.ecc_aggregate_uncorrected, card.ecc_aggregate_corrected) == (5, 30)
    assert (card.remap_pending, card.remap_failed) == (False, True)
    assert card.mhz_application_graphics is None
    assert card.processes == (SmiProcess(pid=77, kind="C+G", name=r"C:\Windows\explorer.exe"),)
    assert card.troubles == {}


def test_the_oldest_text() -> None:
    report = read("v100-384.txt")
    card, other = report.gpus

    assert (report.driver, report.cuda, report.attached) == ("384.145", None, 2)
    assert (card.address, card.line) == ("0000:04:00.0", "GPU 00000000:04:00.0")
    assert (card.name, card.serial) == ("Tesla V100-PCIE-16GB", "1320000000001")
    assert card.uuid == "GPU-00000000-bbbb-0000-0000-000000000001"
    assert (card.generation, card.generation_max, card.width) == (2, 3, 8)
    assert (card.performance_state, card.fan_percent) == ("P0", None)
    assert card.throttle == frozenset(
        {"applications_clocks", "sw_power_cap", "hw_slowdown", "hw_thermal_slowdown"}
    )
    assert (card.memory_total_mib, card.bar1_total_mib) == (16152, 16384)
    assert card.utilization_percent == 99
    assert (card.ecc, card.ecc_volatile_uncorrected) == (True, 0)
    assert (card.ecc_aggregate_uncorrected, card.ecc_aggregate_corrected) == (2, 9)
    assert (card.retired_single, card.retired_double, card.retired_pending) == (3, 1, True)
    assert (card.celsius, card.celsius_slowdown) == (61, 87)
    assert (card.memory_celsius, card.memory_celsius_max) == (58, 85)
    assert (card.watts, card.watts_limit, card.watts_requested) == (201.2, 205, 210)
    assert (card.watts_default, card.watts_min, card.watts_max) == (250, 100, 250)
    assert (card.mhz_graphics, card.mhz_sm, card.mhz_memory) == (1005, 1006, 877)
    assert (card.mhz_application_graphics, card.mhz_application_memory) == (1004, 876)
    assert (card.mhz_max_graphics, card.mhz_max_sm, card.mhz_max_memory) == (1380, 1381, 878)
    assert card.processes == (
        SmiProcess(pid=812, kind="C", name="python train.py"),
        SmiProcess(pid=813, kind="G", name="/usr/lib/xorg/Xorg"),
    )
    assert (other.address, other.watts, other.processes) == ("0000:05:00.0", 24, ())
    assert other.throttle is None


def test_the_newest_text_of_windows() -> None:
    report = read("2080-610-windows.txt")
    card = report.gpus[0]

    assert (report.driver, report.cuda) == ("610.62", "13.3")
    assert (card.persistence, card.display_active, card.mig_current) == (None, True, None)
    assert (card.watts, card.watts_limit, card.watts_requested) == (37.21, 240, 245)
    assert (card.watts_default, card.watts_min, card.watts_max) == (250, 105, 350)
    assert card.celsius == 39
    assert card.throttle == frozenset({"gpu_idle"})
    assert card.remap_pending is None
    assert card.processes == (
        SmiProcess(pid=2140, kind="C+G", name=r"C:\Windows\System32\dwm.exe"),
    )


def test_a_card_that_is_cut_in_instances_is_not_mistaken_for_one_of_them() -> None:
    card = read("h100-mig-590.txt").gpus[0]

    assert (card.mig_current, card.mig_pending) == (True, False)
    assert (card.memory_total_mib, card.bar1_total_mib) == (81559, None)
    assert card.ecc_volatile_uncorrected == 1 + 1 + 3
    assert (card.ecc_aggregate_uncorrected, card.ecc_aggregate_corrected) == (0, 7)
    assert card.remapped_uncorrected == 5
    assert (card.remap_pending, card.remap_failed) == (True, False)
    assert (card.celsius, card.memory_celsius) == (42, 48)


def test_a_card_in_trouble_says_so_and_hides_no_error_behind_a_zero() -> None:
    report = read("half-dead-525.xml")
    card = report.gpus[0]

    assert card.name == "NVIDIA A100-PCIE-40GB"
    assert tuple(card.troubles.values()) == (
        "<fan_speed>ERR!</fan_speed>",
        "<dram_uncorrectable>[Unknown Error]</dram_uncorrectable>",
        "<gpu_temp>GPU is lost</gpu_temp>",
        "<power_draw>[GPU requires reset]</power_draw>",
    )
    assert (card.fan_percent, card.celsius, card.watts) == (None, None, None)
    assert card.ecc_volatile_uncorrected is None
    assert (card.watts_limit, card.display_active) == (None, None)
    assert report.unparsed == ("<min_power_limit>some watts</min_power_limit>",)


def test_an_error_line_before_the_cards_is_a_failure_beside_them() -> None:
    report = read("half-dead-525.xml")

    assert (report.failure, report.lost) == ("lost", ("0000:0f:00.0",))
    assert [card.address for card in report.gpus] == ["0000:41:00.0"]
    assert len(report.failure_lines) == 1
    assert report.warnings == ("WARNING: infoROM is corrupted at gpu 0000:41:00.0",)
    assert report.is_complete


def test_every_reason_has_its_word() -> None:
    words = "".join(
        f"<clocks_event_reason_{name}>Active</clocks_event_reason_{name}>"
        for name in (
            "gpu_idle", "applications_clocks_setting", "sw_power_cap", "hw_slowdown",
            "hw_thermal_slowdown", "hw_power_brake_slowdown", "sync_boost", "sw_thermal_slowdown",
            "display_clocks_setting",
        )
    )  # fmt: skip
    xml = f'<gpu id="0000:01:00.0"><clocks_event_reasons>{words}</clocks_event_reasons></gpu>'

    assert nvidia_smi_xml.parse(xml).gpus[0].throttle == frozenset({
        "gpu_idle", "applications_clocks", "sw_power_cap", "hw_slowdown", "hw_thermal_slowdown",
        "hw_power_brake", "sync_boost", "sw_thermal_slowdown", "display_clocks",
    })  # fmt: skip


def test_a_reason_in_trouble_leaves_the_others() -> None:
    broken = text("two-3090-525.xml").replace(
        "<clocks_throttle_reason_gpu_idle>Active", "<clocks_throttle_reason_gpu_idle>Unknown Error"
    )

    assert nvidia_smi_xml.parse(broken).gpus[0].throttle == frozenset()


@pytest.mark.parametrize("name", WHOLE)
def test_the_text_between_is_all_understood_and_the_end_is_seen(name: str) -> None:
    report = read(name)

    assert report.is_complete
    assert (report.failure, report.warnings, report.lost) == (None, (), ())
    assert report.attached == (None if ".table." in name else len(report.gpus))
    assert not report.unparsed or name == "k80-352.xml"


@pytest.mark.parametrize("name", FILES)
def test_line_ends_colours_a_byte_order_mark_and_a_command_line_change_nothing(name: str) -> None:
    plain = text(name)
    colours = "\ufeff" + "\n".join(f"\x1b[1m{line}\x1b[0m" for line in plain.split("\n")) + "\n"

    assert nvidia_smi_xml.parse(plain.replace("\n", "\r\n")) == read(name)
    assert nvidia_smi_xml.parse(colours) == read(name)
    for head in ("== nvidia-smi -q -x\n", "$ nvidia-smi -q\n", "root@rig:~# nvidia-smi -q\n"):
        assert nvidia_smi_xml.parse(head + plain) == read(name)


def test_a_text_that_somebody_indented_is_read_all_the_same() -> None:
    indented = "".join(f"    {line}" for line in text("v100-384.txt").splitlines(keepends=True))

    cards = nvidia_smi_xml.parse(indented).gpus
    assert [(card.address, card.watts) for card in cards] == [
        ("0000:04:00.0", 201.2),
        ("0000:05:00.0", 24.0),
    ]


def test_a_card_without_an_id_is_found_by_its_bus_id() -> None:
    xml = "<nvidia_smi_log><gpu><pci><pci_bus_id>0000:0A:00.0</pci_bus_id></pci></gpu>"

    assert nvidia_smi_xml.parse(xml).gpus[0].address == "0000:0a:00.0"
