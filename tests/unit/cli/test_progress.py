"""What is shown of the steps of a host where nobody sits at a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rigops.cli.terminal import Progress

if TYPE_CHECKING:
    import pytest


def test_without_a_terminal_each_step_is_one_line_however_far_it_is(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with Progress("applying") as progress:
        progress.begin("rig")
        for text in (
            "apt is at work",
            "unpacking package 1 of 19, libcuda1",
            "unpacking package 2 of 19, libnvidia-ml1",
            "building the NVIDIA module 535.261.03 for 6.1.0-31",
            "building the NVIDIA module 535.261.03 for 6.12.0-1",
            "trying pair 1 of 6, at most 120 s left",
            "trying pair 2 of 6, about 12 s left",
            "",
        ):
            progress.say("rig", text)

    assert capsys.readouterr().err.splitlines() == [
        "rig: apt is at work",
        "rig: unpacking package 1 of 19, libcuda1",
        "rig: building the NVIDIA module 535.261.03 for 6.1.0-31",
        "rig: building the NVIDIA module 535.261.03 for 6.12.0-1",
        "rig: trying pair 1 of 6, at most 120 s left",
    ]
