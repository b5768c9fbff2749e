"""Programs that would undo what is declared for the cards."""

from __future__ import annotations

import pytest

from rigops.concerns.preconditions import rivals
from rigops.probe.sections import units

SHOWN = """\
== systemctl show
Id=lactd.service
LoadState=loaded
ActiveState={lact}
UnitFileState=enabled

Id=limits.service
LoadState=loaded
ActiveState=inactive
UnitFileState={enabled}

Id=limits.timer
LoadState=not-found
ActiveState=inactive

== grep nvidia-smi
/etc/systemd/system/limits.service:ExecStart=/usr/bin/nvidia-smi -pl 300
/etc/cron.d/gpu:@reboot root nvidia-smi -pm 1
"""


def noticed(lact: str, enabled: str) -> list[str]:
    return list(rivals.notices(units.parse(SHOWN.format(lact=lact, enabled=enabled))))


def test_what_runs_or_is_enabled_is_named_with_what_to_do() -> None:
    daemon, unit = noticed("active", "enabled")

    assert "lactd.service runs" in daemon
    assert "systemctl disable --now --no-reload lactd.service" in daemon
    assert unit.startswith("/etc/systemd/system/limits.service sets the cards too (ExecStart=")


@pytest.mark.parametrize(("lact", "enabled"), [("inactive", "disabled"), ("failed", "masked")])
def test_what_is_off_undoes_nothing_and_persistence_is_no_rival(lact: str, enabled: str) -> None:
    assert noticed(lact, enabled) == []


def test_a_program_without_a_unit_is_named_once() -> None:
    shown = SHOWN.format(lact="active", enabled="disabled")
    programs = "== programs that set cards\npid=1 comm=lactd\npid=2 comm=gwe\n"

    daemon, desktop = rivals.notices(units.parse(programs + shown))

    assert daemon.startswith("lactd.service runs")
    assert desktop == "gwe runs and sets power limits and clocks: end it, or it undoes this"
