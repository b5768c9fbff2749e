"""A reprovision as a person reads it."""

from __future__ import annotations

from rigops.errors import HostError
from rigops.report.reprovision import reprovision_lines
from rigops.report.terminal import rendered
from rigops.reprovision.compare import Compared
from rigops.reprovision.result import ReprovisionResult
from rigops.reprovision.state import StageTime

SAME = Compared(subject="driver", verdict="same", before="535", after="535")
OTHER = Compared(
    subject="network aa:01", verdict="other", before="enp5s0", after="enp6s0", note="the same card"
)
WORSE = Compared(subject="GPU 0000:42:00.0", verdict="worse", before="GPU-2", after="absent")


def result(*compared: Compared, name: str = "rig") -> ReprovisionResult:
    return ReprovisionResult(
        host="rig",
        captured_as=name,
        capture="/vault/captures/rig/1",
        captured_at="2026-11-25T16:30:00Z",
        ending="compared",
        compared=compared,
        stages=[
            StageTime(stage="trust", began="", seconds=20),
            StageTime(stage="apply", began="", seconds=250),
        ],
        total_s=400,
        story=["restored /home from borg x"],
    )


def lines(one: ReprovisionResult, *, verbose: bool = False) -> list[str]:
    shown = reprovision_lines(one, 100, verbose=verbose)
    return [rendered(line, color=False) for line in shown]


def test_differences_come_worst_first_and_the_rest_is_counted() -> None:
    assert lines(result(SAME, OTHER, WORSE)) == [
        "rig  WORSE than captured (captured 2026-11-25T16:30:00Z)",
        "  worse   GPU 0000:42:00.0: GPU-2 -> absent",
        "  other   network aa:01: enp5s0 -> enp6s0",
        "          the same card",
        "  1 worse, 1 other, 1 same    All: -v",
        "  restored /home from borg x",
        "  4:30 min: trust 0:20, apply 4:10; all runs 6:40",
    ]
    assert result(WORSE).exit_code == 1


def test_the_same_is_said_in_one_line_and_in_full_on_demand() -> None:
    assert lines(result(SAME))[:2] == [
        "rig  the same as captured (captured 2026-11-25T16:30:00Z)",
        "  1 same    All: -v",
    ]
    assert "  same    driver: 535" in lines(result(SAME), verbose=True)
    assert result(SAME, OTHER).exit_code == 0


def test_another_name_and_an_error_are_said() -> None:
    one = result(name="old")
    one.ending, one.error = "failed", HostError("failed", "no room", "make room")

    shown = lines(one)

    assert shown[0].startswith("rig (as old)  FAILED; run this again")
    assert shown[1:3] == ["  Error: no room", "    fix: make room"]
    assert one.exit_code == 1


def test_json_has_the_schema_first() -> None:
    document = result(SAME).as_json()

    assert next(iter(document)) == "schema"
    assert document["schema"] == "rigops.reprovision/1"
