"""The units that rigops writes."""

from __future__ import annotations

from pathlib import Path

import pytest

from rigops.rendering import render

TEMPLATES = Path(__file__).resolve().parents[2] / "templates"


def test_no_run_holds_a_timer_for_ever() -> None:
    units = {one.name: one.read_text() for one in TEMPLATES.glob("*.service.j2")}
    oneshot = {name: text for name, text in units.items() if "Type=oneshot" in text}

    assert {"rigops-borg.service.j2", "rigops-failed@.service.j2"} <= oneshot.keys()
    assert [name for name, text in oneshot.items() if "TimeoutStartSec=" not in text] == []
    assert [name for name, text in units.items() if "TimeoutStartSec=infinity" in text] == []


def test_every_unit_reports_its_failure_and_a_copy_that_outlives_its_file_does_not_start() -> None:
    """But for the one that reports: it would report itself, without an end."""
    for unit in TEMPLATES.glob("rigops-*.service.j2"):
        text = unit.read_text()
        begins = "[Unit]\nDescription=" in text and '{% include "rigops-unit.j2" %}\n' in text
        assert begins is (unit.name != "rigops-failed@.service.j2"), unit.name
        assert "OnFailure" not in text


@pytest.mark.parametrize("name", ["snapshots", "borg", "borg-drill"])
def test_backups_wait_for_the_clock_to_be_set(name: str) -> None:
    lines = (TEMPLATES / f"rigops-{name}.service.j2").read_text().splitlines()
    (after,) = [one for one in lines if one.startswith("After=")]

    assert "time-sync.target" in after.split()


def test_a_unit_of_borg_lists_no_path_whose_disk_may_be_absent() -> None:
    """Where one has an automount, systemd does not start it."""
    values = {"program": "/usr/local/libexec/rigops/borg", "state": "/var/lib/rigops"}
    for unit in ("rigops-borg", "rigops-borg-drill"):
        lines = render(f"{unit}.service.j2", **values, credential="").splitlines()
        written = [one for one in lines if one.startswith("ReadWritePaths=")]
        assert written == ["ReadWritePaths=/var/lib/rigops", "ReadWritePaths=/etc/rigops"]
