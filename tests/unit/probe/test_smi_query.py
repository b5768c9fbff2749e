"""Rows of `nvidia-smi --query-gpu=… --format=csv`, of any columns."""

from __future__ import annotations

from rigops.probe.sections.nvidia_smi_xml import parse

ROWS = """\
count, driver_version, name, pci.bus_id, temperature.gpu, fan.speed [%], power.draw [W], power.limit [W], enforced.power.limit [W], pcie.link.width.current, ecc.errors.uncorrected.volatile.total, memory.total [MiB]
2, 550.90.07, NVIDIA GeForce RTX 3090, 00000000:0A:00.0, 45, 30 %, 98.10 W, 285.00 W, 285.00 W, 16, [N/A], 24576 MiB
2, 550.90.07, NVIDIA GeForce RTX 3090, 00000000:0B:00.0, 51, [Unknown Error], 101.33 W, 350.00 W, 285.00 W, 8, [N/A], 24576 MiB
"""  # noqa: E501 - as it is printed


def test_each_card_has_the_values_of_its_row() -> None:
    report = parse(ROWS)
    first, second = report.gpus

    assert (report.driver, report.is_complete, report.unparsed) == ("550.90.07", True, ())
    assert (first.address, first.name, first.celsius) == (
        "0000:0a:00.0",
        "NVIDIA GeForce RTX 3090",
        45,
    )
    assert (second.watts, second.watts_limit, second.watts_requested) == (101.33, 285, 350)
    assert (first.width, first.fan_percent, first.memory_total_mib) == (16, 30, 24576)
    assert (second.fan_percent, list(second.troubles)) == (None, ["fan_speed"])


def test_without_units_the_head_has_them() -> None:
    bare = ROWS.replace(" %,", ",").replace(" W,", ",").replace(" MiB\n", "\n")

    assert [one.watts_limit for one in parse(bare).gpus] == [285, 285]
    assert [one.memory_total_mib for one in parse(bare).gpus] == [24576, 24576]


def test_a_card_that_is_gone_has_an_error_for_a_row() -> None:
    head, first, _ = ROWS.splitlines(keepends=True)
    error = "Unable to determine the device handle for GPU 0000:0B:00.0: Unknown Error\n"

    report = parse(head + first + error)

    assert (report.failure, report.lost) == ("lost", ("0000:0b:00.0",))
    assert [one.address for one in report.gpus] == ["0000:0a:00.0"]
    assert not report.is_complete


def test_wherever_it_is_cut_what_remains_is_true() -> None:
    whole = parse(ROWS)
    for length in range(len(ROWS)):
        cut = parse(ROWS[:length])
        assert not cut.is_complete, ROWS[:length]
        for one, other in zip(cut.gpus, whole.gpus, strict=False):
            known = {name: value for name, value in vars(one).items() if value is not None}
            others = vars(other)
            for name in known.keys() - {"raw", "line", "troubles"}:
                assert known[name] == others[name], ROWS[:length]


def test_columns_without_the_address_are_no_cards() -> None:
    assert parse("name, temperature.gpu\nNVIDIA GeForce RTX 3090, 45\n").gpus == ()
